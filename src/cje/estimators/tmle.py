"""`tmle`: the calibration is shifted until its weighted residual on the labels vanishes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cje.estimators.doubly_robust import fresh_influence
from cje.estimators.label_term import LabelTerm
from cje.estimators.offpolicy import Fit, OffPolicyEstimator, Problem
from cje.kernels.clusters import cluster_sums

__all__ = ["TMLEEstimator", "fluctuation"]

FloatArray = NDArray[np.float64]

_EDGE = 1e-6


def fluctuation(label: FloatArray, predicted: FloatArray, weights: FloatArray) -> float:
    r"""The shift :math:`\epsilon` with :math:`\sum_i w_i (Y_i - expit(logit(f_i) + \epsilon)) = 0`.

    The left side falls in :math:`\epsilon`: Newton's steps, kept within a bracket that starts as
    [-20, 20] and halved where they leave it. Where even that range does not suffice (all labels 0
    or all 1) its end is returned.

    Examples
    --------
    >>> abs(fluctuation(np.array([1.0, 0.0]), np.array([0.5, 0.5]), np.ones(2))) < 1e-9
    True
    """
    from scipy.special import expit, logit

    base = logit(np.clip(predicted, _EDGE, 1.0 - _EDGE))
    target = float(weights @ label)
    low, high, shift = -20.0, 20.0, 0.0
    for _ in range(100):
        moved = expit(base + shift)
        gap = target - float(weights @ moved)
        low, high = (shift, high) if gap > 0 else (low, shift)
        slope = float(weights @ (moved * (1.0 - moved)))
        newton = shift + gap / slope if slope > 0 else np.inf
        step = newton if low < newton < high else 0.5 * (low + high)
        if abs(step - shift) < 1e-12:
            return step
        shift = step
    return shift


def _shifted(f: FloatArray, by: float) -> FloatArray:
    from scipy.special import expit, logit

    return np.asarray(expit(logit(np.clip(f, _EDGE, 1.0 - _EDGE)) + by))


class TMLEEstimator(OffPolicyEstimator):
    r"""Targeted estimate: :math:`\hat V = \frac1m \sum_j \overline{f^*}(\text{fresh}_j)`.

    :math:`f^* = expit(logit f + \epsilon)`, with :math:`\epsilon` such that the weighted residual
    of the labels vanishes: the label part of `dr-cpo` is moved inside the calibration, so the value
    always lies in [0, 1]. Same assumption and, to first order, same influence as `dr-cpo`.

    References
    ----------
    van der Laan & Rubin (2006), Int. J. Biostatistics 2(1).
    """

    name: ClassVar[str] = "tmle"
    needs_fresh: ClassVar[bool] = True
    heavy_tail_refuses: bool = False

    def fit(self, problem: Problem) -> Fit:
        label_weights, inside = self.label_weights(problem)
        term = problem.term(label_weights)
        names = problem.logged.policies
        values, rewards, shifts, left, slopes = [], [], [], [], []
        for k, draws in enumerate(problem.fresh):
            shift, moved, scale = self._target(problem, label_weights[:, k])
            reward = _shifted(problem.fresh_rewards[k] @ term.shares[:, k], shift)
            value = float(draws.weight @ reward)
            slope = float(draws.weight @ (reward * (1.0 - reward))) / scale
            values.append(value)
            rewards.append(reward)
            shifts.append(shift)
            slopes.append(slope)
            left.append(value + slope * moved * term.inflation[k])
        influence = fresh_influence(problem, rewards)
        if inside:
            influence = influence + term.influence * np.array(slopes)
        return Fit(
            np.array(values),
            influence,
            None if inside else np.column_stack(left),
            {"fluctuation": dict(zip(names, shifts, strict=True)), **_named(term, names)},
        )

    @staticmethod
    def _target(problem: Problem, weights: FloatArray) -> tuple[float, FloatArray, float]:
        """The shift; by how much its score equation moves without each label group; its slope.

        The equation's mean residual without group j, divided by the mean of f*(1 - f*), is the
        change of the shift to first order.
        """
        logged, rows = problem.logged, np.flatnonzero(problem.logged.labelled)
        omega = weights[rows] / logged.propensity[rows]
        fitted, label = problem.rewards.out_of_fold[rows], logged.labels[rows]
        shift = fluctuation(label, fitted, omega)
        at = _shifted(fitted, shift)
        n_groups = int(problem.groups.max()) + 1
        residual = cluster_sums(omega * (label - at), problem.groups, n_groups)
        mass = cluster_sums(omega, problem.groups, n_groups)
        total = float(omega.sum())
        scale = float(omega @ (at * (1.0 - at))) / total
        return shift, -residual / np.maximum(total - mass, 1e-300), max(scale, _EDGE)


def _named(term: LabelTerm, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    return {"label_correction": dict(zip(names, term.correction.tolist(), strict=True))}
