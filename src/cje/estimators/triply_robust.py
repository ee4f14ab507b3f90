"""`tr-cpo`: the doubly robust value plus a correction by the labels, weighted to the target."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cje.calibration.oracle_slice import weight_given_score
from cje.errors import CJEError
from cje.estimators.doubly_robust import direct_part
from cje.estimators.offpolicy import Fit, OffPolicyEstimator, Problem
from cje.inference import Finding
from cje.kernels.clusters import cluster_sums

__all__ = ["TRCPOEstimator", "label_correction"]

FloatArray = NDArray[np.float64]

_MAX_LEVERAGE = 0.9


def label_correction(residual: FloatArray, weights: FloatArray) -> tuple[float, FloatArray]:
    r"""Self-normalised mean of Y - f(S) over labelled rows, and its influence by row.

    :math:`\hat c = \sum \omega_i e_i / \sum \omega_i`, :math:`\omega = W / \pi_L`, with
    :math:`\psi_i = \omega_i (e_i - \hat c) / (\sum\omega \sqrt{1 - h_i})`; the leverage
    :math:`h_i = \omega_i / \sum\omega` keeps the variance unbiased where a few rows weigh much.
    """
    total = float(weights.sum())
    if total <= 0.0:
        raise CJEError("every labelled row has weight zero", hint="label more logged rows")
    share = weights / total
    mean = float(share @ residual)
    leverage = np.minimum(share, _MAX_LEVERAGE)
    return mean, share * (residual - mean) / np.sqrt(1.0 - leverage)


class TRCPOEstimator(OffPolicyEstimator):
    r"""Triply robust: doubly robust plus :math:`(L / \pi_L(S))\, W (Y - f(S))`.

    .. math:: \hat V = \sum_v s_v \overline{f^{(-v)}(\text{fresh})}
              + \frac{\sum_i (L_i/\pi_i) W_i (Y_i - f^{(-v(i))}(S_i))}{\sum_i (L_i/\pi_i) W_i}

    with f cross-fitted over label folds v, and :math:`s_v` the weighted share of the labels in fold
    v, so that a wrong f cancels exactly. Right where the weights and the labelling propensity are
    right, whatever f is; and where f is right and carries over, whatever the weights are. The label
    term is in the influence function: no jackknife is added to it.

    Parameters
    ----------
    label_weight : {"raw", "projected"}
        W, or m(S) = E[W | S] in its place: less variance, but unbiased only if W and Y are
        uncorrelated given S (a length-biased judge breaks it).

    Other parameters as in `OffPolicyEstimator`.
    """

    name: ClassVar[str] = "tr-cpo"
    needs_fresh: ClassVar[bool] = True

    def __init__(self, *args: Any, label_weight: str = "raw", **options: Any) -> None:
        if label_weight not in ("raw", "projected"):
            raise CJEError("label_weight is 'raw' or 'projected'", value=label_weight)
        super().__init__(*args, **options)
        self.label_weight = label_weight

    def fit(self, problem: Problem) -> Fit:
        logged, rewards = problem.logged, problem.rewards
        rows = np.flatnonzero(logged.labelled)
        residual = logged.labels[rows] - rewards.out_of_fold[rows]
        fresh_rewards, corrections = [], []
        correction_influence = np.zeros((problem.n_clusters, len(logged.policies)))
        for k, draws in enumerate(problem.fresh):
            weight = logged.weights[:, k]
            if self.label_weight == "projected":
                weight = weight_given_score(weight, logged.scores, logged.folds)
            omega = weight[rows] / logged.propensity[rows]
            correction, influence = label_correction(residual, omega)
            corrections.append(correction)
            correction_influence[:, k] = cluster_sums(
                influence, logged.clusters[rows], problem.n_clusters
            )
            shares = np.bincount(logged.folds[rows], omega, minlength=logged.n_folds)
            each = rewards.model.predict_each_fold(draws.scores, draws.covariates)
            fresh_rewards.append(each @ (shares / shares.sum()))
        direct, direct_influence = direct_part(problem, tuple(fresh_rewards))
        named = dict(zip(logged.policies, corrections, strict=True))
        return Fit(
            direct + np.array(corrections),
            direct_influence + correction_influence,
            None,
            {"label_correction": named, "label_weight": self.label_weight},
        )

    def gates(self, problem: Problem) -> list[Finding]:
        """The correction must not rest on a handful of heavy labels."""
        names = problem.logged.policies
        return [f for k, name in enumerate(names) for f in self._label_gate(problem, name, k)]
