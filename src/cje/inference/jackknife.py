"""Delete-one-fold jackknife: how far the labels behind a calibration move the estimates."""

from __future__ import annotations

from typing import Any

import numpy as np

from cje.checks import LARGEST, finite_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["fold_jackknife_covariance", "jackknife_influence"]


def fold_jackknife_covariance(leave_one_out: Any) -> FloatArray:
    r"""Covariance of K estimates from their values with each label fold left out.

    .. math:: \hat V = \frac{F-1}{F} \sum_f (\hat\theta^{(-f)} - \bar\theta)
              (\hat\theta^{(-f)} - \bar\theta)^\top

    Add it (as a `Component` with F - 1 degrees of freedom) only where the influence function lacks
    the label term; a rectified estimator already has it.

    Parameters
    ----------
    leave_one_out : array (F, K)
        Estimates recomputed without the labels of fold f.

    Examples
    --------
    >>> float(fold_jackknife_covariance([[1.0], [2.0], [3.0]])[0, 0])
    1.3333333333333333
    """
    pieces = jackknife_influence(leave_one_out)
    return np.asarray(pieces.T @ pieces)


def jackknife_influence(leave_one_out: Any) -> FloatArray:
    r"""Influence (F, K) of each part left out, sum convention: its cross product is the covariance.

    :math:`\psi_f = \sqrt{(F-1)/F}\,(\bar\theta - \hat\theta^{(-f)})`: positive where the part
    raised the estimate.

    Examples
    --------
    >>> jackknife_influence([[1.0], [2.0], [3.0]])[:, 0].round(3).tolist()
    [0.816, 0.0, -0.816]
    """
    values = finite_array("leave_one_out", leave_one_out, ndim=2, largest=LARGEST)
    if len(values) < 2:
        raise CJEError("a fold jackknife needs a table of at least two folds", value=values.shape)
    return np.asarray(np.sqrt((len(values) - 1) / len(values)) * (values.mean(axis=0) - values))
