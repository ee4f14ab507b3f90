r"""A Bradley-Terry ranking fitted on rectified comparisons.

.. math:: \sum_u x_u \left(\hat y_u - \sigma(x_u^\top \eta)\right) = 0, \qquad
          \hat y_u = \tfrac12 + \hat f_u + \frac{L_u}{\pi_u}(h_u - \hat f_u)

with x the two policies (+1, -1) and their difference in style. With a human verdict on every
comparison it is the maximum likelihood fit, ties counted half.

References
----------
Bradley & Terry (1952), Biometrika 39, 324-345; Ford (1957), American Mathematical Monthly 64, 28-33
(when the fit is finite); Angelopoulos, Bates, Fannjiang, Jordan & Zrnic (2023), Science 382,
669-674 (fits from predictions).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from cje.estimators.pairwise.units import Units
from cje.estimators.pairwise.win_rates import components, spread_of
from cje.estimators.pairwise.working_model import WorkingModel
from cje.inference import InfluenceEstimate
from cje.kernels.arrays import FloatArray
from cje.kernels.clusters import cluster_sums

__all__ = ["BradleyTerry", "fit_bradley_terry", "style_is_free", "unconnected"]

_MOST_STEPS = 100
_CONVERGED = 1e-10
_INFINITE = 12.0  # log-odds: a win probability within 6e-6 of 0 or 1


@dataclass(frozen=True)
class BradleyTerry:
    """Strengths in log-odds, of mean zero, and the coefficients of style."""

    strengths: InfluenceEstimate
    style: InfluenceEstimate | None

    def log_odds(self, a: str, b: str) -> InfluenceEstimate:
        """Log-odds that `a` is preferred to `b`, at equal style."""
        return self.strengths.difference(a, b)


def unconnected(units: Units) -> tuple[tuple[str, ...], ...]:
    """Groups of policies that were never compared with each other; one group where all were."""
    group = np.arange(len(units.policies))
    pairs = np.unique(np.column_stack([units.low, units.high]), axis=0)
    for _ in range(len(group)):
        for a, b in pairs.tolist():
            group[group == group[b]] = group[a]
    return tuple(
        tuple(units.policies[k] for k in np.flatnonzero(group == g).tolist())
        for g in dict.fromkeys(group.tolist())
    )


def style_is_free(units: Units) -> bool:
    """Whether the style covariates vary beyond what the policies explain."""
    columns = np.hstack([units.design @ _free_directions(len(units.policies)), units.style])
    return bool(np.linalg.matrix_rank(columns) == columns.shape[1])


def fit_bradley_terry(
    units: Units, model: WorkingModel, style: tuple[str, ...]
) -> BradleyTerry | None:
    """The fit; None where no finite one exists (a policy that wins or loses everything)."""
    k, n = len(units.policies), len(units)
    reach = _free_directions(k)
    x = np.hstack([units.design @ reach, units.style])
    own, targets = model.labelled, model.targets(equal_style=False)
    predicted = targets @ model.coefficients
    wanted = 0.5 + predicted
    weight = np.zeros(len(own))
    if len(own):
        weight = model.weight * n / model.weight.sum()
        wanted[own] += weight * model.residual
    eta = _solve(x, wanted)
    if eta is None:
        return None
    p = expit(x @ eta)
    inverse = np.linalg.inv((x * (p * (1.0 - p))[:, None]).T @ x)
    by_unit = x * (wanted - p)[:, None]
    by_unit[own] -= x[own] * (weight * model.residual)[:, None]
    mean = (x[own] * (weight * model.residual)[:, None]).sum(axis=0) / n
    by_unit += mean
    cross = x.T @ targets - (x[own] * weight[:, None]).T @ model.features[own]
    label_weight = x[own] * weight[:, None] + model.pull @ cross.T
    by_label = label_weight * (model.residual * model.inflation)[:, None] - np.outer(weight, mean)
    bias = -model.judge_weight * (
        x.T @ model.judge_side - (x[own] * weight[:, None]).T @ model.judge_side[own]
    )
    by_unit += np.outer(model.judge_slope.influence, bias + cross @ model.judge_pull)
    whole = np.zeros((k + len(style), len(eta)))
    whole[:k, : k - 1] = reach
    whole[k:, k - 1 :] = np.eye(len(style))
    onto = whole @ inverse
    estimate = _estimate(
        units, model, whole @ eta, by_unit @ onto.T, by_label @ onto.T, label_weight @ onto.T, style
    )
    names = estimate.names
    return BradleyTerry(
        estimate.select(names[:k]).renamed(units.policies),
        estimate.select(names[k:]).renamed(style) if style else None,
    )


def _estimate(
    units: Units,
    model: WorkingModel,
    values: FloatArray,
    by_unit: FloatArray,
    by_label: FloatArray,
    label_weight: FloatArray,
    style: tuple[str, ...],
) -> InfluenceEstimate:
    n_prompts, of_label = len(units.prompts), units.prompt[model.labelled]
    return InfluenceEstimate(
        (*(f"policy {name}" for name in units.policies), *(f"style {name}" for name in style)),
        values,
        tuple(
            components(
                cluster_sums(by_unit, units.prompt, n_prompts),
                cluster_sums(by_label, of_label, n_prompts),
                spread_of(label_weight, model.sigma, of_label, n_prompts),
                np.zeros(len(values)),
            )
        ),
        units.prompts,
    )


def _free_directions(k: int) -> FloatArray:
    """(K, K - 1) orthonormal columns that sum to zero (Helmert)."""
    found = np.zeros((k, k - 1))
    for j in range(1, k):
        found[:j, j - 1] = 1.0
        found[j, j - 1] = -j
        found[:, j - 1] /= np.sqrt(j * (j + 1.0))
    return found


def _solve(x: FloatArray, wanted: FloatArray) -> FloatArray | None:
    """Newton's method with halved steps; the loss is convex for any `wanted`."""
    eta = np.zeros(x.shape[1])
    loss = _loss(x, wanted, eta)
    for _ in range(_MOST_STEPS):
        p = expit(x @ eta)
        slope = x.T @ (wanted - p)
        curve = (x * (p * (1.0 - p))[:, None]).T @ x
        try:
            step = np.linalg.solve(curve, slope)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(step).all():
            return None
        size = 1.0
        while size > 1e-6 and _loss(x, wanted, eta + size * step) > loss + 1e-12 * abs(loss):
            size *= 0.5
        eta = eta + size * step
        loss = _loss(x, wanted, eta)
        if float(np.abs(x @ eta).max()) > _INFINITE:
            return None
        if float(np.abs(step).max()) < _CONVERGED:
            return eta
    return None


def _loss(x: FloatArray, wanted: FloatArray, eta: FloatArray) -> float:
    line = x @ eta
    return float(np.logaddexp(0.0, line).sum() - wanted @ line)
