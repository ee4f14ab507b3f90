"""A judge behind the chat route: a noisy, biased reading of the response it is shown."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

__all__ = ["answer_as_judge", "quality"]

GOOD = {"help", "happy", "please", "reset", "refund", "send", "choose", "open", "thank", "change"}
BAD = {"not", "problem", "no", "wrong", "else", "sorry", "know"}
_TAGGED = re.compile(r"<(response|response_a|response_b)-([0-9a-f]+)>\n(.*?)\n</\1-\2>", re.S)


def quality(text: str) -> float:
    """How good a response is, on [0, 1]: the truth behind every judge here."""
    words = re.findall(r"[a-z']+", text.lower())
    if not words:
        return 0.0
    points = sum((w in GOOD) - (w in BAD) for w in words) / math.sqrt(len(words))
    return 1.0 / (1.0 + math.exp(-1.2 * points))


def answer_as_judge(body: dict[str, Any], model: str, *, structured: bool) -> dict[str, Any]:
    """Text of the judge's message, with the tokens and alternatives of its verdict."""
    prompt = "\n".join(m["content"] for m in body["messages"])
    shown = {tag: text for tag, _, text in _TAGGED.findall(prompt)}
    seed = int(body.get("seed") or 0)
    noise = 0.02 if model.startswith("oracle") else 0.1
    spread = noise * (0.0 if float(body.get("temperature", 1.0)) == 0.0 else 1.0)
    rng = np.random.default_rng([seed, len(prompt)])

    def reading(text: str) -> float:
        value = quality(text) + rng.normal(0.0, spread)
        if not model.startswith("oracle"):
            value = 0.15 + 0.8 * value  # this judge is generous
        return min(1.0, max(0.0, value))

    if "response_a" in shown:
        a, b = reading(shown["response_a"]), reading(shown["response_b"])
        verdict: dict[str, Any] = {"winner": "A" if a > b else "B" if b > a else "tie"}
        value = 0.5
    else:
        value = reading(shown.get("response", prompt[-200:]))
        verdict = _verdict(body, value, structured)
    return _as_text(verdict, value, structured, body)


def _verdict(body: dict[str, Any], value: float, structured: bool) -> dict[str, Any]:
    fields = (
        ((body.get("response_format") or {}).get("json_schema") or {})
        .get("schema", {})
        .get("properties", {})
    )
    if "verdict" in fields or (not fields and "PASS" in body["messages"][-1]["content"]):
        return {"verdict": "PASS" if value >= 0.5 else "FAIL"}
    score = fields.get("score", {})
    low, high = _range(body, score)
    out: dict[str, Any] = {"score": round(low + value * (high - low), 3)}
    if score.get("type") == "integer":
        out["score"] = round(out["score"])
    if "lower" in fields:
        half = 0.1 * (high - low)
        out["lower"] = max(low, out["score"] - half)
        out["upper"] = min(high, out["score"] + half)
    return out


def _range(body: dict[str, Any], score: dict[str, Any]) -> tuple[float, float]:
    if "minimum" in score:
        return float(score["minimum"]), float(score["maximum"])
    text = "\n".join(m["content"] for m in body["messages"])
    found = re.search(r"from (\d+(?:\.\d+)?) \(worst\) to (\d+(?:\.\d+)?) \(best\)", text)
    return (float(found[1]), float(found[2])) if found else (0.0, 10.0)


def _as_text(
    verdict: dict[str, Any], value: float, structured: bool, body: dict[str, Any]
) -> dict[str, Any]:
    field, choice = next(iter(verdict.items()))
    if structured and body.get("response_format"):
        text = json.dumps({"reasoning": "I compared it with the question.", **verdict})
    else:
        text = f"I compared it with the question.\n\n{field.capitalize()}: {choice}"
    shown = json.dumps(choice) if structured and body.get("response_format") else str(choice)
    at = text.rindex(shown)
    pieces = [text[:at], shown, text[at + len(shown) :]]
    return {
        "text": text,
        "tokens": [p for p in pieces if p],
        "top": _alternatives(shown, choice, value),
    }


def _alternatives(shown: str, choice: Any, value: float) -> dict[str, float]:
    """Log-probs of the verdict token and its rivals."""
    if choice in ("PASS", "FAIL"):
        quote = '"' if shown.startswith('"') else ""
        p = min(0.98, max(0.02, value))
        return {f"{quote}PASS{quote}": math.log(p), f"{quote}FAIL{quote}": math.log1p(-p)}
    if isinstance(choice, int):
        near = {choice - 1: 0.2, choice: 0.6, choice + 1: 0.2}
        return {str(number): math.log(p) for number, p in near.items()}
    return {shown: 0.0}
