r"""Critical values that a standardised estimate stays below at all looks at once.

With information :math:`I_t = 1 / Var(\hat\theta_t)` the estimates of a growing sample behave like a
Brownian motion observed at :math:`I_t`: :math:`I_t (\hat\theta_t - \theta) \approx B(I_t)`. A
boundary for B is a boundary for every estimator with an influence function.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.special import lambertw, ndtr, ndtri

from cje.checks import check_level, float_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["Spending", "mixture_boundary", "spending_boundary", "tuning_ratio"]

Spending = Literal["obrien-fleming", "pocock", "quadratic"]

_MOST_LOOKS = 2_000
_GRID_EDGE = 6.0  # of a Brownian motion at time one
_NEVER = 1e-12  # an error below this is not spent: the critical value is infinite


def tuning_ratio(level: float = 0.95) -> float:
    r"""The x that minimises the mixture boundary: :math:`-W_{-1}(-\alpha^2 / e) - 1`.

    Examples
    --------
    >>> round(tuning_ratio(0.95), 3)
    8.212
    """
    alpha = 1.0 - check_level(level)
    return float(-lambertw(-(alpha**2) / np.e, -1).real - 1.0)


def mixture_boundary(count: Any, *, tuned_at: float, level: float = 0.95) -> FloatArray:
    r"""Critical value of the normal mixture sequence after `count` labels.

    .. math:: q(n) = \sqrt{(1 + 1/x)\,\log\frac{1 + x}{\alpha^2}}, \qquad x = x^* n / n^*

    A Brownian motion, standardised, stays below it at all times with probability at least
    :math:`1 - \alpha`. At the tuned sample :math:`n^*` it is narrowest: 1.55 times the normal
    quantile at 95%.

    Parameters
    ----------
    count : array_like
        Labels so far, or another clock that grows at most as fast as the information.
    tuned_at : float
        The count at which the sequence should be narrowest; fixed before the first look.

    Raises
    ------
    CJEError
        A count or `tuned_at` that is not positive.

    References
    ----------
    Robbins (1970), Annals of Mathematical Statistics 41, 1397-1409; Waudby-Smith, Arbour, Sinha,
    Kennedy & Ramdas (2024), "Time-uniform central limit theory and asymptotic confidence
    sequences", Annals of Statistics 52, 2613-2640.

    Examples
    --------
    >>> round(float(mixture_boundary(500, tuned_at=500)), 3)
    3.035
    """
    n = float_array("count", count)
    if not (n > 0.0).all() or not np.isfinite(tuned_at) or tuned_at <= 0.0:
        raise CJEError("counts and tuned_at must be positive", value=(count, tuned_at))
    alpha = 1.0 - check_level(level)
    x = tuning_ratio(level) * n / tuned_at
    return np.asarray(np.sqrt((1.0 + 1.0 / x) * np.log((1.0 + x) / alpha**2)))


def spending_boundary(
    first: int, horizon: int, *, level: float = 0.95, spending: Spending = "quadratic"
) -> FloatArray:
    r"""Critical values for a look after every label from `first` to `horizon`.

    The error :math:`\alpha^*(n / h)` may have been spent by label n of the horizon h:
    ``"quadratic"`` :math:`\alpha t^2`; ``"obrien-fleming"``
    :math:`4 - 4\Phi(z_{\alpha/4} / \sqrt{t})`, nearly all of it at the end; ``"pocock"``
    :math:`\alpha \log(1 + (e - 1) t)`, evenly. The critical values follow by propagating the
    density of the paths that have not crossed (Armitage, McPherson & Rowe 1969). Looks that are
    left out only lower the error. Beyond 2,000 labels one look stands for
    several, equally spaced.

    Returns
    -------
    array (horizon - first + 1,)
        Critical value after each label; infinite where no error may be spent yet.

    References
    ----------
    Lan & DeMets (1983), Biometrika 70, 659-663; Kim & DeMets (1987), Biometrika 74, 149-154.

    Examples
    --------
    >>> values = spending_boundary(30, 500)
    >>> bool(values[-1] < 1.35 * 1.96 < values[0])
    True
    """
    alpha = 1.0 - check_level(level)
    if not (isinstance(first, int) and isinstance(horizon, int) and 1 <= first <= horizon):
        raise CJEError(
            "a spending boundary needs whole numbers 1 <= first <= horizon", value=(first, horizon)
        )
    if spending not in ("obrien-fleming", "pocock", "quadratic"):
        raise CJEError(
            "unknown spending function", value=spending, hint="obrien-fleming, pocock or quadratic"
        )
    return _boundary(first, horizon, alpha, spending)


@lru_cache(maxsize=16)
def _boundary(first: int, horizon: int, alpha: float, spending: Spending) -> FloatArray:
    counts = np.arange(first, horizon + 1)
    if len(counts) > _MOST_LOOKS:
        looks = np.unique(np.linspace(first, horizon, _MOST_LOOKS).round().astype(int))
    else:
        looks = counts
    share = looks / horizon
    values = _critical_values(share, _spent(share, alpha, spending))
    # Between two looks the path is not observed: the later, lower value would be too low there.
    full = values[np.searchsorted(looks, counts, side="right") - 1]
    full.setflags(write=False)
    return full


def _spent(share: FloatArray, alpha: float, spending: Spending) -> FloatArray:
    """Error that may have been spent by each share of the horizon."""
    if spending == "quadratic":
        return np.asarray(alpha * share**2)
    if spending == "pocock":
        return np.asarray(alpha * np.log1p((np.e - 1.0) * share))
    return np.asarray(4.0 - 4.0 * ndtr(-ndtri(alpha / 4.0) / np.sqrt(share)))


def _critical_values(share: FloatArray, spent: FloatArray) -> FloatArray:
    """Critical value at each share such that the crossing probability is what may be spent."""
    steps = np.diff(share, prepend=0.0)
    h = min(0.01, float(np.sqrt(steps.min())) / 3.0)
    size = int(np.ceil(_GRID_EDGE / h))
    grid = h * np.arange(-size, size + 1)
    n_fft = int(2 ** np.ceil(np.log2(2 * len(grid))))
    frequency = 2.0 * np.pi * np.fft.rfftfreq(n_fft, d=h)
    # The first step starts from a point, so its density is known.
    mass = np.exp(-0.5 * grid**2 / steps[0])
    mass /= mass.sum()
    values, gone = np.empty(len(share)), 0.0
    for k, (t, step) in enumerate(zip(share, steps, strict=True)):
        if k:
            damped = np.fft.rfft(mass, n_fft) * np.exp(-0.5 * step * frequency**2)
            mass = np.maximum(np.fft.irfft(damped, n_fft)[: len(grid)], 0.0)
        budget = spent[k] - gone
        if budget < _NEVER:
            values[k] = np.inf
            continue
        edge, kept = _cut_tails(mass, budget / 2.0, size)
        mass, gone = kept, spent[k]
        values[k] = edge * h / np.sqrt(t)
    return values


def _cut_tails(mass: FloatArray, tail: float, centre: int) -> tuple[float, FloatArray]:
    """The distance from the centre, in cells, beyond which `tail` lies, and the mass within.

    A cell reaches half a step to each side of its point and its mass is spread evenly over it.
    """
    upper = mass[centre:].copy()
    upper[0] /= 2.0
    beyond = np.cumsum(upper[::-1])[::-1]  # mass at or beyond the lower edge of each cell
    cell = int(np.searchsorted(-beyond, -tail, side="right")) - 1
    inside = beyond[cell] - tail
    share = inside / upper[cell] if upper[cell] > 0 else 0.0
    edge = cell - 0.5 + share if cell else 0.5 * share
    half = mass[centre:].copy()
    half[cell + 1 :] = 0.0
    half[cell] *= share
    kept = np.concatenate([half[:0:-1], half])
    return edge, kept
