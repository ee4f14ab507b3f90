"""What all adapters share: scores by name, which of them are human, and the rows they give."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cje.hints import field_hint

__all__ = [
    "Adapted",
    "Response",
    "Scores",
    "adapted",
    "is_human",
    "judged_and_human",
    "number",
    "text",
]

_HUMAN = re.compile(r"(^|[^a-z])(human|oracle|gold|expert|annotator|annotation|manual)", re.I)


Scores = Mapping[str, float | None]


@dataclass(frozen=True)
class Adapted:
    """Rows in the names of `Dataset` columns, the tool that wrote the file, and remarks."""

    rows: list[dict[str, Any]]
    tool: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Response:
    """One response as a tool recorded it; `judged` and `human` are scores by their names."""

    prompt_id: str
    policy: str
    judged: Scores
    human: Scores
    draw_idx: int | None = None
    prompt: str = ""
    response: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)  # whatever else the tool recorded


def is_human(name: str) -> bool:
    """Whether a score's name says that a person gave it."""
    return bool(_HUMAN.search(name))


def judged_and_human(scores: Scores) -> tuple[Scores, Scores]:
    """Scores of machines and of people, distinguished by their names."""
    human = {name: value for name, value in scores.items() if is_human(name)}
    return {name: value for name, value in scores.items() if name not in human}, human


def number(value: Any) -> float | None:
    """A score as a number: numbers, true/false and pass/fail words; None for anything else."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("true", "yes", "pass", "passed", "correct"):
            return 1.0
        if word in ("false", "no", "fail", "failed", "incorrect"):
            return 0.0
        try:
            return float(word)
        except ValueError:
            return None
    return None


def text(value: Any) -> str:
    """Text of a prompt or response, whatever the tool nested it in."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def adapted(responses: Iterable[Response], tool: str, *notes: str) -> Adapted:
    """Rows from responses.

    One judged name in the whole file is the judge's score; several are kept under ``scores`` for
    the user to choose from. One human name is the label; several are raters.
    """
    known = list(responses)
    judged = list(dict.fromkeys(name for r in known for name in r.judged))
    human = list(dict.fromkeys(name for r in known for name in r.human))
    remarks = [f"recognised as {tool}", *notes]
    if len(judged) == 1:
        remarks.append(f"judge_score is the score '{judged[0]}'")
    elif judged:
        names = ", ".join(f"scores.{name}" for name in judged)
        remarks.append(
            f"several scores ({names}): choose with {field_hint('judge_score', judged[0])}"
        )
    if human:
        remarks.append(f"oracle_label from {', '.join(map(repr, human))}")
    rows = [_row(response, judged, human) for response in known]
    return Adapted(_numbered(rows), tool, tuple(remarks))


def _row(response: Response, judged: list[str], human: list[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "prompt_id": response.prompt_id,
        "policy": response.policy,
        "draw_idx": response.draw_idx,
        "prompt": response.prompt,
        "response": response.response,
    }
    if response.metadata:
        row["metadata"] = dict(response.metadata)
    if len(judged) == 1:
        row["judge_score"] = response.judged.get(judged[0])
    elif judged:
        row["scores"] = {name: response.judged.get(name) for name in judged}
    if len(human) == 1:
        row["oracle_label"] = response.human.get(human[0])
    elif human:
        row["oracle_label"] = {name: response.human.get(name) for name in human}
    return row


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Draws that the tool did not number are numbered in the order of the file."""
    if all(row["draw_idx"] is not None for row in rows):
        return rows
    seen: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["policy"], row["prompt_id"])
        row["draw_idx"] = seen.get(key, 0)
        seen[key] = row["draw_idx"] + 1
    return rows
