r"""Binary calibrators with a formula: sigmoid (Platt), temperature and beta.

Each maximises the binomial likelihood of a logistic model in one to three coefficients, by Newton's
method, with Platt's smoothed targets: a row counts as :math:`(N_1+1)/(N_1+2)` or
:math:`1/(N_0+2)` in place of 1 or 0. Smoothing keeps the fit finite where all outcomes agree, or a
threshold separates them; it vanishes as the counts grow. Weights count as repeated rows.

References
----------
Platt (1999), "Probabilistic outputs for support vector machines".
Guo, Pleiss, Sun and Weinberger (2017), "On calibration of modern neural networks".
Kull, Silva Filho and Flach (2017), "Beta calibration".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cje.checks import LARGEST, check_whole_number, finite_array
from cje.classification._arrays import check_binary
from cje.kernels.arrays import FloatArray

__all__ = ["BetaCalibrator", "SigmoidCalibrator", "TemperatureCalibrator"]

# Probabilities of 0 and 1 have no logit; beyond this a score carries no further information.
_EDGE = 1e-6
_FAR = LARGEST  # the curve is flat long before; a product with the slope stays finite
_MAX_STEPS = 100
_LOWEST_SLOPE, _HIGHEST_SLOPE = 1e-2, 1e2  # of the inverse temperature


def _smoothed(y: FloatArray, w: FloatArray | None) -> FloatArray:
    weight = np.ones(len(y)) if w is None else w
    ones = float(weight @ y)
    zeros = float(weight.sum()) - ones
    return np.where(y > 0.0, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))


def _loss(eta: FloatArray, target: FloatArray, w: FloatArray) -> float:
    return float(w @ (np.logaddexp(0.0, eta) - target * eta))


def _logistic_fit(
    columns: FloatArray,
    target: FloatArray,
    w: FloatArray | None,
    start: FloatArray,
    offset: float = 0.0,
) -> FloatArray:
    """Coefficients that minimise the weighted cross-entropy: Newton steps, halved when too long."""
    weight = np.ones(len(target)) if w is None else w
    total = float(weight.sum())
    beta = start
    eta = columns @ beta + offset
    loss = _loss(eta, target, weight)
    for _ in range(_MAX_STEPS):
        mean = expit(eta)
        gradient = columns.T @ (weight * (mean - target))
        hessian = (columns * (weight * mean * (1.0 - mean))[:, None]).T @ columns
        # Least squares, as a constant column makes the Hessian singular.
        step = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        shrink = 1.0
        while True:
            trial = beta + shrink * step
            trial_eta = columns @ trial + offset
            trial_loss = _loss(trial_eta, target, weight)
            if trial_loss <= loss + 1e-12 * abs(loss) or shrink < 1e-8:
                break
            shrink *= 0.5
        beta, eta, loss = trial, trial_eta, min(loss, trial_loss)
        if np.abs(gradient).max() <= 1e-10 * total:
            break
    return beta


def _log_pair(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log p and -log(1 - p)."""
    inside = np.clip(p, _EDGE, 1.0 - _EDGE)
    return np.log(inside), -np.log1p(-inside)


def _logit(p: FloatArray) -> FloatArray:
    log_p, minus_log_q = _log_pair(p)
    return log_p + minus_log_q


