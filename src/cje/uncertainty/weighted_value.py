"""One policy's value under one set of weights: its terms and their influence."""

from __future__ import annotations

import numpy as np

from cje.errors import CJEError
from cje.kernels.arrays import FloatArray
from cje.kernels.clusters import cluster_sums
from cje.uncertainty.config import UncertaintyEstimatorConfig
from cje.uncertainty.crossfit import CrossFit, Located, lines_without_fold
from cje.uncertainty.inputs import Inputs

__all__ = ["WeightedValue", "label_correction"]

# One label that is nearly the whole sum says nothing about its own spread.
_MAX_LEVERAGE = 0.9


def label_correction(residual: FloatArray, omega: FloatArray) -> tuple[float, FloatArray]:
    r"""Self-normalised mean of the labels' residuals and the influence of each label.

    :math:`\hat c = \sum\omega e/\sum\omega` with :math:`\omega = w^*/\pi`, and
    :math:`\psi_i = h_i (e_i - \hat c)/\sqrt{1-h_i}`, :math:`h_i = \omega_i/\sum\omega`: the
    leverage keeps the variance unbiased where few labels carry much (HC2).
    """
    total = float(omega.sum())
    if total <= 0.0:
        raise CJEError(
            "every labelled row has weight zero, so the judge cannot be checked for this policy",
            hint="label rows this policy could have written",
        )
    share = omega / total
    mean = float(share @ residual)
    return mean, share * (residual - mean) / np.sqrt(1.0 - np.minimum(share, _MAX_LEVERAGE))


class WeightedValue:
    """The estimate of one policy under one set of weights."""

    def __init__(
        self,
        config: UncertaintyEstimatorConfig,
        inputs: Inputs,
        model: CrossFit,
        located: Located,
        weights: FloatArray,
        k: int,
    ) -> None:
        self._parts = (config, inputs, model, located)
        self.config, self.inputs, self.model, self.weights, self.k = (
            config, inputs, model, weights, k,
        )  # fmt: skip
        rows = inputs.labelled
        self.total = float(weights.sum())
        omega = weights[rows] / inputs.propensity
        self.residual = inputs.labels - model.held_out
        self.correction, self.label_influence = label_correction(self.residual, omega)
        # Labelled rows meet fold v's map with frequency shares[v]; so do the others, and a fold's
        # wrong level cancels exactly against the correction.
        by_fold = np.bincount(inputs.label_folds, omega, minlength=inputs.n_folds)
        self.shares: FloatArray = by_fold / by_fold.sum()
        self.rewards = model.average(located, self.shares, inputs.covariates)
        self.rewards[rows] = model.held_out
        if inputs.fresh is None:
            self.outcome: FloatArray | None = None
            self.fresh_rewards = np.zeros(0)
        else:
            self.outcome, self.fresh_rewards = self._outcome(inputs.fresh[k].mean)
        left = self.rewards if self.outcome is None else self.rewards - self.outcome
        self.left_over = left
        self.weighted = float(weights @ left) / self.total
        direct = float(self.fresh_rewards.mean()) if len(self.fresh_rewards) else 0.0
        self.value = direct + self.weighted + self.correction

    def with_weights(self, weights: FloatArray) -> WeightedValue:
        """The same policy under other weights."""
        return WeightedValue(*self._parts, weights, self.k)

    def _outcome(self, fresh: FloatArray) -> tuple[FloatArray, FloatArray]:
        """q on the logged rows, out of fold, and on the fresh draws."""
        if self.config.outcome_model == "calibrated":
            placed = self.model.locate(fresh)
            averaged = self.model.average(placed, self.shares, self.inputs.covariates)
            return self.rewards, averaged
        if self.config.outcome_model == "constant":
            mean = float(self.rewards.mean())
            return np.full(len(self.rewards), mean), np.full(len(fresh), mean)
        scores, folds = self.inputs.scores.mean, self.inputs.row_folds
        level, slope = lines_without_fold(scores, self.rewards, folds, self.inputs.n_folds)
        return level[folds] + slope[folds] * scores, level.mean() + slope.mean() * fresh

    def deviations(self) -> FloatArray:
        """What each row's weight multiplies in the influence: the target of shrinkage."""
        out = self.left_over - self.weighted
        rows = self.inputs.labelled
        out[rows] += (self.residual - self.correction) / self.inputs.propensity
        return out

    def influence(self) -> tuple[FloatArray, FloatArray]:
        """Influence by cluster, of the sampled rows and of the labels' residuals."""
        inputs = self.inputs
        own = self.left_over - self.weighted
        own *= self.weights
        own /= self.total
        judging = np.zeros(len(inputs))
        judging[inputs.labelled] = self.label_influence
        if inputs.clusters is None and inputs.fresh is None:
            return own, judging
        codes = np.arange(len(inputs)) if inputs.clusters is None else inputs.clusters
        sampling = cluster_sums(own, codes, inputs.n_clusters)
        if inputs.fresh_clusters is not None:
            spread = (self.fresh_rewards - self.fresh_rewards.mean()) / len(self.fresh_rewards)
            sampling += cluster_sums(spread, inputs.fresh_clusters[self.k], inputs.n_clusters)
        return sampling, cluster_sums(judging, codes, inputs.n_clusters)
