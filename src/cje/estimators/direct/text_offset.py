r"""What the text of a response adds to the prediction of its label: one number per response.

With embeddings e and residuals r = Y - f(S), a ridge regression of r on e whose penalty is the one
of greatest (restricted) likelihood of r ~ N(mu, s^2 (I + h E E')). Where the text explains nothing
the likelihood is greatest at h = 0, and the offset is zero.

No label enters its own prediction: fold k's regression is fitted on the labels of the other folds,
with residuals of the calibration that did not see fold k either, so its prediction f_k + g_k of the
labels of fold k is a function of other labels alone. Unlabelled rows get the average over the folds
by their shares of the labels, as f does.

Reference: Patterson & Thompson (1971), Biometrika 58 (restricted likelihood).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["TextOffset", "fit_text_offset"]

# Variance that text explains over the variance that it does not, of a text of average length.
# The ends of the grid are almost no penalty and no text; its steps are a factor of two.
_RATIOS = np.concatenate([[0.0], 2.0 ** np.arange(-12.0, 7.0)])


@dataclass(frozen=True)
class TextOffset:
    """Offsets of the labelled rows (cross-fitted) and of all rows of the data set."""

    at_labels: FloatArray
    by_row: FloatArray


def fit_text_offset(
    embeddings: FloatArray,
    at_labels: FloatArray,
    residuals: FloatArray,
    folds: IntArray,
    shares: FloatArray,
) -> TextOffset:
    """Cross-fitted offsets.

    Parameters
    ----------
    embeddings : array (n, d)
        Of all rows of the data set.
    at_labels : array (m, d)
        Of the labelled rows.
    residuals : array (m, F)
        Label minus the prediction fitted without fold k, in column k.
    folds : array (m,)
    shares : array (F,)
        Share of the labels in each fold.
    """
    center = embeddings.mean(axis=0)
    size = float(np.sqrt(((embeddings - center) ** 2).sum(axis=1).mean())) or 1.0
    labelled = (at_labels - center) / size
    slopes = np.zeros((len(shares), embeddings.shape[1]))
    cross_fitted = np.zeros(len(labelled))
    for k in np.flatnonzero(shares > 0):
        rest, own = folds != k, folds == k
        slopes[k] = ridge_slopes(labelled[rest], residuals[rest, k])
        cross_fitted[own] = labelled[own] @ slopes[k]
    return TextOffset(cross_fitted, ((embeddings - center) / size) @ (shares @ slopes))


def ridge_slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Slopes of y on x, with the penalty of greatest restricted likelihood.

    Examples
    --------
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> ridge_slopes(x, 2.0 * x[:, 0] + 0.1 * np.cos(9.0 * x[:, 0])).round(1).tolist()
    [2.0]
    """
    x, y = x - x.mean(axis=0), y - y.mean()
    squared, right = _principal(x)
    moment = right.T @ (x.T @ y)
    explained = np.divide(moment**2, squared, out=np.zeros_like(squared), where=squared > 0)
    outside = max(float(y @ y - explained.sum()), 0.0)
    grown = 1.0 + _RATIOS[:, None] * squared
    unexplained = outside + (explained / grown).sum(axis=1)
    if unexplained[0] <= 0.0:
        return np.zeros(x.shape[1])
    safe = np.maximum(unexplained, np.finfo(float).tiny)
    likelihood = -0.5 * (np.log(grown).sum(axis=1) + (len(y) - 1) * np.log(safe))
    ratio = _RATIOS[int(np.argmax(likelihood))]
    return np.asarray(right @ (ratio * moment / (1.0 + ratio * squared)))


def _principal(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Squared singular values of x and its right singular vectors, by the smaller product."""
    if len(x) < x.shape[1]:
        squared, left = np.linalg.eigh(x @ x.T)
        right = x.T @ left
        size = np.sqrt((right**2).sum(axis=0))
        right = np.divide(right, size, out=np.zeros_like(right), where=size > 0)
    else:
        squared, right = np.linalg.eigh(x.T @ x)
    keep = squared > 1e-10 * max(float(squared[-1]), np.finfo(float).tiny)
    return squared[keep], right[:, keep]