class SigmoidCalibrator(BaseEstimator):  # type: ignore[misc]
    r"""Platt scaling: :math:`\sigma(a\,p + b)` of the score itself, with smoothed targets.

    Attributes
    ----------
    slope_, intercept_ : float
        :math:`a` and :math:`b`.

    Examples
    --------
    >>> import numpy as np
    >>> fit = SigmoidCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    >>> fit.predict([0.2, 0.8]).round(3).tolist()
    [0.35, 0.65]
    """

    def fit(
        self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> SigmoidCalibrator:
        """Fit on probabilities `scores` and outcomes `y` in {0, 1}."""
        outcome, p, w = check_binary(y, scores, sample_weight)
        target = _smoothed(outcome, w)
        # Centred, so that scores that are all equal get slope zero.
        centre = float(np.average(p, weights=w))
        level = float(np.average(target, weights=w))
        columns = np.column_stack((p - centre, np.ones(len(p))))
        start = np.array([0.0, np.log(level) - np.log1p(-level)])
        slope, intercept = _logistic_fit(columns, target, w, start)
        self.slope_, self.intercept_ = float(slope), float(intercept - slope * centre)
        return self

    def predict(self, scores: ArrayLike) -> FloatArray:
        """Calibrated probability of each score."""
        check_is_fitted(self)
        p = np.clip(finite_array("scores", scores, ndim=None), -_FAR, _FAR)
        return np.asarray(expit(self.slope_ * p + self.intercept_))


class TemperatureCalibrator(BaseEstimator):  # type: ignore[misc]
    r"""Temperature scaling of one probability among K.

    The softmax of :math:`\log p / T` when the other K - 1 classes share the rest evenly:
    :math:`\operatorname{logit} q = \operatorname{logit}(p)/T + (1/T - 1)\log(K - 1)`. A score of
    1/K stays 1/K; for two classes this is :math:`\sigma(\operatorname{logit}(p)/T)`. T
    is kept between 0.01 and 100.

    Parameters
    ----------
    n_classes : int
        K. By its name, ``"temperature"``, a reduction sets it to its own number of classes.

    Attributes
    ----------
    temperature_ : float
        Above one: the scores were overconfident.

    Examples
    --------
    >>> fit = TemperatureCalibrator().fit([0.9] * 10, [1] * 6 + [0] * 4)
    >>> fit.temperature_ > 1, fit.predict([0.5]).tolist()
    (True, [0.5])
    """

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def fit(
        self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> TemperatureCalibrator:
        """Fit on probabilities `scores` and outcomes `y` in {0, 1}."""
        outcome, p, w = check_binary(y, scores, sample_weight)
        shift = np.log(check_whole_number("n_classes", self.n_classes, least=2) - 1.0)
        columns = (_logit(p) + shift)[:, None]
        slope = _logistic_fit(columns, _smoothed(outcome, w), w, np.ones(1), -shift)[0]
        # The loss is convex in the slope, so the nearest bound is the constrained optimum.
        self.temperature_ = 1.0 / float(np.clip(slope, _LOWEST_SLOPE, _HIGHEST_SLOPE))
        return self

    def predict(self, scores: ArrayLike) -> FloatArray:
        """Calibrated probability of each score."""
        check_is_fitted(self)
        shift = np.log(self.n_classes - 1.0)
        raised = _logit(finite_array("scores", scores, ndim=None)) + shift
        return np.asarray(expit(raised / self.temperature_ - shift))


class BetaCalibrator(BaseEstimator):  # type: ignore[misc]
    r"""Beta calibration: :math:`\sigma(a \log p - b \log(1-p) + c)` with :math:`a, b \ge 0`.

    The identity is inside the family (:math:`a=b=1, c=0`), unlike for the sigmoid. A coefficient
    that would be negative is set to zero and the others are fitted again, so the map is monotone.

    Attributes
    ----------
    coefficients_ : tuple of float
        :math:`(a, b, c)`.

    Examples
    --------
    >>> fit = BetaCalibrator().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
    >>> bool((fit.predict([0.1, 0.5, 0.9])[1:] >= fit.predict([0.1, 0.5, 0.9])[:-1]).all())
    True
    """

    def fit(
        self, scores: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> BetaCalibrator:
        """Fit on probabilities `scores` and outcomes `y` in {0, 1}."""
        outcome, p, w = check_binary(y, scores, sample_weight)
        target = _smoothed(outcome, w)
        columns = np.column_stack((*_log_pair(p), np.ones(len(p))))
        free = [0, 1, 2]
        while True:
            fitted = _logistic_fit(columns[:, free], target, w, np.zeros(len(free)))
            negative = [name for name, value in zip(free, fitted, strict=True)
                        if name < 2 and value < 0.0]  # fmt: skip
            if not negative:
                break
            worst = min(negative, key=lambda name: fitted[free.index(name)])
            free.remove(worst)
        full = np.zeros(3)
        full[free] = fitted
        self.coefficients_ = (float(full[0]), float(full[1]), float(full[2]))
        return self

    def predict(self, scores: ArrayLike) -> FloatArray:
        """Calibrated probability of each score."""
        check_is_fitted(self)
        a, b, c = self.coefficients_
        log_p, minus_log_q = _log_pair(finite_array("scores", scores, ndim=None))
        return np.asarray(expit(a * log_p + b * minus_log_q + c))
