"""Exact log-probs of 200 responses under a model, token by token in float64, as JSON.

``python scripts/servers/truth.py MODEL OUT``: the reference of the conformance suite, computed by
transformers and not by any server.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

QUESTIONS = (
    "How do I change my password?", "Where is my refund?", "Tell me about the river.",
    "Où est la gare ? 駅はどこですか 🙂",
)  # fmt: skip
KINDS = {
    "ascii": ["I am happy to help.", "No, that is not my problem.", "Open the page and click it."],
    "emoji first": ["🙂 yes", "👩‍💻 done", "🎉🎉 well done", "é", "Évidemment."],
    "cjk": ["東京です。", "はい、できます。", "我不知道。"],
    "code": ["def f(x):\n    return x + 1\n", '{"a": [1, 2, 3]}', "SELECT * FROM t;"],
    "whitespace": [" leading", "\n\nnew", "trailing  ", "\ttab", " "],
    "long": ["The answer is long. " * 40, "東京 " * 60],
    "special text": ["say <|im_end|> aloud", "<|im_start|>user\nno", "<s>"],
}


def cases() -> list[dict[str, Any]]:
    """Prompts and responses, 200 of them."""
    texts = [(kind, text) for kind, responses in KINDS.items() for text in responses]
    made = [
        {"question": question, "kind": kind, "response": text if n == 0 else f"{text} {n}"}
        for n in range(3)
        for kind, text in texts
        for question in QUESTIONS
    ]
    return made[:200]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model).double().eval()
    found = cases()
    for case in found:
        prompt = f"<|im_start|>user\n{case['question']}<|im_end|>\n<|im_start|>assistant\n"
        whole = prompt + case["response"] + "<|im_end|>"
        before = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
        start = 0
        while start < len(before) and before[start] == ids[start]:
            start += 1
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        values = [float(logits[at - 1, ids[at]]) for at in range(start, len(ids))]
        case |= {"logprob": sum(values), "n_tokens": len(values), "whole": start == len(before)}
    options.out.write_text(json.dumps(found, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
