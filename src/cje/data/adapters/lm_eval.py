"""lm-evaluation-harness samples (`samples_<task>_<date>.jsonl`, written with --log_samples)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.adapters.scores import Adapted, Response, adapted, number, text

__all__ = ["from_lines", "known_line"]


def known_line(first: Mapping[str, Any]) -> bool:
    return {"doc_id", "doc", "resps", "filtered_resps"} <= set(first)


def from_lines(objects: Sequence[Mapping[str, Any]], path: Path) -> Adapted:
    """One row per document; the policy is the folder's name (the harness names it after the model).

    Where several filters were applied to one response, the first one's rows are kept.
    """
    filters = list(dict.fromkeys(str(line.get("filter")) for line in objects))
    notes = []
    if len(filters) > 1:
        notes.append(f"filter '{filters[0]}' kept, ignored: {', '.join(filters[1:])}")
    kept = [line for line in objects if str(line.get("filter")) == filters[0]]
    policy = path.resolve().parent.name or path.stem
    return adapted(_responses(kept, policy), "lm-evaluation-harness samples", *notes)


def _responses(lines: Sequence[Mapping[str, Any]], policy: str) -> Iterator[Response]:
    for line in lines:
        metrics = line.get("metrics") or [k for k in ("acc", "exact_match") if k in line]
        yield Response(
            prompt_id=str(line["doc_id"]),
            policy=policy,
            judged={str(name): number(line.get(name)) for name in metrics},
            human={},
            prompt=_prompt(line.get("arguments")),
            response=_first_text(line.get("filtered_resps")),
            metadata={"doc": line["doc"]} if isinstance(line.get("doc"), dict) else {},
        )


def _prompt(arguments: Any) -> str:
    """The text that was sent: a list of argument lists, or of named arguments."""
    if isinstance(arguments, dict):
        first = next(iter(arguments.values()), "")
        return text(first.get("arg_0", first) if isinstance(first, dict) else first)
    while isinstance(arguments, list) and arguments:
        arguments = arguments[0]
    return text(arguments)


def _first_text(value: Any) -> str:
    while isinstance(value, list) and value:
        value = value[0]
    return text(value)
