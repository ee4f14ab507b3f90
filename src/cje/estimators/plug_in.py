"""How the labels behind an isotonic calibration move a mean of its predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cje.kernels.clusters import cluster_sums

__all__ = ["label_influence"]

FloatArray = NDArray[np.float64]


def label_influence(
    predicted: FloatArray,
    row_weight: FloatArray,
    fitted: FloatArray,
    labels: FloatArray,
    label_weight: FloatArray | None = None,
) -> FloatArray:
    r"""Influence of each label on :math:`\sum_i u_i r(S_i)`, the blocks of r taken as given.

    An isotonic fit is the mean label within each block, so label j of block b moves a mean of
    predictions that puts the share :math:`m_b` on that block by
    :math:`m_b\, w_j (Y_j - r_j) / W_b`. A prediction between two blocks is split between them as
    the interpolation does.

    Parameters
    ----------
    predicted, row_weight : array (n,)
        Predictions averaged, and their weights (summing to one).
    fitted, labels, label_weight : array (m,)
        Calibration at the labelled rows, their labels and weights.

    Returns
    -------
    array (m,)
    """
    levels, block = np.unique(fitted, return_inverse=True)
    w = np.ones(len(labels)) if label_weight is None else label_weight
    place = np.interp(predicted, levels, np.arange(len(levels)))
    lower = np.floor(place).astype(np.int64)
    upper = np.minimum(lower + 1, len(levels) - 1)
    part = place - lower
    share = cluster_sums(row_weight * (1.0 - part), lower, len(levels))
    share += cluster_sums(row_weight * part, upper, len(levels))
    total = cluster_sums(w, block, len(levels))
    return np.asarray((share / total)[block] * w * (labels - fitted))
