"""Each binary calibrator equals a slow or independent version of itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.calibration import _SigmoidCalibration
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression

from cje.classification import (
    BetaCalibrator,
    CenteredIsotonicCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
)
from cje.errors import CJEError

ALL = [
    BetaCalibrator(),
    CenteredIsotonicCalibrator(),
    HistogramCalibrator(n_bins=5, min_bin_count=10),
    IsotonicCalibrator(),
    SigmoidCalibrator(),
    TemperatureCalibrator(),
    VennAbersCalibrator(),
]
names = [type(c).__name__ for c in ALL]


def _data(seed, n=400, digits=None):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    if digits is not None:
        p = p.round(digits)
    return p, (rng.random(n) < expit(0.5 * logit(np.clip(p, 0.01, 0.99)))).astype(float)


@pytest.mark.parametrize("calibrator", ALL, ids=names)
def test_a_weight_is_a_repeated_row_and_zero_is_a_missing_one(calibrator):
    p, y = _data(1, digits=2)
    w = np.random.default_rng(2).integers(0, 4, len(p))
    at = np.linspace(0.0, 1.0, 37)
    weighted = calibrator.fit(p, y, w.astype(float)).predict(at)
    repeated = calibrator.fit(np.repeat(p, w), np.repeat(y, w)).predict(at)
    np.testing.assert_allclose(weighted, repeated, atol=1e-9)


@pytest.mark.parametrize("calibrator", ALL, ids=names)
def test_output_is_an_increasing_probability(calibrator):
    p, y = _data(3)
    out = calibrator.fit(p, y).predict(np.linspace(0.0, 1.0, 500))
    assert out.min() >= 0.0
    assert out.max() <= 1.0
    assert (np.diff(out) >= -1e-12).all()


@pytest.mark.parametrize("calibrator", ALL, ids=names)
@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_outcomes_that_all_agree_give_a_finite_fit(calibrator, outcome):
    p = np.array([0.2, 0.5, 1.0, 0.0, 0.9])
    out = calibrator.fit(p, np.full(5, outcome)).predict(np.array([0.0, 0.4, 1.0]))
    assert np.isfinite(out).all()
    # The temperature map holds one half fixed and cannot say more.
    if not isinstance(calibrator, TemperatureCalibrator):
        assert abs(out.mean() - outcome) < 0.5


@pytest.mark.parametrize("calibrator", ALL, ids=names)
def test_one_row_is_enough_and_bad_rows_are_refused(calibrator):
    assert np.isfinite(calibrator.fit([0.3], [1]).predict([0.1, 0.9])).all()
    for p, y in [([], []), ([0.5, np.nan], [0, 1]), ([0.5, 1.2], [0, 1]), ([0.5, 0.6], [0, 2])]:
        with pytest.raises(CJEError):
            calibrator.fit(p, y)


def test_sigmoid_equals_scikit_learns_platt_scaling():
    for seed in range(5):
        p, y = _data(seed)
        w = np.random.default_rng(seed).random(len(p))
        for weight in (None, w):
            ours = SigmoidCalibrator().fit(p, y, weight).predict(p)
            theirs = _SigmoidCalibration().fit(p, y, weight).predict(p)
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_isotonic_equals_scikit_learns():
    p, y = _data(4, digits=2)
    ours = IsotonicCalibrator().fit(p, y).predict(np.linspace(-0.1, 1.1, 77))
    theirs = IsotonicRegression(out_of_bounds="clip").fit(p, y)
    np.testing.assert_allclose(ours, theirs.predict(np.linspace(-0.1, 1.1, 77)), atol=1e-12)


def test_venn_abers_equals_refitting_with_the_row_added_as_zero_and_as_one():
    rng = np.random.default_rng(0)
    for trial in range(60):
        n = int(rng.integers(1, 25))
        p = rng.random(n).round(int(rng.integers(1, 4)))
        y = (rng.random(n) < p).astype(float)
        w = rng.integers(1, 4, n).astype(float) if trial % 2 else np.ones(n)
        fit = VennAbersCalibrator().fit(p, y, w)
        for s in rng.random(6).round(2):
            for label, value in zip((0.0, 1.0), fit.predict_pair([s]), strict=True):
                slow = IsotonicRegression().fit(
                    np.append(p, s), np.append(y, label), np.append(w, 1.0)
                )
                assert value[0] == pytest.approx(slow.predict([s])[0], abs=1e-9)


def test_beta_and_temperature_find_the_likelihoods_optimum():
    p, y = _data(6, n=2000)
    target = np.where(y > 0, (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2))

    def loss(eta):
        return float((np.logaddexp(0.0, eta) - target * eta).mean())

    a, b, c = BetaCalibrator().fit(p, y).coefficients_
    clipped = np.clip(p, 1e-6, 1 - 1e-6)
    best = minimize(
        lambda v: loss(v[0] * np.log(clipped) - v[1] * np.log1p(-clipped) + v[2]),
        np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-13, "maxiter": 4000},
    )  # fmt: skip
    np.testing.assert_allclose([a, b, c], best.x, atol=1e-4)
    temperature = TemperatureCalibrator().fit(p, y).temperature_
    at = loss(logit(clipped) / temperature)
    assert at <= loss(logit(clipped) / (temperature * 1.01))
    assert at <= loss(logit(clipped) / (temperature * 0.99))
    assert temperature == pytest.approx(2.0, rel=0.15)  # the data were made with slope one half


def test_temperature_among_k_classes_is_the_softmaxs_with_the_rest_shared_evenly():
    p, y = _data(9)
    fit = TemperatureCalibrator(n_classes=5).fit(p, y)
    q = np.clip(p, 1e-6, 1 - 1e-6)
    power = 1.0 / fit.temperature_
    others = 4 * ((1 - q) / 4) ** power
    np.testing.assert_allclose(fit.predict(p), q**power / (q**power + others), atol=1e-12)
    assert fit.predict([0.2])[0] == pytest.approx(0.2, abs=1e-12)


def test_beta_never_decreases_even_where_the_data_do():
    p, y = _data(7)
    fit = BetaCalibrator().fit(p, 1.0 - y)
    assert min(fit.coefficients_[:2]) >= 0.0
    assert (np.diff(fit.predict(np.linspace(0.0, 1.0, 50))) >= 0.0).all()


def test_histogram_returns_the_mean_outcome_of_bins_of_equal_mass():
    p, y = _data(8, n=200)
    fit = HistogramCalibrator(n_bins=4, min_bin_count=1).fit(p, y)
    order = np.argsort(p)
    means = y[order].reshape(4, 50).mean(axis=1)
    np.testing.assert_allclose(fit.values_, means, atol=1e-12)
    np.testing.assert_allclose(fit.predict(p[order]), np.repeat(means, 50), atol=1e-12)
    assert len(HistogramCalibrator(n_bins=10, min_bin_count=50).fit(p, y).values_) == 4


@pytest.mark.parametrize("calibrator", ALL, ids=lambda c: type(c).__name__)
def test_predicting_before_fitting_says_so(calibrator):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(calibrator).predict([0.5])
