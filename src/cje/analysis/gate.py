"""The gate: PASS, FAIL or UNDECIDED for a candidate that may replace the baseline, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from cje.analysis.gate_labels import what_would_decide
from cje.errors import CJEError
from cje.hints import option_hint
from cje.inference import Decision, GateRule, Interval
from cje.inference.sequential import AnytimeRule, anytime_intervals
from cje.results.comparison import Comparison, compare
from cje.results.decimals import decimals_for
from cje.results.headline import on_labels, unit
from cje.results.result import EstimationResult

__all__ = ["EXIT_CODES", "GateResult", "GateRow", "candidate_of", "gate"]

EXIT_CODES = {Decision.PASS: 0, Decision.FAIL: 1, Decision.UNDECIDED: 2}
Undecided = Literal["undecided", "pass", "fail"]


@dataclass(frozen=True)
class GateRow:
    """The decision for all rows, or for one level of a subgroup column.

    Attributes
    ----------
    group : str
        ``"column=level"``; empty for all rows.
    difference, low, high : float, optional
        Candidate minus baseline with its interval: unadjusted for all rows, adjusted for the number
        of levels (Bonferroni) within a column. None if refused, or without rows.
    reason : str
        Why there is no interval.
    """

    group: str
    decision: Decision
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class GateResult:
    """A decision about one candidate.

    Attributes
    ----------
    decision : Decision
        Of all rows; with `each` the worst over all rows and all levels.
    rows : tuple of GateRow
        All rows first, then the levels of the subgroup columns.
    undecided : {"undecided", "pass", "fail"}
        How UNDECIDED counts in `exit_code`.
    needed : str
        What would decide an UNDECIDED gate: more labels, or the action of a refusal.
    """

    baseline: str
    candidate: str
    rule: GateRule
    decision: Decision
    rows: tuple[GateRow, ...]
    each: bool
    undecided: Undecided
    needed: str
    result: EstimationResult

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 2 undecided."""
        if self.decision is Decision.UNDECIDED and self.undecided != "undecided":
            return EXIT_CODES[Decision[self.undecided.upper()]]
        return EXIT_CODES[self.decision]

    def sentences(self) -> list[str]:
        """The decision with its interval, its meaning, and what would decide an open gate."""
        whole, points = self.rows[0], unit(self.result)
        labels = on_labels(self.result, self.candidate, self.baseline)
        names = f"{self.candidate} minus {self.baseline}"
        found = [f"{self.decision}: {self._meaning()}."]
        if whole.low is None or whole.high is None or whole.difference is None:
            found.append(f"{names} cannot be reported: {whole.reason.rstrip('.')}.")
        else:
            d = decimals_for(Interval(whole.low, whole.high))
            found.append(
                f"{names} is {whole.difference:+.{d}f}{points} ({self._interval()} "
                f"{whole.low:+.{d}f} to {whole.high:+.{d}f}){labels}."
            )
        if self.decision is Decision.UNDECIDED:
            found.append(self.needed)
        else:
            found.append(self._rule_sentence())
        return found

    def _meaning(self) -> str:
        who = f"{self.candidate} is"
        if self.decision is Decision.PASS:
            return f"{who} {self.rule.claim(self.baseline)}"
        if self.decision is Decision.FAIL:
            failed = [row.group for row in self.rows if row.decision is Decision.FAIL and row.group]
            inside = "" if self.rows[0].decision is Decision.FAIL else f" where {', '.join(failed)}"
            return f"{who} {self.rule.opposite(self.baseline)}{inside}"
        claim = f"{self.candidate} is {self.rule.claim(self.baseline)}"
        return f"the data do not show whether {claim}"

    def _rule_sentence(self) -> str:
        t = self.rule.threshold
        return (
            f"The rule: pass if the whole {self._interval()} lies above {t:g}, "
            f"fail if it lies below {t:g}, otherwise undecided."
        )

    def _interval(self) -> str:
        kind = "anytime interval" if "anytime" in self.result.metadata else "interval"
        return f"{self.result.level:.0%} {kind}"

    def cautions(self) -> list[str]:
        """Conditions of the decision besides its interval, such as borrowed calibration."""
        pair = self.result.compare_policies(self.candidate, self.baseline)
        return [f"Caution: {caveat}." for caveat in pair.caveats]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "decision": str(self.decision),
            "exit_code": self.exit_code,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "threshold": self.rule.threshold,
            "margin": self.rule.margin,
            "min_gain": self.rule.min_gain,
            "level": self.result.level,
            "each": self.each,
            "undecided_counts_as": self.undecided,
            "rows": [asdict(row) | {"decision": str(row.decision)} for row in self.rows],
            "sentences": self.sentences(),
            "cautions": self.cautions(),
            "needed": self.needed,
        }


