"""Log-probs from weights: two small models made here, scored as any open model is."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from cje.pipeline.scoring import score_file

QUESTIONS = [f"How long is river number {i}?" for i in range(30)]
rows = [
    {"prompt_id": f"q{i}", "prompt": question, "response": f" About {10 * i} miles.",
     "judge_score": (i * 7 % 10) / 10, "policy": "prod"}
    for i, question in enumerate(QUESTIONS)
]  # fmt: skip
Path("logged.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

tokeniser = Tokenizer(models.BPE())
tokeniser.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokeniser.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(
    vocab_size=300, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
)
tokeniser.train_from_iterator([row["prompt"] + row["response"] for row in rows], trainer)
config = LlamaConfig(
    vocab_size=tokeniser.get_vocab_size(), hidden_size=32, intermediate_size=64,
    num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256,
)  # fmt: skip
for seed, name in enumerate(("prod", "cand")):
    torch.manual_seed(seed)
    LlamaForCausalLM(config).save_pretrained(name)
    PreTrainedTokenizerFast(tokenizer_object=tokeniser, eos_token="<end>").save_pretrained(name)

# The same on the command line:
# cje score logged.jsonl --policy prod=prod --policy cand=cand -o scored.jsonl
found = score_file(
    "logged.jsonl",
    [{"name": name, "provider": "transformers", "model": name, "template": "auto", "device": "cpu"}
     for name in ("prod", "cand")],
    "scored.jsonl",
)  # fmt: skip
print(found.text())
