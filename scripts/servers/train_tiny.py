"""Train a tiny Llama with a byte-level BPE tokenizer and write it as a Hugging Face folder.

``python scripts/servers/train_tiny.py OUT [--hot]``: the text is this package's embedded corpus;
`--hot` trains a second model with the same tokenizer, a target policy that differs from the first.
Needs transformers and tokenizers (the environment that `make servers` builds).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def corpus() -> list[str]:
    """Question and answer lines, some with emoji, accents and CJK, as chat turns."""
    from cje.policies.ngram_model import embedded_corpus

    lines = []
    for index, line in enumerate(embedded_corpus()):
        question, _, answer = line.partition("\t")
        spice = ("", "🙂 ", "Évidemment: ", "東京です。", "")[index % 5]
        lines.append(
            f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{spice}"
            f"{answer.strip()}<|im_end|>"
        )
    return lines


def make_tokenizer(lines: list[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<s>", "<|im_end|>", "<|im_start|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    made.chat_template = CHAT
    return made


def train(
    lines: list[str], tokenizer: PreTrainedTokenizerFast, seed: int, steps: int
) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=2048,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    labels = ids.masked_fill(mask == 0, -100)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        rows = torch.randint(len(lines), (32,), generator=generator)
        loss = model(ids[rows], attention_mask=mask[rows], labels=labels[rows]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"loss {loss.item():.3f}")
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = corpus()
    tokenizer = make_tokenizer(lines)
    for name, seed, steps in (("base", 1, 150), ("target", 2, 120)):
        model = train(lines, tokenizer, seed, steps)
        model.to(torch.float32).save_pretrained(options.out / name)
        tokenizer.save_pretrained(options.out / name)


if __name__ == "__main__":
    main()
