"""Bias correction from the oracle slice: (L / pi) W (Y - f(S)), as pure array functions.

Rewards f(S) stand in for labels everywhere; the labelled rows show by how much they miss. With L
the labelling indicator and pi its probability, the mean of the terms estimates E[W (Y - f(S))], the
bias of the plug-in mean of W f(S), without bias when pi is right: labels missing completely at
random (MCAR) or at random given the score (MAR).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cje.calibration.weights.simcal import SimcalConfig, SIMCalibrator
from cje.checks import (
    LARGEST,
    bool_array,
    check_share,
    finite_array,
    float_array,
    fold_column,
    n_rows,
)
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray
from cje.kernels.ranks import ecdf_fit, ecdf_predict
from cje.kernels.smooth import natural_spline_basis

__all__ = [
    "OracleSliceConfig",
    "augmentation",
    "labelling_propensity",
    "projected_augmentation",
    "weight_given_score",
]

_PROJECTION = SimcalConfig(include_baseline=False)  # a function of the score, nothing raw
_KNOTS = np.linspace(0.05, 0.95, 5)
_MAX_STEPS = 50
_RIDGE = 1e-6  # keeps the fit finite where a range of scores is all labelled or not at all


@dataclass(frozen=True)
class OracleSliceConfig:
    """How an estimator uses the oracle slice to correct its point estimate.

    Parameters
    ----------
    enable_augmentation : bool
        Add the mean of the augmentation terms.
    enable_cross_fit : bool
        Use out-of-fold rewards and projections in them.
    min_pi : float
        Smallest labelling probability divided by; smaller ones are raised to it.
    use_mar : bool
        Fit pi(S) (missing at random given the score) instead of one share (completely at random).
    use_projected_weights : bool
        Put m(S) = E[W|S] in place of W: less variance, but unbiased only if W and Y are
        uncorrelated given S. A judge that rewards length, and a longer policy, break it.
    """

    enable_augmentation: bool = False
    enable_cross_fit: bool = True
    min_pi: float = 0.01
    use_mar: bool = False
    use_projected_weights: bool = False

    def __post_init__(self) -> None:
        check_share("min_pi", self.min_pi)


def labelling_propensity(
    is_labelled: ArrayLike, scores: ArrayLike | None = None, *, min_pi: float = 0.01
) -> FloatArray:
    """Probability that each row is labelled: the overall share, or fitted given the score.

    With `scores`, a logistic regression of L on a five-knot restricted cubic spline of the score's
    rank; its fitted probabilities sum to the number of labels, as the plain share's do.

    Examples
    --------
    >>> labelling_propensity([True, False, False, False]).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    labelled = bool_array("is_labelled", is_labelled)
    if labelled.ndim != 1 or not labelled.any():
        raise CJEError("No row is labelled: there is no oracle slice to augment with")
    check_share("min_pi", min_pi)
    share = float(labelled.mean())
    if scores is None:
        return np.full(len(labelled), max(share, min_pi))
    x = finite_array("scores", scores, n=len(labelled), largest=LARGEST)
    if labelled.all():
        return np.ones(len(labelled))
    knots, ranks = ecdf_fit(x)
    return np.maximum(_logistic_spline(ecdf_predict(knots, ranks, x), labelled), min_pi)


