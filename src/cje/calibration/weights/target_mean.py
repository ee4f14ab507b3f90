"""Weight calibration: the mean-preserving monotone projection and its variance cap.

Isotonic regression replaces weights by block means, so it keeps their mean, their sign and (being a
projection) never raises their variance: the mean-one projection is one pool-adjacent-violators
pass, with no multiplier to search for.

References
----------
Ayer et al. (1955); Robertson, Wright and Dykstra (1988); Marshall and Olkin (1979).
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from cje.checks import LARGEST, finite_array, float_array, is_number
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.projection import mean_one_projection, variance_safe_blend

__all__ = ["EPS", "MEAN_TOL", "VAR_TOL", "calibrate_to_target_mean", "pav_blocks"]

EPS = 1e-12  # comparisons
MEAN_TOL = 1e-10  # the mean is kept to this
VAR_TOL = 1.001  # slack on the variance cap
_NEARLY_CONSTANT = 0.01  # share of the raw variance below which the result is called constant
_SPARSE = 0.1  # share of non-zero weights below which they are called sparse


@overload
def calibrate_to_target_mean(
    weights: ArrayLike,
    target_mean: float = ...,
    enforce_variance_nonincrease: bool = ...,
    ordering_index: ArrayLike | None = ...,
    return_diagnostics: Literal[False] = ...,
    max_variance_ratio: float = ...,
    increasing: bool = ...,
) -> FloatArray: ...


@overload
def calibrate_to_target_mean(
    weights: ArrayLike,
    target_mean: float = ...,
    enforce_variance_nonincrease: bool = ...,
    ordering_index: ArrayLike | None = ...,
    *,
    return_diagnostics: Literal[True],
    max_variance_ratio: float = ...,
    increasing: bool = ...,
) -> tuple[FloatArray, dict[str, Any]]: ...


def calibrate_to_target_mean(
    weights: ArrayLike,
    target_mean: float = 1.0,
    enforce_variance_nonincrease: bool = True,
    ordering_index: ArrayLike | None = None,
    return_diagnostics: bool = False,
    max_variance_ratio: float = 1.0,
    increasing: bool = True,
) -> FloatArray | tuple[FloatArray, dict[str, Any]]:
    """Weights monotone in an index, with an exact mean and a capped variance.

    Parameters
    ----------
    weights : array (n,)
        Non-negative importance weights, on any scale.
    target_mean : float
        Mean of the result (to 1e-10).
    enforce_variance_nonincrease : bool
        Hold the variance to `max_variance_ratio` times that of the raw mean-one weights, by
        blending (0.1% slack).
    ordering_index : array (n,), optional
        The result is monotone in this; rows that share a value share a weight. By default the
        weights themselves, which leaves them as they are.
    return_diagnostics : bool
        Also return ``var_before``, ``var_after`` (of mean-one weights), ``ess_before``,
        ``ess_after``, ``alpha_blend``, ``feasible`` (whether the cap holds) and ``note``.
    max_variance_ratio : float
        The cap, as a share of the raw variance.
    increasing : bool
        Direction. The wrong direction gives nearly constant weights, which are *wrong* weights
        unless the index is unrelated to them; `note` reports it.

    Examples
    --------
    >>> calibrate_to_target_mean([1., 3., 2., 6.], ordering_index=[.1, .2, .3, .4]).tolist()
    [0.3333333333333333, 0.8333333333333333, 0.8333333333333333, 2.0]
    """
    raw, index = _read(weights, ordering_index)
    if not (is_number(target_mean) and target_mean > 0):
        raise CJEError("target_mean must be a positive number", value=target_mean)
    if not (is_number(max_variance_ratio) and max_variance_ratio >= 0):
        raise CJEError("max_variance_ratio must be a number from 0 up", value=max_variance_ratio)
    n = len(raw)
    notes: list[str] = []
    mean_one = _hajek(raw, notes)
    out = mean_one_projection(mean_one, index, increasing=increasing)
    alpha, feasible = 1.0, True
    if enforce_variance_nonincrease:
        out, alpha, feasible = _variance_safe_blend_closed_form(mean_one, out, max_variance_ratio)
        if not feasible:
            notes.append(
                "variance cap not satisfied: the projection itself is the least variance "
                "blending can reach"
            )
    out = out / out.mean()
    before, after = mean_one.var(), out.var()
    if before > EPS and after < _NEARLY_CONSTANT * before and ordering_index is not None:
        notes.append(
            "nearly constant weights: right only if the index is unrelated to the weights; "
            "try the other direction (SIMCalibrator compares both out of fold)"
        )
    # A second division absorbs the rounding of the first, whatever the scale.
    result: FloatArray = np.asarray(out * (target_mean / out.mean()))
    if not return_diagnostics:
        return result
    return result, {
        "n_samples": n,
        "target_mean": target_mean,
        "var_before": before,
        "var_after": after,
        "ess_before": n / (1.0 + before),
        "ess_after": n / (1.0 + after),
        "alpha_blend": alpha,
        "feasible": feasible,
        "note": "; ".join(notes),
    }


def _read(weights: ArrayLike, ordering_index: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    raw = float_array("weights", weights)
    if raw.ndim != 1 or len(raw) == 0:
        raise CJEError("weights must be a non-empty one-dimensional array", value=raw.shape)
    raw = finite_array("weights", raw, n=len(raw))  # divided by the largest
    index = raw
    if ordering_index is not None:
        index = finite_array("ordering_index", ordering_index, n=len(raw), largest=LARGEST)
    if (raw < 0).any():
        row = int(np.argmin(raw))
        raise CJEError("weights must not be negative", where=f"row {row}", value=float(raw[row]))
    return raw, index


def _hajek(raw: FloatArray, notes: list[str]) -> FloatArray:
    """Mean-one weights; all-zero weights fall back to uniform, with a note."""
    largest = raw.max()
    if largest == 0.0:
        notes.append("all weights are zero: uniform weights instead")
        return np.ones(len(raw))
    if np.count_nonzero(raw) < _SPARSE * len(raw):
        notes.append(f"sparse: {np.count_nonzero(raw)} of {len(raw)} weights are not zero")
    scaled = raw / largest  # first, so that a sum of huge weights cannot overflow
    return np.asarray(scaled / scaled.mean())


def pav_blocks(
    means: FloatArray, counts: FloatArray | None = None, *, increasing: bool = True
) -> tuple[FloatArray, IntArray]:
    """One pool-adjacent-violators pass over cells in index order: block values and block starts."""
    fit = isotonic_regression(means, weights=counts, increasing=increasing)
    starts = np.asarray(fit.blocks[:-1], dtype=np.int64)
    return fit.x[starts], starts


def _pav_mean1_projection_sorted(w_sorted: FloatArray, *, increasing: bool = True) -> FloatArray:
    """`mean_one_projection` of weights in index order without ties, under its founding name."""
    return mean_one_projection(w_sorted, np.arange(len(w_sorted)), increasing=increasing)


def _variance_safe_blend_closed_form(
    raw: FloatArray, calibrated: FloatArray, rho: float
) -> tuple[FloatArray, float, bool]:
    """(1 - a) raw + a calibrated with variance at most rho Var(raw): blend, a, does it hold."""
    blend, alpha = variance_safe_blend(raw, calibrated, rho)
    feasible = bool(blend.var() <= rho * raw.var() * VAR_TOL + EPS)
    return blend, alpha, feasible
