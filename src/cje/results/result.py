"""`EstimationResult`: what every estimator returns, on the label's own scale."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cje.errors import CJEError
from cje.inference import CalibrationCurve, Finding, InfluenceEstimate, Severity
from cje.kernels.arrays import FloatArray
from cje.results.comparison import BestPolicy, Comparison, adjusted, check_margin, compare

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from cje.report import Part
    from cje.results.evidence import Evidence
    from cje.results.kept import KeptAnswers

__all__ = ["EstimationResult"]


@dataclass(frozen=True, eq=False)
class EstimationResult:
    """Policy values with their uncertainty, and what the data cannot support.

    Parameters
    ----------
    estimator : str
        Name of the estimator, as in the registry.
    influence : InfluenceEstimate
        One quantity per policy, on the label's own scale; everything below follows from it.
    diagnostics : mapping
        Numbers behind the estimates, plain JSON types.
    metadata : mapping
        ``target_policies`` (the order of `estimates`), ``borrowed`` (policies whose value rests on
        other policies' labels), ``level``, ``margin``, ``quantity`` and what else is worth keeping.
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
        Of a result loaded without its influence matrix: the numbers it was saved with.
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
        """Estimated value of each policy."""
        return self.influence.values

    @property
    def standard_errors(self) -> FloatArray:
        """Sampling uncertainty alone: what the influence function carries."""
        if self.kept is not None:
            return np.array([self.kept.rows[name]["standard_error"] for name in self.policies])
        return self.influence.standard_errors(full=False)

    @property
    def robust_standard_errors(self) -> FloatArray:
        """Sampling plus oracle (label) and Monte Carlo uncertainty: what the intervals use."""
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

    def ci(
        self, level: float | None = None, *, joint: bool | None = None
    ) -> list[tuple[float, float]]:
        """(low, high) for each policy, always with the full uncertainty.

        `joint` intervals hold all at once with probability `level` (max-t). That is the default
        within subgroups, where there are many; policies have an interval each.
        """
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

        A question about these two alone: nothing is adjusted, unlike in `compare_all`.
        """
        return self._compare(a, b, margin).alone()

    def _compare(
        self, a: str, b: str, margin: float | None = None, among: int | None = None
    ) -> Comparison:
        margin = check_margin(self.metadata.get("margin") if margin is None else margin)
        caveats = tuple(c for name in (a, b) for c in self._caveats(name))
        if self.kept is not None and a != b:
            for name in (a, b):
                self.influence.index(name)  # an unknown name is an error
            return replace(self.kept.pair(a, b, margin), caveats=caveats)
        return compare(
            self.influence, a, b, level=self.level, margin=margin, caveats=caveats, among=among
        )

    def compare_all(self) -> list[tuple[Comparison, float]]:
        """Every pair with its Holm-adjusted p-value; verdicts follow the adjusted tests.

        Within subgroups: every pair of policies within a level, adjusted for all of them.
        """
        return list(self._pairs)

    @cached_property
    def _pairs(self) -> tuple[tuple[Comparison, float], ...]:
        cells = self.cells
        names = [
            (b, a)
            for (i, a), (j, b) in itertools.combinations(enumerate(self.policies), 2)
            if cells is None or cells[i]["level"] == cells[j]["level"]
        ]
        return adjusted([self._compare(a, b, among=len(names)) for a, b in names])

    def differences(self) -> list[dict[str, Any]]:
        """`compare_all` as plain dicts, with the policies and the subgroup of each pair."""
        found = []
        cells = self.cells
        for pair, _ in self._pairs:
            parts = {"policy_a": pair.a, "policy_b": pair.b, "column": None, "group": None}
            if cells is not None:
                a, b = (cells[self.influence.index(name)] for name in (pair.a, pair.b))
                parts = {"policy_a": a["policy"], "policy_b": b["policy"],
                         "column": a["column"], "group": a["level"]}  # fmt: skip
            found.append({**pair.to_dict(), **parts})
        return found

    def refused(self) -> dict[str, str]:
        """Policies a gate refused, with the reason."""
        reasons: dict[str, str] = {}
        for finding in self.findings:
            if finding.severity is Severity.REFUSE:
                for name in self.policies if finding.subject is None else (finding.subject,):
                    reasons.setdefault(name, finding.message)
        return {name: reasons[name] for name in self.policies if name in reasons}

    def best_policy(self) -> BestPolicy:
        """The policy with the highest estimate that no gate refused, with its ties."""
        return self._best

    @cached_property
    def _best(self) -> BestPolicy:
        refused = self.refused()
        if self.kept is not None:
            return self.kept.best_among(refused)
        usable = [name for name in self.policies if name not in refused]
        if not usable:
            return BestPolicy(None, (), refused, "no policy: every estimate was refused by a gate")
        value = dict(zip(self.policies, self.estimates, strict=True))
        best = max(usable, key=lambda name: value[name])
        others = [name for name in usable if name != best]
        ties: tuple[str, ...] = ()
        if others:
            rows = np.zeros((len(others), len(self.policies)))
            rows[:, self.influence.index(best)] = 1.0
            for row, name in enumerate(others):
                rows[row, self.influence.index(name)] = -1.0
            gaps = self.influence.contrast(rows, others).simultaneous_intervals(self.level)
            ties = tuple(n for n, gap in zip(others, gaps, strict=True) if gap.low <= 0.0)
        note = f"{best} has the highest estimate, {value[best]:.4g}"
        if ties:
            note += f"; not told apart from {', '.join(ties)}"
        for name, reason in refused.items():
            if value[name] > value[best]:
                note += f"; {name} shows {value[name]:.4g} but was refused: {reason}"
        if best in self.metadata.get("borrowed", ()):
            note += f"; {best} rests on borrowed calibration"
        warnings = self._warnings(best)
        if warnings:
            note += f"; take care, of {best} it was found: {'; '.join(warnings)}"
        return BestPolicy(best, ties, refused, note, warnings)

    def _warnings(self, name: str) -> tuple[str, ...]:
        """What was found about one policy; that it is borrowed is said elsewhere."""
        return tuple(
            finding.message
            for finding in self.findings
            if finding.severity is Severity.WARNING
            and finding.subject == name
            and finding.code != "borrowed-calibration"
        )

    def _caveats(self, name: str) -> tuple[str, ...]:
        found = []
        if name in self.metadata.get("borrowed", ()):
            count = self.metadata.get("n_labels", {}).get(name) or 0
            own = {0: "no labels", 1: "1 label"}.get(count, f"{count} labels")
            found.append(f"{name} rests on borrowed calibration ({own} of its own)")
        if name in (refused := self.refused()):
            found.append(f"{name} was refused: {refused[name]}")
        return tuple(found)

    def all_findings(self) -> tuple[Finding, ...]:
        """The findings of the result and of its subgroups; subjects name column and level."""
        found = list(self.findings)
        for column, part in self.subgroups.items():
            names = {
                name: f"{cell['policy']}, {column}={cell['level']}"
                for name, cell in zip(part.policies, part.cells or (), strict=False)
            }
            for finding in part.findings:
                subject = finding.subject
                subject = f"by {column}" if subject is None else names.get(subject, subject)
                found.append(replace(finding, subject=subject))
        return tuple(found)

    # ---- words and files ------------------------------------------------------------------------

    def summary(self) -> str:
        """The result as plain text: estimates, differences, findings."""
        from cje.results.text import describe

        return describe(self)

    def __str__(self) -> str:
        return self.summary()

    def rows(self) -> list[dict[str, Any]]:
        """One plain dict per policy: the table behind `to_frame`, the CLI and the report.

        ``single_low``, ``single_high`` are limits of one value by itself, ``joint_low``,
        ``joint_high`` hold for the whole table at once. ``low``, ``high`` are those of `ci`: single
        for policies, joint within subgroups. ``name`` is the quantity's, as in `policies`; within
        subgroups ``policy``, ``column`` and ``group`` are its parts.
        """
        refused = self.refused()
        borrowed = set(self.metadata.get("borrowed", ()))
        n_rows, n_labels = (self.metadata.get(key, {}) for key in ("n_rows", "n_labels"))
        limits = zip(self.ci(), self.ci(joint=False), self.ci(joint=True), strict=True)
        errors = zip(self.standard_errors, self.robust_standard_errors, strict=True)
        table = zip(self.policies, self._parts(), self.estimates, limits, errors, strict=True)
        return [
            {
                "name": name,
                **parts,
                "estimate": float(value),
                "low": shown[0],
                "high": shown[1],
                "single_low": single[0],
                "single_high": single[1],
                "joint_low": joint[0],
                "joint_high": joint[1],
                "standard_error": float(sampling),
                "robust_standard_error": float(full),
                "n_rows": n_rows.get(name),
                "n_labels": n_labels.get(name),
                "borrowed_calibration": name in borrowed,
                "refused": name in refused,
            }
            for name, parts, value, (shown, single, joint), (sampling, full) in table
        ]

    def _parts(self) -> list[dict[str, str | None]]:
        """Policy, subgroup column and level of each quantity."""
        if self.cells is None:
            return [{"policy": name, "column": None, "group": None} for name in self.policies]
        return [
            {"policy": cell["policy"], "column": cell["column"], "group": cell["level"]}
            for cell in self.cells
        ]

    def to_frame(self) -> pl.DataFrame:
        """The rows of the result and of its subgroups (see `rows`), as a polars frame.

        ``subgroup`` is ``"column=level"``, empty for whole policies; ``column`` and ``group`` are
        its parts.
        """
        import polars as pl

        table = self.rows() + [row for part in self.subgroups.values() for row in part.rows()]
        for row in table:
            del row["name"]
            column = row["column"]
            row["subgroup"] = None if column is None else f"{column}={row['group']}"
        order = ["subgroup", "column", "group"]
        frame = pl.DataFrame(table, infer_schema_length=None)
        return frame.select(*order, *(name for name in frame.columns if name not in order))

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
        `influence` then knows values and covariance alone.
        """
        from cje.results.saved import dumps

        text = dumps(self, influence=influence)
        if path is not None:
            try:
                Path(path).write_text(text, encoding="utf-8")
            except OSError as error:
                raise CJEError(
                    "cannot write the result",
                    where=str(path),
                    value=error,
                    hint="give a file in a folder that exists and may be written to",
                ) from error
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> EstimationResult:
        """The inverse of `to_json`: a path, or the text itself."""
        from cje.results.saved import loads

        if isinstance(source, Path) or not source.lstrip().startswith("{"):
            try:
                source = Path(source).read_text(encoding="utf-8")
            except OSError as error:
                raise CJEError("cannot read the result", where=str(source), value=error) from error
            except ValueError as error:  # bytes that are no text, a name that is no path
                raise CJEError(
                    "not a saved result: the file is not UTF-8 text",
                    where=str(source)[:200],
                    hint="give a file written by result.to_json(path) or cje analyze --save",
                ) from error
        return loads(source)

    # ---- report and pictures --------------------------------------------------------------------

    def report_parts(self) -> tuple[Part, ...]:
        """The neutral parts of the report, in reading order."""
        from cje.results.report_parts import report_parts

        return report_parts(self)

    def to_html(self, path: str | Path | None = None, *, title: str = "Policy values") -> str:
        """The report as one self-contained page; written to `path` where given."""
        from cje.results.report_parts import make_report

        return make_report(self, title=title).to_html(path)

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
