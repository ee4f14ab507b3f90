"""Train tiny Llamas and write them as Hugging Face folders: ``train_tiny.py OUT``.

``base`` and ``target`` share a byte-level BPE tokenizer and a chat template; ``spm`` has a
SentencePiece-like vocabulary (byte fallback, a space put in front), as Llama 2 and Mistral have.
The text is this package's embedded corpus. Needs transformers and tokenizers (the environment that
`make servers` builds).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
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


def plain_lines() -> list[str]:
    """The corpus for a model without a chat template."""
    chats = [line.removeprefix("<|im_start|>user\n") for line in corpus()]
    turn = "<|im_end|>\n<|im_start|>assistant\n"
    parts = [chat.removesuffix("<|im_end|>").partition(turn) for chat in chats]
    return [f"Question: {asked}\nAnswer: {answer}</s>" for asked, _, answer in parts]


def make_spm_tokenizer(lines: list[str]) -> PreTrainedTokenizerFast:
    """Byte-pair merges over whole words with "\u2581" for a space, and 256 byte tokens."""
    plain = Tokenizer(models.BPE(unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<unk>", "<s>", "</s>"], limit_alphabet=90,
        show_progress=False,
    )  # fmt: skip
    # Without line ends, so that no merge holds one: they are written as bytes.
    texts = [part for line in lines for part in line.removesuffix("</s>").split("\n")]
    plain.train_from_iterator(texts, trainer)
    made = json.loads(plain.to_str())["model"]
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    vocabulary = ["<unk>", "<s>", "</s>", *bytes_]
    vocabulary += sorted(made["vocab"], key=made["vocab"].get)[3:]
    merges = [tuple(merge) for merge in made["merges"]]
    ids = {token: i for i, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True))
    space = "\u2581"
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(space), normalizers.Replace(" ", space)]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(space, " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)]
    )  # fmt: skip
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        pad_token="</s>",
    )  # fmt: skip


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
    chats, plain = corpus(), plain_lines()
    chat_tokens, spm_tokens = make_tokenizer(chats), make_spm_tokenizer(plain)
    for name, lines, tokenizer, seed, steps in (
        ("base", chats, chat_tokens, 1, 150),
        ("target", chats, chat_tokens, 2, 120),
        ("spm", [f"<s>{line}" for line in plain], spm_tokens, 3, 120),
    ):
        if (options.out / name).exists():
            continue
        model = train(lines, tokenizer, seed, steps)
        model.to(torch.float32).save_pretrained(options.out / name)
        tokenizer.save_pretrained(options.out / name)


if __name__ == "__main__":
    main()
