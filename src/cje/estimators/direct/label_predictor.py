"""One cross-fitted prediction of the label for all policies: a calibration blended with a line.

Isotonic regression is consistent but noisy with few labels; a line is stable but biased. The
blend's weight is estimated from out-of-fold errors with a prior at one half, so it moves to
the calibration as labels accumulate. Any prediction keeps the rectified estimators valid; a better
one makes their intervals shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cje.calibration.rewards.blending import blend_weight
from cje.calibration.rewards.reward_model import CrossFittedRewardModel, fit_reward_model
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.isotonic import isotonic_predict

__all__ = ["LabelPredictor", "fit_label_predictor"]


@dataclass(frozen=True)
class LabelPredictor:
    """Predictions of the label from the score and covariates.

    Attributes
    ----------
    model : CrossFittedRewardModel
        The calibration, all-data and per fold.
    lines : array (F, 1 + p)
        Least-squares coefficients (intercept, score, covariates) fitted without each fold.
    blend : float
        Weight of the calibration; the line has the rest.
    shares : array (F,)
        Share of the labels in each fold.
    at_labels : array (n,)
        Prediction of each labelled row by the fits that never saw its fold.
    ranked : CrossFittedRewardModel, optional
        The calibration on ranks, which predicts in its place where the mode is monotone.
    reference : array, optional
        The sorted scores that ranks are taken among.
    """

    model: CrossFittedRewardModel
    lines: FloatArray
    blend: float
    shares: FloatArray
    at_labels: FloatArray
    ranked: CrossFittedRewardModel | None = None
    reference: FloatArray | None = None

    @property
    def fitted(self) -> CrossFittedRewardModel:
        """The calibration that predicts, a function of `index`."""
        return self.model if self.ranked is None else self.ranked

    def index(self, scores: FloatArray) -> FloatArray:
        """What predictions are a function of: the score, or its rank among `reference`."""
        return scores if self.reference is None else mid_ranks(scores, self.reference)

    def reward(self, scores: FloatArray, covariates: FloatArray | None = None) -> FloatArray:
        """The calibrated reward of all labels together."""
        return self.fitted.predict(self.index(scores), covariates)

    def average(self, scores: FloatArray, covariates: FloatArray | None = None) -> FloatArray:
        """Unlabelled rows: the fold predictions averaged by the folds' shares of the labels.

        Labelled rows use fold k's model with frequency `shares[k]`; so do these, which keeps the
        rectified mean free of a fold effect. A monotone calibration averages to one piecewise
        linear function, evaluated once.
        """
        scores = self.index(scores)
        line = _line(self.shares @ self.lines, scores, covariates)
        if self.fitted.mode == "monotone":
            calibrated = isotonic_predict(*self._averaged_knots, scores)
        else:
            calibrated = self.fitted.predict_each_fold(scores, covariates) @ self.shares
        return self.blend * calibrated + (1.0 - self.blend) * line

    def each_fold(self, scores: FloatArray, covariates: FloatArray | None = None) -> FloatArray:
        """(n, F) predictions by the fits without each fold."""
        scores = self.index(scores)
        calibrated = self.fitted.predict_each_fold(scores, covariates)
        lines = np.column_stack([_line(line, scores, covariates) for line in self.lines])
        return self.blend * calibrated + (1.0 - self.blend) * lines

    @cached_property
    def _averaged_knots(self) -> tuple[FloatArray, FloatArray]:
        folds = self.fitted.folds
        knots = np.unique(np.concatenate([fold.x_knots for fold in folds]))
        heights = np.zeros(len(knots))
        for share, fold in zip(self.shares, folds, strict=True):
            heights += share * fold.predict(knots)
        return knots, heights


def fit_label_predictor(
    scores: FloatArray,
    labels: FloatArray,
    folds: IntArray,
    *,
    n_folds: int,
    weights: FloatArray | None = None,
    covariates: FloatArray | None = None,
    mode: str = "auto",
    reference: FloatArray | None = None,
) -> LabelPredictor:
    """Fit calibration, line and blend on the labelled rows of all policies together.

    With sorted `reference` scores (all rows), predictions are a function of the ranks among them:
    an increasing transformation of the score changes nothing.
    """

    def fit(x: FloatArray) -> CrossFittedRewardModel:
        return fit_reward_model(
            x, labels, folds=folds, n_folds=n_folds, weights=weights, covariates=covariates,
            mode=mode,
        )  # fmt: skip

    model, ranked = fit(scores), None
    if reference is not None:
        scores = mid_ranks(scores, reference)
        ranked = fit(scores)
    w = np.ones(len(labels)) if weights is None else weights / weights.mean()
    lines = _lines_without_fold(scores, labels, folds, n_folds, w, covariates)
    shares = np.bincount(folds, w, minlength=n_folds) / w.sum()
    line = _line(lines[folds], scores, covariates)
    calibrated = (ranked or model).label_oof
    assert calibrated is not None  # folds were given
    blend = blend_weight(labels, calibrated, line, w)
    at_labels = blend * calibrated + (1.0 - blend) * line
    return LabelPredictor(model, lines, blend, shares, at_labels, ranked, reference)


def mid_ranks(scores: FloatArray, reference: FloatArray) -> FloatArray:
    """The share of sorted `reference` below each score, ties counting half.

    Examples
    --------
    >>> mid_ranks(np.array([0.2, 0.5]), np.array([0.1, 0.2, 0.2, 0.9])).tolist()
    [0.5, 0.75]
    """
    below = np.searchsorted(reference, scores, side="left")
    upto = np.searchsorted(reference, scores, side="right")
    return np.asarray((below + upto) / (2.0 * len(reference)))


def _line(
    coefficients: FloatArray, scores: FloatArray, covariates: FloatArray | None
) -> FloatArray:
    """Intercept, slope and covariate terms; `coefficients` is (1 + p,) or one row per score."""
    out = coefficients[..., 0] + coefficients[..., 1] * scores
    if covariates is not None:
        out += (covariates * coefficients[..., 2:]).sum(axis=1)
    return np.asarray(out)


def _lines_without_fold(
    scores: FloatArray,
    labels: FloatArray,
    folds: IntArray,
    n_folds: int,
    weights: FloatArray,
    covariates: FloatArray | None,
) -> FloatArray:
    """Weighted least squares without each fold, from per-fold normal equations."""
    columns = [np.ones_like(scores), scores]
    if covariates is not None:
        columns += list(covariates.T)
    p = len(columns)
    moments = np.empty((n_folds, p, p + 1))
    for i in range(p):
        for j, other in enumerate([*columns, labels]):
            moments[:, i, j] = np.bincount(folds, weights * columns[i] * other, n_folds)
    left = moments.sum(axis=0) - moments
    # A tiny ridge, relative to each column's own size, for a constant score or covariate.
    size = np.einsum("fii->fi", left[:, :, :p])
    gram = left[:, :, :p] + 1e-9 * np.einsum("fi,ij->fij", size + 1e-300, np.eye(p))
    return np.asarray(np.linalg.solve(gram, left[:, :, p:])[..., 0])
