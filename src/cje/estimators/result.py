"""`EstimationResult`: what every estimator returns, on the label's own scale."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cje.errors import CJEError
from cje.estimators.comparison import BestPolicy, Comparison, compare
from cje.inference import CalibrationCurve, Finding, InfluenceEstimate, Severity, holm

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from cje.estimators.evidence import Evidence
    from cje.report import Part

__all__ = ["EstimationResult"]

FloatArray = NDArray[np.float64]


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
        The same question within each level of a column; quantities are ``"policy | level"``.
    evidence : Evidence, optional
        References to the rows behind it, for `to_html` and the plots; never written to JSON.
    """

    estimator: str
    influence: InfluenceEstimate
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    curves: Mapping[str, CalibrationCurve] = field(default_factory=dict)
    subgroups: Mapping[str, EstimationResult] = field(default_factory=dict)
    evidence: Evidence | None = field(default=None, repr=False)

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
        return self.influence.standard_errors(full=False)

    @property
    def robust_standard_errors(self) -> FloatArray:
        """Sampling plus oracle (label) and Monte Carlo uncertainty: what the intervals use."""
        return self.influence.standard_errors(full=True)

    @property
    def level(self) -> float:
        """Default confidence level."""
        return float(self.metadata.get("level", 0.95))

    def ci(self, level: float | None = None) -> list[tuple[float, float]]:
        """(low, high) for each policy, always with the full uncertainty."""
        return [(i.low, i.high) for i in self.influence.intervals(level or self.level)]

    def compare_policies(self, a: str, b: str, *, margin: float | None = None) -> Comparison:
        """``a - b``, paired on shared prompts; `margin` asks for non-inferiority."""
        return compare(
            self.influence,
            a,
            b,
            level=self.level,
            margin=self.metadata.get("margin") if margin is None else margin,
            caveats=tuple(c for name in (a, b) for c in self._caveats(name)),
        )

    def compare_all(self) -> list[tuple[Comparison, float]]:
        """Every pair with its Holm-adjusted p-value."""
        return list(self._pairs)

    @cached_property
    def _pairs(self) -> tuple[tuple[Comparison, float], ...]:
        pairs = [self.compare_policies(b, a) for a, b in itertools.combinations(self.policies, 2)]
        adjusted = holm([pair.p_value for pair in pairs])
        return tuple((pair, float(p)) for pair, p in zip(pairs, adjusted, strict=True))

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
        return BestPolicy(best, ties, refused, note)

    def _caveats(self, name: str) -> tuple[str, ...]:
        found = []
        if name in self.metadata.get("borrowed", ()):
            found.append(f"{name} rests on borrowed calibration (no labels of its own)")
        if name in (refused := self.refused()):
            found.append(f"{name} was refused: {refused[name]}")
        return tuple(found)

    # ---- words and files ------------------------------------------------------------------------

    def summary(self) -> str:
        """The result as plain text: estimates, differences, findings."""
        from cje.estimators.result_text import describe

        return describe(self)

    def __str__(self) -> str:
        return self.summary()

    def rows(self) -> list[dict[str, Any]]:
        """One plain dict per policy: the table behind `to_frame`, the CLI and the report."""
        refused = self.refused()
        borrowed = set(self.metadata.get("borrowed", ()))
        labels = self.metadata.get("n_labels", {})
        return [
            {
                "policy": name,
                "estimate": float(value),
                "low": low,
                "high": high,
                "standard_error": float(sampling),
                "robust_standard_error": float(full),
                "n_rows": self.metadata.get("n_rows", {}).get(name),
                "n_labels": labels.get(name),
                "borrowed_calibration": name in borrowed,
                "refused": name in refused,
            }
            for name, value, (low, high), sampling, full in zip(
                self.policies,
                self.estimates,
                self.ci(),
                self.standard_errors,
                self.robust_standard_errors,
                strict=True,
            )
        ]

    def to_frame(self) -> pl.DataFrame:
        """One row per policy (and per subgroup level, column ``subgroup``), as a polars frame."""
        import polars as pl

        parts = [pl.DataFrame([{"subgroup": None, **row} for row in self.rows()])]
        for column, part in self.subgroups.items():
            for row in part.rows():
                policy, _, group = row["policy"].rpartition(" | ")
                tagged = {**row, "policy": policy, "subgroup": f"{column}={group}"}
                parts.append(pl.DataFrame([tagged]))
        return pl.concat(parts, how="diagonal_relaxed")

    def with_(self, **changes: Any) -> EstimationResult:
        """A copy with fields replaced; `findings` are appended to, mappings are merged."""
        merged = dict(changes)
        for name in ("diagnostics", "metadata", "curves", "subgroups"):
            if name in merged:
                merged[name] = {**getattr(self, name), **merged[name]}
        if "findings" in merged:
            merged["findings"] = (*self.findings, *merged["findings"])
        return replace(self, **merged)

    def to_json(self, path: str | Path | None = None, *, influence: bool = True) -> str:
        """Versioned JSON; written to `path` where given.

        ``influence=False`` keeps the covariance only: smaller, and intervals lose their skewness.
        """
        from cje.estimators.result_json import dumps

        text = dumps(self, influence=influence)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @classmethod
    def from_json(cls, source: str | Path) -> EstimationResult:
        """The inverse of `to_json`: a path, or the text itself."""
        from cje.estimators.result_json import loads

        if isinstance(source, Path) or not source.lstrip().startswith("{"):
            try:
                source = Path(source).read_text(encoding="utf-8")
            except OSError as error:
                raise CJEError("cannot read the result", where=str(source), value=error) from error
        return loads(source)

    # ---- report and pictures --------------------------------------------------------------------

    def report_parts(self) -> tuple[Part, ...]:
        """The neutral parts of the report, in reading order."""
        from cje.estimators.report_parts import report_parts

        return report_parts(self)

    def to_html(self, path: str | Path | None = None, *, title: str = "Policy values") -> str:
        """The report as one self-contained page; written to `path` where given."""
        from cje.estimators.report_parts import make_report

        return make_report(self, title=title).to_html(path)

    def _repr_html_(self) -> str:
        from cje.estimators.report_parts import make_note

        return make_note(self).to_fragment()

    def plot_estimates(self, ax: Axes | None = None) -> Axes:
        """Estimates with intervals, and the truth where it is known; returns the axes."""
        from cje.estimators.plots import plot_estimates

        return plot_estimates(self, ax)

    def plot_calibration(self, ax: Axes | None = None) -> Axes:
        """The judge's calibration curve; returns the axes."""
        from cje.estimators.plots import plot_calibration

        return plot_calibration(self, ax)

    def plot_weights(self, ax: Axes | None = None, *, policy: str | None = None) -> Axes:
        """Importance weights before and after the projection on the score; returns the axes."""
        from cje.estimators.plots import plot_weights

        return plot_weights(self, ax, policy=policy)

    def plot_transport(self, ax: Axes | None = None) -> Axes:
        """How far others' calibration misses each policy's own labels; returns the axes."""
        from cje.estimators.plots import plot_transport

        return plot_transport(self, ax)
