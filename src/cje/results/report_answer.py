"""Sentences on what the result supports, what it does not, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cje.findings.labels import FIRST_ROWS_LABELLED, LABELS_MODELLED
from cje.inference import Interval, Severity
from cje.report import Answer
from cje.report.wording import fixed, isolated, shorten
from cje.results.comparison import Comparison
from cje.results.decimals import decimals_for
from cje.results.headline import pair_sentence, question, unit
from cje.results.result import EstimationResult

__all__ = ["Pairs", "Rows", "answer_of", "significant"]

Pairs = Sequence[tuple[Comparison, float]]
Rows = Sequence[dict[str, Any]]

_MOST = 5
_NAME = 48
_MOST_FACTOR = 25.0
_SCOPE = "How the versions perform on prompts unlike these, or by labels of another kind."


def answer_of(result: EstimationResult, pairs: Pairs, rows: Rows) -> Answer:
    """The answer; `pairs` are `result.compare_all()`, `rows` are `result.rows()`."""
    best = result.best_policy().policy
    usable = sorted(
        ((c, p) for c, p in pairs if c.refused is None),
        key=lambda pair: (pair[0].b != result.baseline, pair[1]),
    )
    decided: list[str] = []
    undecided: list[str] = []
    for c, _ in usable:
        sentence = pair_sentence(result, c, name=_name)
        (undecided if c.verdict == "inconclusive" else decided).append(sentence)
        back = c.reversed().verdict
        if c.verdict == back == "non-inferior":
            decided.append(
                f"{_name(c.a)} and {_name(c.b)} differ by less than {_margin(result, c)}."
            )
        elif back == "non-inferior" and c.verdict == "inconclusive":
            decided.append(f"{_name(c.b)} is at most {_margin(result, c)} worse than {_name(c.a)}.")
    return Answer(
        (*_capped(decided, "differences are in the table below"), *_leader(result, best, rows)),
        (
            *_refusals(result),
            *_capped(undecided, "pairs without a significant difference are in the table below"),
            *_borrowed(result),
            *_selected(result),
            _SCOPE,
        ),
        _steps(result, best, usable),
        question(result),
    )


def _margin(result: EstimationResult, c: Comparison) -> str:
    return f"{c.margin:g}{unit(result)}"


def _leader(result: EstimationResult, best: str | None, rows: Rows) -> list[str]:
    """The usable version with the highest value."""
    if best is None:
        return []
    row = next(row for row in rows if row["policy"] == best)
    quantity = result.metadata.get("quantity", "mean label")
    limits = Interval(row["low"], row["high"], result.level)
    d = decimals_for(limits)
    value = f"{fixed(row['estimate'], d)} ({result.level:.0%} interval "
    value += f"{fixed(row['low'], d)} to {fixed(row['high'], d)})"
    if len(result.policies) == 1:
        words = f"{_name(best)} has a {quantity} of {value}"
    else:
        words = f"{_name(best)} has the highest {quantity}: {value}"
    if best in result.metadata.get("borrowed", ()):
        words += ", if the judge errs on it as on the labelled versions"
    return [words + "."]


def _refusals(result: EstimationResult) -> list[str]:
    refused = result.refused()
    whole = [f for f in result.findings if f.severity is Severity.REFUSE and f.subject is None]
    if whole:
        return [f"No result here supports a decision: {_text(whole[0].message)}."]
    lines = [
        f"The value of {_name(name)} cannot be reported: {_text(reason)}."
        for name, reason in refused.items()
    ]
    return _capped(lines, "versions were refused too")


def _borrowed(result: EstimationResult) -> list[str]:
    refused = result.refused()
    names = [n for n in result.metadata.get("borrowed", ()) if n not in refused]
    if not names:
        return []
    return [
        f"The value of {_list(names)} rests on labels of other versions: there are too few of its "
        "own."
    ]


def _selected(result: EstimationResult) -> list[str]:
    """Sentences on values that rest on a model of the selection of labels."""
    refused = result.refused()
    return [
        f"The value of {_name(f.subject)} without an assumption: {_text(f.message)}."
        for f in result.findings
        if f.code in (LABELS_MODELLED.code, FIRST_ROWS_LABELLED.code)
        and f.subject is not None
        and f.subject not in refused
    ]


def _steps(result: EstimationResult, best: str | None, pairs: Pairs) -> tuple[str, ...]:
    """Actions of the findings, worst first, each once; then what would decide an open pair."""
    actions: dict[str, list[str]] = {}
    for severity in (Severity.REFUSE, Severity.WARNING):
        for finding in result.findings:
            if finding.severity is severity:
                names = actions.setdefault(finding.action, [])
                if finding.subject is not None and finding.subject not in names:
                    names.append(finding.subject)
    lines = [
        (
            f"{_list(names)}: {_text(action)}."
            if names
            else f"{action[:1].upper()}{_text(action[1:])}."
        )
        for action, names in actions.items()
    ]
    lines = _capped(lines, "steps are with the findings below")
    if best is not None:
        lines += _settle(result, best, pairs)
    if not lines:
        lines = ["No step is needed: use the numbers together with their intervals."]
    return tuple(lines)


def _settle(result: EstimationResult, best: str, pairs: Pairs) -> list[str]:
    """How much more data would separate the best policy from its closest rival."""
    rivals = [c for c, p in pairs if best in (c.a, c.b) and not significant(result, p)]
    if not rivals:
        return []
    closest = min(rivals, key=lambda c: abs(c.difference))
    rival = closest.b if closest.a == best else closest.a
    half = 0.5 * (closest.interval.high - closest.interval.low)
    factor = (half / abs(closest.difference)) ** 2 if closest.difference else float("inf")
    pair = f"{_name(best)} and {_name(rival)}"
    if factor > _MOST_FACTOR:
        return [
            f"Treat {pair} as equal for now: a difference as small as the one seen would need more "
            f"than {_MOST_FACTOR:.0f} times the prompts and labels."
        ]
    if factor <= 1.0:  # the interval excludes zero before the adjustment for the other pairs
        return [f"To decide between {pair} only, repeat that one comparison on new prompts."]
    return [
        f"To decide between {pair}, about {max(factor, 1.5):.2g} times as many prompts and labels "
        "are needed, if the true difference is the one seen now."
    ]


def significant(result: EstimationResult, p: float) -> bool:
    """Significant after Holm's adjustment for the number of pairs."""
    return p < 1.0 - result.level


def _name(name: str) -> str:
    return isolated(name, _NAME)


def _text(words: str) -> str:
    return shorten(words.rstrip("."), 400)


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(_name(name) for name in names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def _capped(lines: list[str], rest: str) -> list[str]:
    """The first few lines, then the number of omitted lines and where they are."""
    if len(lines) <= _MOST:
        return lines
    return [*lines[: _MOST - 1], f"{len(lines) - _MOST + 1} more {rest}."]
