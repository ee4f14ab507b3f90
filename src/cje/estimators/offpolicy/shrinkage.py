r"""Shrink importance weights where the judge's variance is large: ``w* = w / (1 + lambda v)``.

**The optimal lambda.** Write :math:`a_i = r_i - \mu`. With weights linearised,
:math:`w^* \approx w (1 - \lambda v)`, the unnormalised variance
:math:`E[w^2 (1-\lambda v)^2 a^2]/n` is least at

.. math:: \lambda_1 = E[w^2 v a^2] / E[w^2 v^2 a^2].

A self-normalised estimate does not change when all weights shrink equally, so only
:math:`u = v - E[wv]/E[w]` matters there, and shrinking moves it by :math:`-\lambda C`,
:math:`C = E[w u a]/E[w]`. Variance plus squared bias is then minimal at

.. math:: \lambda^* = \frac{E[w^2 u a^2]}{E[w^2 u^2 a^2] + n\, C^2 E[w]^2}.

With a bias (C not 0) lambda vanishes like 1/n and the estimate stays consistent; without a bias it
does not change with n. Guards: no negative lambda, none beyond :math:`1/\max v` (where the
expansion ends), and lambda is halved until the criterion itself, not its expansion, is better than
at 0.

The published :math:`Cov[w^2 v, w(r-\mu)]/E[w^2 v^2]` changes sign under :math:`r \to 1-r`, although
that renaming of good and bad changes neither variance nor squared bias: it cannot be optimal. It is
kept as `covariance_shrinkage`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_share, float_array, is_number
from cje.diagnostics.overlap import effective_sample_size
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = [
    "adaptive_shrinkage",
    "apply_shrinkage",
    "checked_columns",
    "compute_optimal_shrinkage",
    "covariance_shrinkage",
    "first_order_shrinkage",
    "optimal_lambda",
]

_LARGEST = 1e60  # of a reward or variance: squares of their products must stay finite
_SMALLEST = 1e-300  # of a variance to divide by


def apply_shrinkage(weights: ArrayLike, variances: ArrayLike, lam: float) -> FloatArray:
    """``w / (1 + lambda v)`` for weights (n,) or (n, K).

    Examples
    --------
    >>> apply_shrinkage([1.0, 4.0], [0.0, 0.1], 10.0).tolist()
    [1.0, 2.0]
    """
    w, v = float_array("weights", weights), float_array("variances", variances)
    if not is_number(lam) or lam < 0.0:
        raise CJEError("lambda must be finite and not negative", value=lam)
    if w.ndim not in (1, 2) or v.shape != w.shape[:1]:
        raise CJEError("one variance per row of weights is needed", value=(w.shape, v.shape))
    for name, given in (("weights", w), ("variances", v)):
        if given.size and not (given.min() >= 0.0 and np.isfinite(given.max())):
            raise CJEError(f"{name} must be finite and not negative", value=float(given.min()))
    return _shrunk(w, v, lam)


def _shrunk(w: FloatArray, v: FloatArray, lam: float) -> FloatArray:
    """The formula alone: a search for lambda evaluates it often."""
    with np.errstate(over="ignore"):  # an infinite divisor leaves nothing of the weight
        divisor = 1.0 + lam * v
    return w / (divisor if w.ndim == 1 else divisor[:, None])


def compute_optimal_shrinkage(
    weights: ArrayLike, rewards: ArrayLike, variances: ArrayLike
) -> float:
    """The lambda with the least variance plus squared bias of the self-normalised mean.

    See the module's text for the derivation. Invariant under ``r -> 1 - r``.
    """
    w, r, v = checked_columns(weights, rewards, variances)
    w = w / w.max()  # lambda has no scale of the weights in it
    return optimal_lambda(w, r - float(w @ r) / float(w.sum()), v)


def optimal_lambda(w: FloatArray, deviation: FloatArray, v: FloatArray) -> float:
    """`compute_optimal_shrinkage` for any row deviations a (checked arrays, ``sum w a = 0``)."""
    top = float(v.max(initial=0.0))
    if top <= 0.0:
        return 0.0
    total = float(w.sum())
    u = v - float(w @ v) / total
    wa = w * deviation
    wua = wa * u
    gain = float(wua @ wa)
    curve = float(wua @ wua) + float(wua.sum()) ** 2
    if gain <= 0.0 or curve <= 0.0:
        return 0.0
    lam = min(gain / curve, 1.0 / top)
    at_zero = _criterion(w, deviation, v, 0.0)
    for _ in range(30):
        if _criterion(w, deviation, v, lam) < at_zero:
            return lam
        lam /= 2.0
    return 0.0


def _criterion(w: FloatArray, deviation: FloatArray, v: FloatArray, lam: float) -> float:
    """Variance plus squared bias of the self-normalised mean of the deviations."""
    shrunk = w / (1.0 + lam * v) if lam > 0.0 else w
    total = float(shrunk.sum())
    move = float(shrunk @ deviation) / total
    spread = shrunk * (deviation - move)
    return float(spread @ spread) / total**2 + move**2


def first_order_shrinkage(weights: ArrayLike, rewards: ArrayLike, variances: ArrayLike) -> float:
    r""":math:`\lambda_1 = E[w^2 v (r-\mu)^2] / E[w^2 v^2 (r-\mu)^2]`: variance alone, unnormalised.

    The first step of the derivation, without the bias and without self-normalisation. It does not
    vanish as rows accumulate, so an estimate that uses it keeps its bias.
    """
    w, r, v = checked_columns(weights, rewards, variances)
    w = w / w.max()
    square = (w * (r - float(w @ r) / float(w.sum()))) ** 2
    curve = float(square @ v**2)
    return float(square @ v) / curve if curve > 0.0 else 0.0


def covariance_shrinkage(weights: ArrayLike, rewards: ArrayLike, variances: ArrayLike) -> float:
    r"""The published :math:`Cov[w^2 v, w(r-\mu)] / E[w^2 v^2]`, cut at zero; kept by name only."""
    w, r, v = checked_columns(weights, rewards, variances)
    top = float(w.max())
    w = w / top
    mu = float(w @ r) / float(w.sum())
    spread, noise = w * (r - mu), w**2 * v
    curve = float((noise * v).mean())
    covariance = float(((noise - noise.mean()) * (spread - spread.mean())).mean())
    lam = max(0.0, covariance / curve) * top if curve > 0.0 else 0.0
    if lam == np.inf:
        raise CJEError("weights, rewards and variances differ too much in size", value=lam)
    return lam


def adaptive_shrinkage(
    weights: ArrayLike, variances: ArrayLike, min_ess_ratio: float, *, start: float = 0.0
) -> tuple[float, bool]:
    """The smallest lambda, from `start` on, whose effective sample size reaches the ratio.

    Returns
    -------
    lam : float
        Where no lambda reaches it, the one with the largest effective sample size.
    reached : bool
    """
    check_share("min_ess_ratio", min_ess_ratio)
    if not is_number(start) or start < 0.0:
        raise CJEError("start must be finite and not negative", value=start)
    given = float_array("weights", weights)
    w, _, v = checked_columns(given, np.zeros(given.shape), variances)
    w = w / w.max()
    goal = min_ess_ratio * len(w)

    def ess(lam: float) -> float:
        return effective_sample_size(_shrunk(w, v, lam))

    top = float(v.max(initial=0.0))
    best_lam, best = start, ess(start)
    if best >= goal or top < _SMALLEST:
        return start, best >= goal
    below = start
    for lam in (start + np.geomspace(1e-2, 1e4, 13) / top).tolist():
        size = ess(lam)
        if size >= goal:
            return _bisect(ess, goal, below, lam), True
        if size > best * (1.0 + 1e-9):  # not by rounding alone
            best_lam, best = lam, size
        below = lam
    return best_lam, False


def _bisect(ess: Callable[[float], float], goal: float, low: float, high: float) -> float:
    for _ in range(20):
        middle = (low + high) / 2.0
        low, high = (low, middle) if ess(middle) >= goal else (middle, high)
        if high - low <= 1e-3 * high:
            break
    return high


def checked_columns(
    weights: ArrayLike, rewards: ArrayLike, variances: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The three columns as arrays, or a CJEError."""
    w, r = float_array("weights", weights), float_array("rewards", rewards)
    v = float_array("variances", variances)
    if w.ndim != 1 or not w.shape == r.shape == v.shape or not len(w):
        raise CJEError(
            "weights, rewards and variances must be one-dimensional and of one length",
            value=(w.shape, r.shape, v.shape),
        )
    (w_low, w_high), (r_low, r_high), (v_low, v_high) = (
        (float(x.min()), float(x.max()))
        for x in (w, r, v)  # a NaN passes through both
    )
    if not all(map(np.isfinite, (w_low, w_high, r_low, r_high, v_low, v_high))):
        raise CJEError("weights, rewards and variances must be finite")
    if w_low < 0.0 or v_low < 0.0:
        raise CJEError("weights and variances cannot be negative")
    if w_high <= 0.0:
        raise CJEError("all weights are zero: the target never produces what was logged")
    if max(-r_low, r_high, v_high) > _LARGEST:
        raise CJEError(
            "rewards and variances are too large", value=max(-r_low, r_high, v_high),
            hint="map them to [0, 1] first: Scale(low, high).to_unit(...)",
        )  # fmt: skip
    return w, r, v
