r"""Variances that rest on a few weighted labels, and their degrees of freedom.

A label part is a weighted sum of residuals, :math:`\sum_i a_i r_i`. Its variance is estimated by
:math:`L = \sum_i \psi_i^2`, which is imprecise where a few heavy labels dominate: it has

.. math:: d = \Big(\sum_i a_i^2\Big)^2 \Big/ \sum_i a_i^4

degrees of freedom (Satterthwaite; equal residual variances, Bell & McCaffrey 2002), and with
bounded labels it is too small exactly where the estimate is off: heavy labels that are all good
give too small a variance. The residual variance of all labels together, :math:`\sigma^2`, gives a
second estimate, :math:`P = \sigma^2 \sum_i a_i^2`: precise, but the same wherever the residuals are
large. The moderated variance weighs the two as Smyth (2004) does for genes,

.. math:: \tilde L = \frac{d L + d_0 P}{d + d_0} \quad\text{with } d + d_0
          \text{ degrees of freedom},

with a prior of :math:`d_0 = 4` labels, as many as the pseudo-observations of Agresti & Coull
(1998) for a proportion. It vanishes as d grows.

References
----------
Bell & McCaffrey (2002), Survey Methodology 28, 169-181; Smyth (2004), Statistical Applications in
Genetics and Molecular Biology 3(1); Agresti & Coull (1998), The American Statistician 52, 119-126.
"""

from __future__ import annotations

import numpy as np

from cje.kernels.arrays import FloatArray

__all__ = ["PRIOR_LABELS", "moderated_variance", "piece_degrees"]


PRIOR_LABELS = 4.0


def piece_degrees(pieces: FloatArray, most: FloatArray) -> FloatArray:
    """(K,) degrees of freedom d of a sum of squares over `pieces` (m, K), and at most `most`.

    Examples
    --------
    >>> piece_degrees(np.ones((30, 1)), np.array([np.inf])).tolist()
    [30.0]
    """
    size = np.abs(pieces).max(axis=0, initial=0.0)
    squares = (pieces / np.where(size > 0, size, 1.0)) ** 2
    fourth = np.einsum("mk,mk->k", squares, squares)
    known = squares.sum(axis=0) ** 2 / np.where(fourth > 0, fourth, 1.0)
    return np.where(fourth > 0, np.minimum(known, most), most)


def moderated_variance(
    seen: FloatArray, pieces: FloatArray, degrees: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The moderated variance of each quantity, and its degrees of freedom.

    Parameters
    ----------
    seen : array (K,)
        L.
    pieces : array (m, K)
        Weights times sigma.
    degrees : array (K,)
        d.

    Examples
    --------
    >>> variance, df = moderated_variance(np.array([0.5]), np.full((16, 1), 0.25), np.array([16.0]))
    >>> variance.tolist(), df.tolist()
    ([0.6], [20.0])
    """
    steady = np.einsum("mk,mk->k", pieces, pieces)
    prior = PRIOR_LABELS / (degrees + PRIOR_LABELS)
    return seen + prior * (steady - seen), degrees + PRIOR_LABELS
