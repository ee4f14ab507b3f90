"""`EstimationResult`: the result of every estimator, on the label's own scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cje.inference import CalibrationCurve, Finding, InfluenceEstimate, Severity
from cje.kernels.arrays import FloatArray
from cje.results.best import find_best
from cje.results.caveats import caveats_about, warnings_about
from cje.results.comparison import (
    BestPolicy,
    Comparison,
    adjusted,
    check_margin,
    compare,
    refused_pair,
)
from cje.results.intervals import Intervals
from cje.results.pairing import levels, paired_positions
from cje.results.table import (
    NUMBERS,
    gathered_findings,
    pair_rows,
    value_rows,
    without_refused,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cje.report import Part
    from cje.results.evidence import Evidence
    from cje.results.kept import KeptAnswers

__all__ = ["EstimationResult"]

_NOTHING = (math.nan, math.nan)
"""Beyond this number, policies are compared only with the baseline and the best one."""


@dataclass(frozen=True, eq=False, repr=False)
class EstimationResult:
    """Policy values with their uncertainty, and findings on what the data cannot support.

    A value that a gate refused has no number in `rows`, `to_frame`, `ci`, comparisons, text,
    report, pictures or the fields of the JSON: its reason is there. The computed value is in
    `influence`, and in the JSON under ``diagnostics["refused_values"]``.

    Parameters
    ----------
    estimator : str
        Name of the estimator, as in the registry.
    influence : InfluenceEstimate
        One quantity per policy, on the label's own scale; all other numbers follow from it.
    diagnostics : mapping
        Numbers behind the estimates, plain JSON types.
    metadata : mapping
        ``target_policies`` (the order of `estimates`), ``borrowed`` (policies whose value rests on
        other policies' labels), ``baseline``, ``level``, ``margin``, ``quantity`` and more.
    findings : tuple of Finding
        Gates and warnings; ``Severity.REFUSE`` with a policy as subject keeps it from being best.
    curves : mapping name -> CalibrationCurve
        Calibration curves to draw.
    subgroups : mapping column -> EstimationResult
        The same question within each level of a column. A quantity is then a policy within a
        level: its name is ``"policy | level"``, its parts are in ``metadata["cells"]`` (``policy``,
        ``column``, ``level``, in the order of `estimates`). Intervals are joint, comparisons are of
        policies within one level, adjusted for their number.
    evidence : Evidence, optional
        References to the rows behind it, for `to_html` and the plots; never written to JSON.
    kept : KeptAnswers, optional
        The saved numbers, for a result loaded without its influence matrix.
    """

    estimator: str
    influence: InfluenceEstimate
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    curves: Mapping[str, CalibrationCurve] = field(default_factory=dict)
    subgroups: Mapping[str, EstimationResult] = field(default_factory=dict)
    evidence: Evidence | None = field(default=None, repr=False)
    kept: KeptAnswers | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        names = {"target_policies": list(self.influence.names), "estimator": self.estimator}
        object.__setattr__(self, "metadata", {**self.metadata, **names})
        object.__setattr__(self, "findings", tuple(self.findings))

    # ---- numbers --------------------------------------------------------------------------------

    @property
    def policies(self) -> tuple[str, ...]:
        """Names, in the order of `estimates`."""
        return self.influence.names

    @property
    def estimates(self) -> FloatArray:
        """Estimated value of each policy, as computed: refused or not (see `rows`, `ci`)."""
        return self.influence.values

    @property
    def baseline(self) -> str:
        """The policy that others are compared with: ``metadata["baseline"]``, or the first policy.

        Comparisons are candidate minus baseline, and tables begin with it.
        """
        named = self.metadata.get("baseline")
        known = self.policies if self.cells is None else [c["policy"] for c in self.cells]
        return str(named) if named in known else known[0]

    def _is_baseline(self, name: str) -> bool:
        if self.cells is not None:
            return self.cells[self.influence.index(name)]["policy"] == self.baseline
        return name == self.baseline

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Positions of the quantities, those of the baseline first."""
        first = [self._is_baseline(name) for name in self.policies]
        return tuple(sorted(range(len(first)), key=lambda k: not first[k]))

    @property
    def standard_errors(self) -> FloatArray:
        """Sampling uncertainty only, from the influence function."""
        if self.kept is not None:
            return np.array([self.kept.rows[name]["standard_error"] for name in self.policies])
        return self.influence.standard_errors(full=False)

    @property
    def robust_standard_errors(self) -> FloatArray:
        """Sampling, oracle (label) and Monte Carlo uncertainty, as in the intervals."""
        return self.influence.standard_errors(full=True)

    @property
    def level(self) -> float:
        """Default confidence level."""
        return float(self.metadata.get("level", 0.95))

    @property
    def cells(self) -> tuple[dict[str, str], ...] | None:
        """Of a subgroup result: ``policy``, ``column`` and ``level`` of each quantity."""
        found = self.metadata.get("cells")
        return None if found is None else tuple(found)

    def ci(self, level: float | None = None, *, joint: bool | None = None) -> Intervals:
        """(low, high) for each policy, always with the full uncertainty; ``ci()["name"]`` is one.

        `joint` intervals hold simultaneously with probability `level` (max-t); this is the default
        within subgroups. Otherwise each policy has its own interval. A refused policy has
        (NaN, NaN).
        """
        refused = self.refused()
        limits = self._limits(level, joint=joint)
        return Intervals(
            self.policies,
            [
                _NOTHING if name in refused else pair
                for name, pair in zip(self.policies, limits, strict=True)
            ],
        )

    def _limits(
        self, level: float | None = None, *, joint: bool | None = None
    ) -> list[tuple[float, float]]:
        """Limits of every policy, refused or not."""
        wanted = self.level if level is None else level
        together = self.cells is not None if joint is None else joint
        if self.kept is not None:
            return self.kept.limits(self.policies, wanted, "joint" if together else "single")
        if not together:
            return [(i.low, i.high) for i in self.influence.intervals(wanted)]
        if wanted == self.level:
            return list(self._joint)
        return [(i.low, i.high) for i in self.influence.simultaneous_intervals(wanted)]

    @cached_property
    def _joint(self) -> tuple[tuple[float, float], ...]:
        limits = self.influence.simultaneous_intervals(self.level)
        return tuple((i.low, i.high) for i in limits)

    def compare_policies(self, a: str, b: str, *, margin: float | None = None) -> Comparison:
        """``a - b``, paired on shared prompts; `margin` asks for non-inferiority.

        Concerns these two alone: nothing is adjusted, unlike in `compare_all`.
        """
        return self._compare(a, b, margin).alone()

    def _compare(
        self, a: str, b: str, margin: float | None = None, among: int | None = None
    ) -> Comparison:
        margin = check_margin(self.metadata.get("margin") if margin is None else margin)
        caveats = tuple(c for name in (a, b) for c in caveats_about(self, name))
        for name in (a, b):
            self.influence.index(name)  # an unknown name is an error
        refused = self.refused()
        reasons = [f"{name}: {refused[name]}" for name in (a, b) if name in refused]
        if reasons and a != b:
            return refused_pair(
                a, b, "; ".join(reasons), level=self.level, margin=margin, caveats=caveats
            )
        if self.kept is not None and a != b:
            return replace(self.kept.pair(a, b, margin), caveats=caveats)
        return compare(
            self.influence, a, b, level=self.level, margin=margin, caveats=caveats, among=among
        )

    def compare_all(self) -> list[tuple[Comparison, float]]:
        """Every pair with its Holm-adjusted p-value; verdicts follow the adjusted tests.

        Pairs with the baseline are candidate minus baseline. Within subgroups: every pair of
        policies within a level, adjusted for all of them. A refused pair has the p-value NaN.
        Of more than 30 policies only the pairs with the baseline and with the best one are made,
        so that the cost grows with their number and not with its square; `compare_policies`
        compares any other pair.
        """
        return list(self._pairs)

    @cached_property
    def _pairs(self) -> tuple[tuple[Comparison, float], ...]:
        refused = self.refused()
        names = [
            (self.policies[j], self.policies[i]) for i, j in paired_positions(self, self._order)
        ]
        usable = [self.policies[k] not in refused for k in range(len(self.policies))]
        among = sum(
            math.comb(sum(usable[k] for k in order), 2) for order in levels(self, self._order)
        )
        among = max(among, 1)
        return adjusted([self._compare(a, b, among=among) for a, b in names], among)

    def versus_baseline(self) -> list[Comparison]:
        """Each other policy minus the baseline, adjusted as in `compare_all`."""
        return [pair for pair, _ in self._pairs if self._is_baseline(pair.b)]

    def differences(self) -> list[dict[str, Any]]:
        """`compare_all` as plain dicts, with the policies and the subgroup of each pair."""
        return pair_rows(self)

    def refused(self) -> dict[str, str]:
        """Policies that a gate refused, with the reason."""
        return dict(self._refused)

    @cached_property
    def _refused(self) -> dict[str, str]:
        reasons: dict[str, str] = {}
        for finding in self.findings:
            if finding.severity is Severity.REFUSE:
                for name in self.policies if finding.subject is None else (finding.subject,):
                    reasons.setdefault(name, finding.message)
        return {name: reasons[name] for name in self.policies if name in reasons}

    def best_policy(self) -> BestPolicy:
        """The highest estimate among policies with labels that no gate refused, with its ties."""
        return self._best

    @cached_property
    def _best(self) -> BestPolicy:
        refused = self.refused()
        if self.kept is not None:
            return self.kept.best_among(refused)
        warnings = {name: warnings_about(self, name) for name in self.policies}
        borrowed = self.metadata.get("borrowed", ())
        return find_best(self.influence, refused, borrowed, warnings, self.level)

    def all_findings(self) -> tuple[Finding, ...]:
        """The findings of the result and of its subgroups; subjects name column and level."""
        return gathered_findings(self)

    # ---- tables and files -----------------------------------------------------------------------

    def summary(self) -> str:
        """The result as plain text: estimates, differences, findings."""
        from cje.results.text import describe

        return describe(self)

    def __repr__(self) -> str:
        return self.summary()

    def rows(self) -> list[dict[str, Any]]:
        """One plain dict per policy: the table behind `to_frame`, the CLI and the report.

        The baseline comes first. ``single_low``, ``single_high`` are limits of one value by itself,
        ``joint_low``, ``joint_high`` hold for the whole table at once. ``low``, ``high`` are those
        of `ci`: single for policies, joint within subgroups. ``name`` is the quantity's, as in
        `policies`; within subgroups ``policy``, ``column`` and ``group`` are its parts. A refused
        policy has None in place of every number, and its ``reason``.
        """
        table = [without_refused(row) for row in self._computed_rows()]
        return [table[k] for k in self._order]

    def refused_values(self) -> dict[str, dict[str, Any]]:
        """Computed values of the refused policies: for diagnosis, not for decisions."""
        rows = self._computed_rows() if self.refused() else []
        return {row["name"]: {key: row[key] for key in NUMBERS} for row in rows if row["refused"]}

    def _computed_rows(self) -> list[dict[str, Any]]:
        """The rows with every number, in the order of `policies`."""
        return value_rows(self, self._limits(), self._limits(joint=False), self._limits(joint=True))

    def to_frame(self) -> Any:
        """One tidy table: a row per policy, and per policy and subgroup level (see `rows`).

        ``subgroup`` is ``"column=level"``, empty for whole policies; ``column`` and ``group`` are
        its parts. ``difference``, ``difference_low``, ``difference_high``, ``p_adjusted`` and
        ``verdict`` compare the row with ``baseline``. A pandas frame where the data came as one,
        otherwise polars.
        """
        from cje.results.frame import result_frame

        return result_frame(self)

    def with_(self, **changes: Any) -> EstimationResult:
        """A copy with fields replaced; `findings` are appended to, mappings are merged."""
        merged = dict(changes)
        for name in ("diagnostics", "metadata", "curves", "subgroups"):
            if name in merged:
                merged[name] = {**getattr(self, name), **merged[name]}
        if "findings" in merged:
            merged["findings"] = (*self.findings, *merged["findings"])
        if "influence" in merged:
            merged.setdefault("kept", None)
        return replace(self, **merged)

    def to_json(self, path: str | Path | None = None, *, influence: bool = True) -> str:
        """Versioned JSON; written to `path` where given.

        ``influence=False`` leaves the influence matrix out: smaller. Loaded again, such a result
        gives the numbers it was saved with (its table, paired differences, best policy, findings,
        report), and refuses what would need the matrix: another level, another margin. Its
        `influence` then has only values and covariance.
        """
        from cje.results.saved import write

        return write(self, path, influence=influence)

    @classmethod
    def from_json(cls, source: str | Path) -> EstimationResult:
        """The inverse of `to_json`: a path, or the text itself."""
        from cje.results.saved import read

        return read(source)

    # ---- report and pictures --------------------------------------------------------------------

    def report_parts(self) -> tuple[Part, ...]:
        """The neutral parts of the report, in reading order."""
        from cje.results.report_parts import report_parts

        return report_parts(self)

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """The report as one self-contained page; written to `path` where given."""
        from cje.results.report_parts import TITLE, make_report

        return make_report(self, title=title or TITLE).to_html(path)

    def to_pdf(self, path: str | Path, *, title: str | None = None) -> None:
        """The report as PDF, printed by the Chromium or Chrome on this machine."""
        from cje.results.report_parts import TITLE, make_report

        make_report(self, title=title or TITLE).to_pdf(path)

    def _repr_html_(self) -> str:
        from cje.results.report_parts import make_note

        return make_note(self).to_fragment()

    def plot_estimates(self, ax: Axes | None = None) -> Axes:
        """Estimates with intervals, and the truth where it is known; returns the axes."""
        from cje.results.plots import plot_estimates

        return plot_estimates(self, ax)

    def plot_calibration(self, ax: Axes | None = None) -> Axes:
        """The judge's calibration curve; returns the axes."""
        from cje.results.plots import plot_calibration

        return plot_calibration(self, ax)

    def plot_weights(self, ax: Axes | None = None, *, policy: str | None = None) -> Axes:
        """Importance weights before and after the projection on the score; returns the axes."""
        from cje.results.plots import plot_weights

        return plot_weights(self, ax, policy=policy)

    def plot_transport(self, ax: Axes | None = None) -> Axes:
        """How far others' calibration misses each policy's own labels; returns the axes."""
        from cje.results.plots import plot_transport

        return plot_transport(self, ax)
