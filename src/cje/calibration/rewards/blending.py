"""Weight of the calibration in its blend with a line, from out-of-fold errors."""

from __future__ import annotations

import numpy as np

from cje.kernels.arrays import FloatArray

__all__ = ["blend_weight"]

# Prior of the blend: N(1/2, 1/4^2). With 200 labels the prior dominates, with 2,000 the data.
_PRIOR_MEAN, _PRIOR_PRECISION = 0.5, 16.0


def blend_weight(
    labels: FloatArray,
    calibrated: FloatArray,
    line: FloatArray,
    weights: FloatArray | None = None,
) -> float:
    """Posterior mean of the calibration's weight under out-of-fold squared error, in [0, 1].

    Isotonic regression is consistent but noisy with few labels; a line is stable but biased. The
    prior mean is one half, and is returned where no variance is left to explain.

    Parameters
    ----------
    labels, calibrated, line : array (n,)
        Labels, and the two predictions of each by fits that never saw its fold.
    weights : array (n,), optional
    """
    w = np.ones(len(labels)) if weights is None else weights / weights.mean()
    gap = calibrated - line
    noise = float(np.average((labels - 0.5 * (calibrated + line)) ** 2, weights=w))
    if noise <= 1e-12:
        return _PRIOR_MEAN
    gain = float(w @ ((labels - line) * gap)) / noise + _PRIOR_MEAN * _PRIOR_PRECISION
    return float(np.clip(gain / (float(w @ gap**2) / noise + _PRIOR_PRECISION), 0.0, 1.0))