def gate(
    result: EstimationResult,
    candidate: str,
    baseline: str | None = None,
    *,
    rule: GateRule | None = None,
    each: bool = False,
    undecided: Undecided = "undecided",
) -> GateResult:
    """Decide about `candidate` against `baseline` from a result.

    Only the interval of their difference and refusals decide; other findings do not. A result with
    anytime intervals (``analyze_dataset(..., anytime=True)``) is decided by the anytime interval,
    so the gate may be asked after every label: over all looks together, a candidate at the
    threshold gets a PASS or a FAIL with probability at most one minus the level.

    Parameters
    ----------
    result : EstimationResult
        Its subgroups, if any, are reported as well.
    baseline : str, optional
        The result's own by default.
    rule : GateRule, optional
        Superiority by default.
    each : bool
        Every level of every subgroup column must also pass.
    undecided : {"undecided", "pass", "fail"}
        How UNDECIDED counts in the exit code.

    Raises
    ------
    CJEError
        For an unknown version, a candidate that is the baseline, an unknown `undecided`, or
        subgroups of a result with anytime intervals, as these have none.
    """
    if undecided not in ("undecided", "pass", "fail"):
        raise CJEError("an undecided gate counts as pass or fail", value=undecided)
    rule = rule or GateRule()
    base = result.baseline if baseline is None else baseline
    for name in (base, candidate):
        if name not in result.policies:
            raise CJEError(
                "the version is not in the data",
                value=name,
                hint=f"the versions are {', '.join(result.policies)}",
            )
    pair = result.compare_policies(candidate, base)
    anytime = result.metadata.get("anytime")
    if anytime is not None and result.subgroups:
        raise CJEError(
            "subgroups have no anytime intervals",
            value=", ".join(result.subgroups),
            hint="decide about all rows, or about subgroups at a number of labels fixed beforehand",
        )
    if anytime is None:
        whole = _row("", pair, pair.interval, rule)
    else:
        whole = _anytime_row(pair, result, rule)
    groups = [
        row for part in result.subgroups.values() for row in _levels(part, candidate, base, rule)
    ]
    decision = whole.decision
    if each:
        decision = _worst([whole, *groups])
    found = GateResult(
        base, candidate, rule, decision, (whole, *groups), each, undecided, "", result
    )
    if decision is not Decision.UNDECIDED:
        return found
    if anytime is not None and pair.refused is None:
        return replace(found, needed="Keep labelling: look as often as you like.")
    return replace(found, needed=what_would_decide(result, pair, rule, _open(whole, groups)))


def candidate_of(result: EstimationResult, baseline: str, candidate: str | None) -> str:
    """The named candidate, or the only version other than the baseline.

    Raises
    ------
    CJEError
        Several versions could be meant.
    """
    if candidate is not None:
        return candidate
    others = [name for name in result.policies if name != baseline]
    if len(others) != 1:
        raise CJEError(
            "which version is the candidate?",
            value=", ".join(others),
            hint=f"name it: {option_hint('candidate', others[0] if others else 'NAME')}",
        )
    return others[0]


def _open(whole: GateRow, groups: Sequence[GateRow]) -> str:
    """The levels that keep a gate undecided although all rows pass."""
    if whole.decision is Decision.UNDECIDED:
        return ""
    return ", ".join(row.group for row in groups if row.decision is Decision.UNDECIDED)


def _worst(rows: Sequence[GateRow]) -> Decision:
    decisions = {row.decision for row in rows}
    for decision in (Decision.FAIL, Decision.UNDECIDED):
        if decision in decisions:
            return decision
    return Decision.PASS


def _row(group: str, pair: Comparison, interval: Interval | None, rule: GateRule) -> GateRow:
    if pair.refused is not None or interval is None:
        return GateRow(group, Decision.UNDECIDED, reason=pair.refused or "no interval")
    low, high = interval
    return GateRow(group, rule.decide(low, high), pair.difference, low, high)


def _anytime_row(pair: Comparison, result: EstimationResult, rule: GateRule) -> GateRow:
    """The decision by the interval that holds at every look."""
    if pair.refused is not None:
        return _row("", pair, None, rule)
    made = result.metadata["anytime"]
    sequence = AnytimeRule(made["tuned_at"], level=made["level"], method=made["method"])
    difference = result.influence.difference(pair.a, pair.b)
    look = anytime_intervals(difference, made["labels"], sequence)[0]
    if not look.open:
        reason = f"{made['labels']} labels are too few for a first anytime look"
        return GateRow("", Decision.UNDECIDED, reason=reason)
    return _row("", pair, look.interval, rule)


def _levels(part: EstimationResult, candidate: str, baseline: str, rule: GateRule) -> list[GateRow]:
    """The decision within each level; intervals adjusted for the number of levels."""
    cells = part.cells or ()
    names = {
        (cell["policy"], cell["level"]): name
        for cell, name in zip(cells, part.policies, strict=True)
    }
    levels = list(dict.fromkeys(cell["level"] for cell in cells))
    column = cells[0]["column"]
    refused, found = part.refused(), []
    for level in levels:
        group = f"{column}={level}"
        a, b = names.get((candidate, level)), names.get((baseline, level))
        if a is None or b is None:
            missing = candidate if a is None else baseline
            reason = f"{missing} has no rows of this level, or too few to estimate"
            found.append(GateRow(group, Decision.UNDECIDED, reason=reason))
            continue
        reasons = [refused[name] for name in (a, b) if name in refused]
        if reasons:
            found.append(GateRow(group, Decision.UNDECIDED, reason="; ".join(reasons)))
            continue
        pair = compare(
            part.influence, a, b, level=part.level, margin=None, caveats=(), among=len(levels)
        )
        found.append(_row(group, pair, pair.adjusted_interval, rule))
    return found
