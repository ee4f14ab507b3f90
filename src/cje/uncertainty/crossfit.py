"""The calibration without each fold, and its averages over all rows, cheaply."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cje.calibration.rewards.blending import blend_weight
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.isotonic import isotonic_fit, isotonic_predict

__all__ = ["CrossFit", "Located", "fit_calibration", "lines_without_fold"]


@dataclass(frozen=True)
class Located:
    """Scores placed between the common knots: any fold average is then two look-ups a row."""

    left: IntArray
    share: FloatArray


@dataclass(frozen=True)
class CrossFit:
    """K maps from score (and covariates) to label, each fitted without one fold.

    Attributes
    ----------
    knots : array (m,)
        All knots of all maps.
    heights : array (F, m)
        Each map at the knots: linear in between, so nothing is lost.
    slopes : array (F, p) or None
        Coefficients of the covariates on what the score leaves over.
    held_out : array (labels,)
        Every labelled row predicted by the map that never saw its fold.
    """

    knots: FloatArray
    heights: FloatArray
    slopes: FloatArray | None
    held_out: FloatArray

    def locate(self, scores: FloatArray) -> Located:
        """Where each score lies among the knots."""
        if len(self.knots) == 1:
            return Located(np.zeros(len(scores), dtype=np.int64), np.zeros(len(scores)))
        inside = np.clip(scores, self.knots[0], self.knots[-1])
        left = np.searchsorted(self.knots[1:-1], inside, side="right")
        share = inside
        share -= self.knots[left]
        share /= np.diff(self.knots)[left]
        return Located(left, share)

    def average(
        self, located: Located, shares: FloatArray, covariates: FloatArray | None
    ) -> FloatArray:
        """The maps averaged with `shares`, at located scores."""
        height = shares @ self.heights
        rise = np.diff(height, append=height[-1])
        out = np.asarray(rise[located.left] * located.share)
        out += height[located.left]
        if self.slopes is not None and covariates is not None:
            out += covariates @ (shares @ self.slopes)
        return out


def fit_calibration(
    scores: FloatArray,
    labels: FloatArray,
    folds: IntArray,
    n_folds: int,
    *,
    weights: FloatArray | None = None,
    covariates: FloatArray | None = None,
) -> CrossFit:
    """Maps fitted without each fold: isotonic, blended with a line, plus a part in covariates.

    Isotonic regression is right in the long run and, with few labels, too low at its lower end and
    too high at its upper end; a line is the reverse. The blend follows their out-of-fold errors.
    """
    trained = [_training(folds == fold) for fold in range(n_folds)]
    fits = []
    isotonic = np.empty(len(labels))
    for fold, train in enumerate(trained):
        w = None if weights is None else weights[train]
        fits.append(isotonic_fit(scores[train], labels[train], w))
        inside = folds == fold
        isotonic[inside] = isotonic_predict(*fits[fold], scores[inside])
    level, slope = lines_without_fold(scores, labels, folds, n_folds, weights)
    line = level[folds] + slope[folds] * scores
    share = blend_weight(labels, isotonic, line, weights)
    knots = np.unique(np.concatenate([x for x, _ in fits]))
    heights = share * np.stack([isotonic_predict(x, y, knots) for x, y in fits])
    heights += (1.0 - share) * (level[:, None] + slope[:, None] * knots)
    # The line is kept flat outside the knots, as every other use of the maps has it.
    inside_range = np.clip(scores, knots[0], knots[-1])
    held_out = share * isotonic + (1.0 - share) * (level[folds] + slope[folds] * inside_range)
    if covariates is None:
        return CrossFit(knots, heights, None, held_out)
    left_over = labels - held_out
    slopes = np.stack(
        [
            _ridge(covariates[train], left_over[train], None if weights is None else weights[train])
            for train in trained
        ]
    )
    held_out = held_out + np.einsum("ij,ij->i", covariates, slopes[folds])
    return CrossFit(knots, heights, slopes, held_out)


def _training(inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rows a fold leaves: all where it is empty, or holds every label."""
    return ~inside if inside.any() and not inside.all() else np.ones(len(inside), dtype=bool)


def lines_without_fold(
    x: FloatArray, y: FloatArray, folds: IntArray, n_folds: int, w: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Intercept and slope of the least-squares line without each fold, from sums alone."""
    one = np.ones_like(x) if w is None else w
    moments = np.stack(
        [
            np.bincount(folds, column, minlength=n_folds)
            for column in (one, one * x, one * x**2, one * y, one * x * y)
        ]
    )
    left = moments.sum(axis=1, keepdims=True) - moments
    left = np.where(left[0] > 0.0, left, moments.sum(axis=1, keepdims=True))
    count, sx, sxx, sy, sxy = left
    spread = sxx - sx**2 / count
    flat = spread <= 1e-12 * np.maximum(sxx, 1e-300)
    slope = np.where(flat, 0.0, (sxy - sx * sy / count) / np.where(flat, 1.0, spread))
    return (sy - slope * sx) / count, slope


def _ridge(x: FloatArray, y: FloatArray, w: FloatArray | None) -> FloatArray:
    """Least squares with a whisper of ridge, for a constant or repeated column."""
    xw = x if w is None else x * w[:, None]
    gram = xw.T @ x
    gram[np.diag_indices_from(gram)] += 1e-8 * (1.0 + np.trace(gram))
    return np.asarray(np.linalg.solve(gram, xw.T @ y))
