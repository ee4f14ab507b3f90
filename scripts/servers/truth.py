"""Exact log-probs of 200 responses under a model, token by token in float64, as JSON.

``python scripts/servers/truth.py MODEL OUT``: the reference of the conformance suite, computed by
transformers and not by any server.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
from cje.policies import PolicyConfig, render_prompt

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
    "empty": [""],
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
    return made[:200]  # the first round of texts is whole, and most of the second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--template", default="chatml")
    parser.add_argument("--eos", default="auto")
    parser.add_argument("--bos", action="store_true", help="BOS stands in front")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model).double().eval()
    config = PolicyConfig(name="p", provider="ngram", template=options.template, eos=options.eos)
    front = [tokenizer.bos_token_id] if options.bos else []

    def encode(text: str, **more: Any) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False, **more)["input_ids"])

    found = cases()
    for case in found:
        prompt, response = render_prompt(config, case["question"]), case["response"]
        before = encode(prompt)
        end = encode(f"x{config.eos_text}")[len(encode("x")) :]
        if config.control_text_in(response) is None:
            inside = encode(prompt + response)
        else:  # what the writer of such a text means: the text, and no control token
            inside = before + encode(response, split_special_tokens=True)
        start = 0
        while start < min(len(before), len(inside)) and before[start] == inside[start]:
            start += 1
        ids = front + inside + end
        start += len(front)
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        values = [float(logits[at - 1, ids[at]]) for at in range(start, len(ids))]
        case |= {"logprob": sum(values), "token_logprobs": values, "ids": ids[start:],
                 "starts_whole": start == len(front) + len(before)}  # fmt: skip
    made = {"template": options.template, "eos": options.eos, "cases": found}
    options.out.write_text(json.dumps(made, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
