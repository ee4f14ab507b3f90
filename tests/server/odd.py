"""Answers that are JSON, and well-formed, and hold something that no one expects there."""

from __future__ import annotations

from typing import Any

__all__ = ["make_odd"]


def make_odd(answer: dict[str, Any], fault: str | None) -> dict[str, Any]:
    """`answer` with one value replaced."""
    if fault == "surrogate":
        _broken_text(answer)
    elif fault == "odd-usage":
        answer["usage"] = {"prompt_tokens": 1e300, "completion_tokens": 1e300}
    elif fault == "negative-usage":
        answer["usage"] = {"prompt_tokens": -1000, "completion_tokens": -1000}
    elif fault == "odd-token-id":
        answer["choices"][0]["token_ids"] = [2**63]
    elif fault == "endless-logprob":
        block = answer["choices"][0].get("logprobs") or {}
        if block.get("token_logprobs"):
            block["token_logprobs"] = [None, *[-(10**400)] * (len(block["token_logprobs"]) - 1)]
    return answer


def _broken_text(answer: dict[str, Any]) -> None:
    choice = answer["choices"][0]
    if "text" in choice:
        choice["text"] += "\ud83d"
    elif choice["message"].get("content"):
        text = choice["message"]["content"]
        at = text.find('"reasoning": "') + len('"reasoning": "')
        choice["message"]["content"] = text[:at] + "\ud83d" + text[at:]
