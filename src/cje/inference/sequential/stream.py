"""The value from labels that arrive one by one, with a calibration refitted from the past only."""

from __future__ import annotations

from typing import Any

import numpy as np

from cje.checks import float_array
from cje.errors import CJEError
from cje.inference.estimate import InfluenceEstimate

__all__ = ["predictable_estimate"]


def predictable_estimate(
    label: Any,
    propensity: Any,
    prediction: Any,
    pool_mean: Any,
    pool_prediction: Any,
    *,
    name: str = "value",
    bounds: tuple[float, float] | None = None,
) -> InfluenceEstimate:
    r"""The value after t visited rows, each predicted by a fit on earlier rows.

    .. math:: \hat\theta_t = \frac1t \sum_{i \le t} \left[\bar f_{i-1} +
              \frac{\xi_i}{\pi_i}\left(Y_i - f_{i-1}(S_i)\right)\right]

    Row i was visited in random order and labelled (:math:`\xi_i = 1`) with probability
    :math:`\pi_i`; :math:`f_{i-1}` and :math:`\pi_i` depend on earlier rows only, and
    :math:`\bar f_{i-1}` is the mean of :math:`f_{i-1}` over the rows not visited before i. Each
    term has the mean of those rows as its expectation given the past, however poor the fit: a
    martingale, at whatever time one looks.

    Parameters
    ----------
    label : array (t,)
        NaN where the row was drawn not to be labelled.
    propensity, prediction, pool_mean : array (t,)
    pool_prediction : array (N,)
        The present fit on all judged rows, the visited ones first, in order; they give
        the part of the variance that labels cannot reduce.

    Raises
    ------
    CJEError
        Lengths that differ, fewer than two visited rows, a propensity outside (0, 1].

    References
    ----------
    Zrnic & Candes (2024), "Active statistical inference", ICML.

    Examples
    --------
    >>> y = np.array([1.0, np.nan, 0.0, 1.0])
    >>> half = np.full(4, 0.5)
    >>> float(predictable_estimate(y, half, half, half, np.full(9, 0.5)).values[0])
    0.75
    """
    y, pi = float_array("label", label), float_array("propensity", propensity)
    f, centre = float_array("prediction", prediction), float_array("pool_mean", pool_mean)
    pool = float_array("pool_prediction", pool_prediction)
    t = len(y)
    if not len(pi) == len(f) == len(centre) == t or t < 2 or len(pool) < t:
        raise CJEError(
            "a stream needs one label, propensity, prediction and pool mean per visited row",
            value=[len(y), len(pi), len(f), len(centre), len(pool)],
        )
    if not ((pi > 0.0) & (pi <= 1.0)).all():
        raise CJEError("a labelling probability must be in (0, 1]", value=float(pi.min()))
    corrected = np.where(np.isnan(y), 0.0, (y - f) / pi)
    influence = (pool - pool.mean()) / len(pool)
    influence[:t] += (corrected - corrected.mean()) / t
    value = float(np.mean(centre + corrected))
    return InfluenceEstimate.from_influence((name,), [value], influence[:, None], bounds=bounds)
