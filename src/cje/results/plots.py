"""Plots of a result, drawn from the same parts as its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje.errors import CJEError
from cje.report.pictures import draw_forest, draw_histogram
from cje.results.report_calibration import transport_part
from cje.results.report_evidence import weight_histogram
from cje.results.report_parts import estimates_part
from cje.results.result import EstimationResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_calibration", "plot_estimates", "plot_transport", "plot_weights"]


def plot_estimates(result: EstimationResult, ax: Axes | None = None) -> Axes:
    """Estimates with intervals, and the truth where it is known."""
    return draw_forest(estimates_part(result, result.rows()), ax)


def plot_calibration(result: EstimationResult, ax: Axes | None = None) -> Axes:
    """The judge's calibration curve with its band."""
    curve = result.curves.get("judge")
    if curve is None:
        raise CJEError(
            "this result has no calibration curve",
            value=result.estimator,
            hint="estimators that calibrate the judge have one: direct and the off-policy ones",
        )
    return curve.plot(ax)


def plot_weights(
    result: EstimationResult, ax: Axes | None = None, *, policy: str | None = None
) -> Axes:
    """Weights of one target policy (the first by default), raw and projected on the score."""
    evidence = result.evidence
    if evidence is None or evidence.weights is None:
        raise CJEError(
            "this result holds no importance weights",
            value=result.estimator,
            hint="off-policy results do, until they are saved: JSON keeps no rows",
        )
    name = result.policies[0] if policy is None else policy
    k = result.influence.index(name)
    return draw_histogram(weight_histogram(evidence, k, f"Weights: {name}"), ax)


def plot_transport(result: EstimationResult, ax: Axes | None = None) -> Axes:
    """Mean residual of each policy's labels under the others' calibration, with the margin."""
    part = transport_part(result)
    if part is None:
        raise CJEError(
            "this result has no transport audit",
            value=result.estimator,
            hint="analyze_dataset with the direct estimator audits policies that have ten labels",
        )
    return draw_forest(part, ax)
