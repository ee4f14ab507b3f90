"""The option `shrinkage` of off-policy estimators: less weight where the judge is uncertain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cje.checks import check_choice, check_share, is_number
from cje.diagnostics.judge_variance import Gamma, apply_variance_scaling
from cje.errors import CJEError
from cje.estimators.offpolicy.shrinkage import (
    adaptive_shrinkage,
    apply_shrinkage,
    covariance_shrinkage,
    optimal_lambda,
)
from cje.findings import Finding
from cje.findings.weights import ESS_NOT_REACHED, SHRINKAGE_BIAS
from cje.kernels.arrays import FloatArray
from cje.kernels.weights import effective_sample_size

if TYPE_CHECKING:
    from cje.estimators.offpolicy.problem import Problem

__all__ = ["Shrunk", "WeightShrinkage", "shrink_weights", "shrinkage_findings"]

METHODS = ("optimal", "adaptive", "fixed", "covariance")


@dataclass(frozen=True)
class WeightShrinkage:
    r"""Divide weights by :math:`1 + \lambda v`, with v the judge's variance (see `shrinkage`).

    Parameters
    ----------
    method : {"optimal", "adaptive", "fixed", "covariance"}
        ``optimal`` minimises variance plus squared bias; ``adaptive`` increases lambda until the
        effective sample size reaches `min_ess_ratio`; ``fixed`` takes `fixed_lambda`;
        ``covariance`` is the published formula, which is not optimal.
    fixed_lambda : float
    min_ess_ratio : float
        Effective sample size for ``adaptive``, as a share of the rows.
    scale_variances : bool
        Multiply the judge's variances by gamma first.

    Raises
    ------
    CJEError
        For an unknown method or a number out of range.
    """

    method: Literal["optimal", "adaptive", "fixed", "covariance"] = "optimal"
    fixed_lambda: float = 1.0
    min_ess_ratio: float = 0.1
    scale_variances: bool = True

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        if not is_number(self.fixed_lambda) or self.fixed_lambda < 0.0:
            raise CJEError("fixed_lambda must be finite and not negative", value=self.fixed_lambda)
        check_share("min_ess_ratio", self.min_ess_ratio)


@dataclass(frozen=True)
class Shrunk:
    r"""What shrinkage did to the weights of one target.

    Attributes
    ----------
    lam : float
    ess_before, ess_after : float
        Effective sample sizes (Kish).
    reached : bool
        Whether the effective sample size asked for was reached (``adaptive``).
    bias : float
        Move of the value, :math:`\hat V(\lambda) - \hat V(0)`.
    """

    lam: float
    ess_before: float
    ess_after: float
    reached: bool = True
    bias: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "lambda": self.lam,
            "ess_before": self.ess_before,
            "ess_after": self.ess_after,
            "reached": self.reached,
            "bias": self.bias,
        }


def shrink_weights(
    problem: Problem,
    option: WeightShrinkage,
    variances: FloatArray | None,
    gamma: Gamma,
    outcome: FloatArray,
) -> tuple[Problem, tuple[Shrunk, ...]]:
    """The problem with shrunk weights, mean one again, and what was done to each target's.

    `outcome` (n, K) is what a row's weight multiplies in the estimate besides its label residual.

    Raises
    ------
    CJEError
        Where the data have no judge variances.
    """
    if variances is None:
        raise CJEError(
            "shrinkage needs the judge's variances, and the data have none",
            hint="add the column judge_variance, or leave shrinkage out",
        )
    v = apply_variance_scaling(variances, gamma if option.scale_variances else 1.0)
    logged = problem.logged
    deviations = _deviations(problem, outcome)
    columns, done = [], []
    for k, w in enumerate(logged.weights.T):
        lam, reached = _chosen(option, w, outcome[:, k], deviations[:, k], v)
        shrunk = apply_shrinkage(w, v, lam) if lam > 0.0 else w
        sizes = (effective_sample_size(w), effective_sample_size(shrunk))
        columns.append(shrunk if lam == 0.0 else shrunk / shrunk.mean())
        done.append(Shrunk(lam, *sizes, reached))
    if not any(item.lam for item in done):
        return problem, tuple(done)
    return replace(problem, logged=replace(logged, weights=np.column_stack(columns))), tuple(done)


def _deviations(problem: Problem, outcome: FloatArray) -> FloatArray:
    """(n, K) factor of each row's weight in the influence; weighted sums are zero."""
    logged = problem.logged
    term = problem.term(logged.weights)
    found: FloatArray = outcome - (logged.weights * outcome).mean(axis=0)
    rows = logged.labelled
    found[rows] += (term.residual - term.correction) / logged.propensity[rows][:, None]
    return found


def _chosen(
    option: WeightShrinkage,
    w: FloatArray,
    outcome: FloatArray,
    deviation: FloatArray,
    v: FloatArray,
) -> tuple[float, bool]:
    if option.method == "fixed":
        return float(option.fixed_lambda), True
    if option.method == "covariance":
        return covariance_shrinkage(w, outcome, v), True
    lam = optimal_lambda(w, deviation, v)
    if option.method == "optimal":
        return lam, True
    return adaptive_shrinkage(w, v, option.min_ess_ratio, start=lam)


def shrinkage_findings(
    name: str, shrunk: Shrunk, se: float, option: WeightShrinkage
) -> list[Finding]:
    """An effective sample size that was not reached, and a bias beside the standard error."""
    found = []
    if not shrunk.reached:
        found.append(ESS_NOT_REACHED.finding(name, target=option.min_ess_ratio))
    if abs(shrunk.bias) > SHRINKAGE_BIAS["standard_errors"] * se > 0.0:
        found.append(SHRINKAGE_BIAS.finding(name, bias=shrunk.bias, se=se))
    return found
