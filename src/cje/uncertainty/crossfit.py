"""The calibration without each fold, and its averages over all rows, cheaply."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cje.kernels.isotonic import isotonic_fit, isotonic_predict

__all__ = ["CrossFit", "Located", "fit_calibration"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
    """Isotonic maps (and a linear part in the covariates) fitted without each fold."""
    held_out = np.empty(len(labels))
    fits, slopes = [], []
    for fold in range(n_folds):
        inside = folds == fold
        # An empty fold leaves nothing out; a fold that holds every label keeps them all.
        train = ~inside if inside.any() and not inside.all() else np.ones(len(labels), dtype=bool)
        w = None if weights is None else weights[train]
        fit = isotonic_fit(scores[train], labels[train], w)
        fits.append(fit)
        predicted = isotonic_predict(*fit, scores[inside])
        if covariates is not None:
            left_over = labels[train] - isotonic_predict(*fit, scores[train])
            slope = _ridge(covariates[train], left_over, w)
            slopes.append(slope)
            predicted = predicted + covariates[inside] @ slope
        held_out[inside] = predicted
    knots = np.unique(np.concatenate([x for x, _ in fits]))
    heights = np.stack([isotonic_predict(x, y, knots) for x, y in fits])
    return CrossFit(knots, heights, np.stack(slopes) if slopes else None, held_out)


def _ridge(x: FloatArray, y: FloatArray, w: FloatArray | None) -> FloatArray:
    """Least squares with a whisper of ridge, for a constant or repeated column."""
    xw = x if w is None else x * w[:, None]
    gram = xw.T @ x
    gram[np.diag_indices_from(gram)] += 1e-8 * (1.0 + np.trace(gram))
    return np.asarray(np.linalg.solve(gram, xw.T @ y))
