"""How the labels behind an isotonic calibration move a mean of its predictions."""

from __future__ import annotations

import numpy as np

from cje.inference import jackknife_influence
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["label_influence", "sized_by_jackknife"]


_ROUNDING = 1e-12  # residuals with a smaller share of the variance are rounding


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


def sized_by_jackknife(
    moved: FloatArray, without: FloatArray, fold: IntArray, prompt: IntArray
) -> FloatArray:
    r"""The labels' influence with the variance of the delete-one-fold jackknife.

    The pattern over the labels is the influence function's, the size the jackknife's, which
    includes the movement of the blocks. Labels that rise with the score without exception leave no
    residual, hence no pattern; then fold f's piece of the jackknife, :math:`\psi_f`, is spread
    evenly over its :math:`P_f` prompts, :math:`\psi_f / \sqrt{P_f}` each, which keeps the
    jackknife's variance of every value and its covariance of any two.

    Parameters
    ----------
    moved : array (m,)
        Influence of each label, the blocks taken as given.
    without : array (F,)
        The value without each fold of labels.
    fold, prompt : int array (m,)
        Fold (a position in `without`) and prompt of each label.
    """
    pieces = jackknife_influence(without[:, None])[:, 0]
    _, first, at, labels = np.unique(
        prompt, return_index=True, return_inverse=True, return_counts=True
    )
    by_prompt = np.bincount(at, moved)  # errors of one prompt's labels are dependent
    variance, size = float(pieces @ pieces), float(by_prompt @ by_prompt)
    if size > _ROUNDING * variance:
        return np.asarray(moved * np.sqrt(variance / size))
    prompts = np.bincount(fold[first], minlength=len(without))
    return np.asarray(pieces[fold] / np.sqrt(prompts[fold]) / labels[at])
