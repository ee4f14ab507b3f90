"""What a result allows to be said, forbids, and asks for next, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cje.inference import Severity
from cje.report import Answer
from cje.report.wording import interval, isolated, number, p_value, shorten, signed
from cje.results.comparison import Comparison
from cje.results.result import EstimationResult

__all__ = ["Pairs", "Rows", "answer_of", "told_apart"]

Pairs = Sequence[tuple[Comparison, float]]
Rows = Sequence[dict[str, Any]]

_MOST = 5
_NAME = 48
_MOST_FACTOR = 25.0
_SCOPE = "How the policies do on prompts unlike these, or against other labels than these."


def answer_of(result: EstimationResult, pairs: Pairs, rows: Rows) -> Answer:
    """The answer; `pairs` are `result.compare_all()`, `rows` are `result.rows()`."""
    best = result.best_policy()
    refused = set(result.refused())
    usable = [(c, p) for c, p in pairs if not refused & {c.a, c.b}]
    return Answer(
        (*_leader(result, best.policy, rows), *_differences(result, best.policy, usable)),
        (*_refusals(result), *_open_pairs(result, usable), *_borrowed(result), _SCOPE),
        _steps(result, best.policy, usable),
    )


def told_apart(result: EstimationResult, p: float) -> bool:
    """Significant after Holm's adjustment for the number of pairs."""
    return p < 1.0 - result.level


def _leader(result: EstimationResult, best: str | None, rows: Rows) -> list[str]:
    """The policy with the highest value that may be used."""
    if best is None:
        return []
    row = next(row for row in rows if row["policy"] == best)
    quantity = result.metadata.get("quantity", "mean label")
    value = f"{number(row['estimate'])} ({result.level:.0%} interval "
    value += f"{interval(row['low'], row['high'])})"
    if len(result.policies) == 1:
        words = f"{_name(best)} has a {quantity} of {value}"
    else:
        words = f"{_name(best)} has the highest {quantity}: {value}"
    if best in result.metadata.get("borrowed", ()):
        words += ", if the judge errs on it as on the labelled policies"
    return [words + "."]


def _differences(result: EstimationResult, best: str | None, pairs: Pairs) -> list[str]:
    """Pairs told apart, those with the best policy first."""
    lines = []
    for c, p in sorted(pairs, key=lambda pair: (best not in (pair[0].a, pair[0].b), pair[1])):
        if not told_apart(result, p):
            continue
        high, low = (c.a, c.b) if c.difference > 0 else (c.b, c.a)
        ends = sorted(abs(v) for v in (c.interval.low, c.interval.high))
        lines.append(
            f"{_name(high)} is better than {_name(low)} by {number(abs(c.difference), 3)} "
            f"({interval(*ends, digits=3)}; {p_value(p)})."
        )
    for c, p in pairs:
        held = [d for d in (c, c.reversed()) if d.verdict == "non-inferior"]
        margin = f"less than the margin of {number(c.margin or 0.0, 3)}"
        if len(held) == 2:
            lines.append(f"{_name(c.a)} and {_name(c.b)} differ by {margin}, either way.")
        elif held and not told_apart(result, p):
            a, b = _name(held[0].a), _name(held[0].b)
            lines.append(f"{a} is worse than {b} by {margin}, or not worse at all.")
    return _capped(lines, "differences are in the matrix below")


def _refusals(result: EstimationResult) -> list[str]:
    refused = result.refused()
    whole = [f for f in result.findings if f.severity is Severity.REFUSE and f.subject is None]
    if whole:
        return [f"Anything for a decision: {_text(whole[0].message)}."]
    lines = [f"What {_name(name)} is worth: {_text(reason)}." for name, reason in refused.items()]
    return _capped(lines, "policies were refused too")


def _open_pairs(result: EstimationResult, pairs: Pairs) -> list[str]:
    lines = [
        f"That {_name(c.a)} and {_name(c.b)} differ: {signed(c.difference)} "
        f"({interval(c.interval.low, c.interval.high, sign=True)}; {p_value(p)}) may be chance."
        for c, p in sorted(pairs, key=lambda pair: -pair[1])
        if not told_apart(result, p) and "non-inferior" not in (c.verdict, c.reversed().verdict)
    ]
    return _capped(lines, "pairs are not told apart either")


def _borrowed(result: EstimationResult) -> list[str]:
    refused = result.refused()
    names = [n for n in result.metadata.get("borrowed", ()) if n not in refused]
    if not names:
        return []
    return [f"That the value of {_list(names)} was checked: it rests on labels of other policies."]


def _steps(result: EstimationResult, best: str | None, pairs: Pairs) -> tuple[str, ...]:
    """Actions of the findings, worst first, each once; then what would settle an open pair."""
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
        lines = ["Nothing is in the way: use the numbers together with their intervals."]
    return tuple(lines)


def _settle(result: EstimationResult, best: str, pairs: Pairs) -> list[str]:
    """How much more data the best policy's closest rival needs, at the difference seen now."""
    rivals = [c for c, p in pairs if best in (c.a, c.b) and not told_apart(result, p)]
    if not rivals:
        return []
    closest = min(rivals, key=lambda c: abs(c.difference))
    rival = closest.b if closest.a == best else closest.a
    half = 0.5 * (closest.interval.high - closest.interval.low)
    factor = (half / abs(closest.difference)) ** 2 if closest.difference else float("inf")
    pair = f"{_name(best)} and {_name(rival)}"
    if factor > _MOST_FACTOR:
        return [
            f"Treat {pair} as equals for now: to show a difference as small as the one seen would "
            f"take over {_MOST_FACTOR:.0f} times the prompts and labels."
        ]
    if factor <= 1.0:  # its own interval excludes zero; the other comparisons cost it that
        return [f"To settle {pair} alone, plan that one comparison and repeat it on new prompts."]
    return [
        f"To tell {pair} apart, about {max(factor, 1.5):.2g} times as many prompts and labels are "
        "needed, if the difference is what it looks like now."
    ]


def _name(name: str) -> str:
    return isolated(name, _NAME)


def _text(words: str) -> str:
    return shorten(words.rstrip("."), 400)


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(_name(name) for name in names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more"


def _capped(lines: list[str], rest: str) -> list[str]:
    """At most a handful of lines; the number of those left out, and where they are."""
    if len(lines) <= _MOST:
        return lines
    return [*lines[: _MOST - 1], f"{len(lines) - _MOST + 1} more {rest}."]
