"""`tmle`: the calibration is shifted until its weighted residual on the labels vanishes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.offpolicy.doubly_robust import fresh_influence
from cje.estimators.offpolicy.label_term import CalibrationSensitivity, LabelTerm
from cje.estimators.offpolicy.problem import Fit, Problem
from cje.inference import SAMPLING, Component
from cje.kernels.arrays import FloatArray

__all__ = ["TMLEEstimator", "fluctuation"]


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


@dataclass(frozen=True)
class _Target:
    """The shift and its slope, the rewards of fresh draws under f*, and the pseudo-labels."""

    shift: float
    slope: float
    reward: FloatArray
    pseudo: FloatArray
    sensitivity: CalibrationSensitivity


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
        label_weights, _ = self.label_weights(problem)
        term = problem.term(label_weights)
        names = problem.logged.policies
        targets = [self._target(problem, term, k) for k in range(len(names))]
        rewards = [target.reward for target in targets]
        pseudo = np.column_stack([target.pseudo for target in targets])
        sensitivities = [target.sensitivity for target in targets]
        slopes = np.array([target.slope for target in targets])
        return Fit(
            np.array([d.weight @ r for d, r in zip(problem.fresh, rewards, strict=True)]),
            (
                Component(SAMPLING, fresh_influence(problem, rewards)),
                self.label_component(problem, term, pseudo, sensitivities, slopes),
            ),
            {
                "fluctuation": {n: t.shift for n, t in zip(names, targets, strict=True)},
                "label_correction": dict(zip(names, term.correction.tolist(), strict=True)),
            },
        )

    @staticmethod
    def _target(problem: Problem, term: LabelTerm, k: int) -> _Target:
        """Shift f for target k.

        A label moves the value in two ways, both linear to first order: through the shift, by its
        residual times the ratio of the mean slopes :math:`f^*(1 - f^*)` on target and labels; and
        through the share of its fold's model.
        """
        draws, each, rows = problem.fresh[k], problem.fresh_rewards[k], problem.logged.labelled
        label, fitted = problem.logged.labels[rows], problem.rewards.out_of_fold[rows]
        shift = fluctuation(label, fitted, term.weight[:, k])
        at_labels = _shifted(fitted, shift)
        mixed = each @ term.shares[:, k]
        reward = _shifted(mixed, shift)
        slope, label_slope = reward * (1.0 - reward), at_labels * (1.0 - at_labels)
        ratio = float(draws.weight @ slope) / max(float(term.weight[:, k] @ label_slope), _EDGE)
        by_reward = draws.weight * slope / np.maximum(mixed * (1.0 - mixed), _EDGE)
        by_label = term.weight[:, k] * label_slope / np.maximum(fitted * (1.0 - fitted), _EDGE)
        sensitivity = replace(
            problem.sensitivity_fresh[k], target=by_reward, at_labels=ratio * by_label
        )
        pseudo = (by_reward @ each)[term.folds] + ratio * (label - at_labels)
        return _Target(shift, ratio, reward, pseudo, sensitivity)