def augmentation(
    labels: ArrayLike,
    is_labelled: ArrayLike,
    rewards: ArrayLike,
    weights: ArrayLike,
    propensity: ArrayLike,
) -> FloatArray:
    """The terms (L / pi) W (Y - f(S)), one per row; their mean is added to the estimate.

    Parameters
    ----------
    labels : array (n,)
        Y; ignored where not labelled (may be NaN there).
    is_labelled : array (n,) of bool
    rewards : array (n,)
        f(S), out of fold for the labelled rows.
    weights : array (n,)
        Raw importance weights W, normalised as the estimator's own.
    propensity : array (n,)
        pi, from `labelling_propensity` or known.

    Examples
    --------
    >>> augmentation([1., np.nan], [True, False], [.5, .5], [2., 2.], [.5, .5]).tolist()
    [2.0, 0.0]
    """
    labelled = bool_array("is_labelled", is_labelled)
    n = n_rows("is_labelled", labelled)
    if labelled.ndim != 1:
        raise CJEError("is_labelled must have one value per row", value=labelled.shape)
    y = float_array("labels", labels)
    if y.shape != (n,):
        raise CJEError("labels must have one value per row", value=y.shape)
    f, w, pi = (
        finite_array(name, values, n=n, largest=LARGEST)
        for name, values in (("rewards", rewards), ("weights", weights), ("propensity", propensity))
    )
    if not np.isfinite(y[labelled]).all():
        raise CJEError("A labelled row has no label")
    y = finite_array("labels", np.where(labelled, y, 0.0), n=n, largest=LARGEST)
    if (pi[labelled] < 1e-100).any():
        raise CJEError("propensity must be positive on labelled rows", value=float(pi.min()))
    terms = np.zeros(n)
    terms[labelled] = w[labelled] * (y - f)[labelled] / pi[labelled]
    return terms


def projected_augmentation(
    labels: ArrayLike,
    is_labelled: ArrayLike,
    rewards: ArrayLike,
    weights: ArrayLike,
    scores: ArrayLike,
    propensity: ArrayLike,
    fold_ids: ArrayLike | None = None,
) -> FloatArray:
    """The terms with m(S) = E[W|S] in place of W.

    Assumes that W and Y are uncorrelated given S; if they are not, the correction itself is biased
    by E[(L / pi) Cov(W, Y | S)], and no number in the output shows it.
    """
    m = weight_given_score(weights, scores, fold_ids)
    return augmentation(labels, is_labelled, rewards, m, propensity)


def weight_given_score(
    weights: ArrayLike, scores: ArrayLike, fold_ids: ArrayLike | None = None
) -> FloatArray:
    """m(S) = E[W|S] on the scale of the weights, by SIMCal's projection.

    With `fold_ids`, each row's value comes from the other folds.
    """
    n = n_rows("weights", weights)
    w, x = (
        finite_array("weights", weights, n=n, largest=LARGEST),
        finite_array("scores", scores, n=n, largest=LARGEST),
    )
    if fold_ids is None:
        projected, _ = SIMCalibrator(_PROJECTION).fit_transform(w, x)
        return np.asarray(projected * w.mean())
    folds = fold_column("fold_ids", fold_ids, n)
    out = np.empty(n)
    for fold in np.unique(folds):
        held = folds == fold
        if held.all():
            raise CJEError("fold_ids must name at least two folds", value=int(fold))
        fit = SIMCalibrator(_PROJECTION).fit(w[~held], x[~held])
        out[held] = fit.predict(w[held], x[held]) * w[~held].mean()
    return out


def _logistic_spline(rank: FloatArray, labelled: BoolArray) -> FloatArray:
    """Fitted probabilities, by Newton steps on the (barely) ridge-penalised likelihood."""
    design = np.column_stack([np.ones(len(rank)), natural_spline_basis(rank, _KNOTS)])
    design[:, 1:] -= design[:, 1:].mean(axis=0)
    share = labelled.mean()
    coef = np.zeros(design.shape[1])
    coef[0] = np.log(share / (1.0 - share))
    penalty = np.full(len(coef), _RIDGE * len(rank))
    penalty[0] = 0.0  # the intercept is free, so that probabilities sum to the labels
    for _ in range(_MAX_STEPS):
        p = 1.0 / (1.0 + np.exp(-np.clip(design @ coef, -30.0, 30.0)))
        slope = design.T @ (labelled - p) - penalty * coef
        curvature = (design * (p * (1.0 - p))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature + 1e-10 * np.eye(len(coef)), slope)
        coef += step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-10:
            break
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(design @ coef, -30.0, 30.0))))
