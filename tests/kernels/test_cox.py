"""The Cox kernel equals lifelines and its own definitions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cje.kernels.cox import (
    cox_baseline,
    cox_fit,
    cox_hazard_influence,
    cox_score_residuals,
    risk_sets,
)


def _data(seed: int, n: int, p: int, *, ties: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    latent = rng.exponential(np.exp(-x @ np.linspace(1, -0.5, p)))
    limit = rng.exponential(2.0, n)
    time = np.minimum(latent, limit)
    return x, np.ceil(time * 6) if ties else time, latent <= limit


def _efron_log_likelihood(
    x: np.ndarray, time: np.ndarray, event: np.ndarray, beta: np.ndarray, w: np.ndarray
) -> float:
    """Straight from the definition, with loops."""
    eta = x @ beta
    total = 0.0
    for t in np.unique(time[event]):
        dead = event & (time == t)
        risk = w[time >= t] @ np.exp(eta[time >= t])
        tied = w[dead] @ np.exp(eta[dead])
        total += float(w[dead] @ eta[dead])
        d = int(dead.sum())
        for rank in range(d):
            total -= w[dead].mean() * np.log(risk - rank / d * tied)
    return total


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_fit_equals_lifelines(ties: bool, weighted: bool) -> None:
    pd = pytest.importorskip("pandas")
    lifelines = pytest.importorskip("lifelines")
    x, time, event = _data(1, 300, 3, ties=ties)
    w = np.random.default_rng(2).uniform(0.5, 2.0, 300) if weighted else None
    fit = cox_fit(x, risk_sets(time, event), w)
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(T=time, E=event)
    if w is not None:
        frame["w"] = w
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = lifelines.CoxPHFitter().fit(
            frame, "T", "E", weights_col="w" if weighted else None,
            fit_options={"precision": 1e-14},
        )  # fmt: skip
    assert fit.converged
    np.testing.assert_allclose(fit.beta, other.params_.to_numpy(), atol=1e-6)
    assert fit.log_likelihood == pytest.approx(other.log_likelihood_, abs=1e-6)
    if not weighted:
        se = np.sqrt(np.diag(np.linalg.inv(fit.information)))
        np.testing.assert_allclose(se, other.standard_errors_.to_numpy(), rtol=1e-5)


@pytest.mark.parametrize("ties", [False, True])
def test_likelihood_gradient_and_information_follow_the_definition(ties: bool) -> None:
    x, time, event = _data(3, 60, 2, ties=ties)
    w = np.random.default_rng(4).uniform(0.2, 3.0, 60)
    sets = risk_sets(time, event)
    fit = cox_fit(x, sets, w)
    centred = x - x.mean(axis=0)  # the likelihood does not see a shift, rounding does
    assert fit.log_likelihood == pytest.approx(
        _efron_log_likelihood(centred, time, event, fit.beta, w), abs=1e-9
    )
    scores = cox_score_residuals(x, sets, fit.beta, w)
    np.testing.assert_allclose(scores.sum(axis=0), 0.0, atol=1e-7)
    step, eye = 1e-4, np.eye(2)

    def at(b: np.ndarray) -> float:
        return _efron_log_likelihood(centred, time, event, b, w)

    hessian = np.array(
        [
            [
                (
                    at(fit.beta + step * (eye[i] + eye[j]))
                    - at(fit.beta + step * (eye[i] - eye[j]))
                    - at(fit.beta - step * (eye[i] - eye[j]))
                    + at(fit.beta - step * (eye[i] + eye[j]))
                )
                / (4 * step**2)
                for j in range(2)
            ]
            for i in range(2)
        ]
    )
    np.testing.assert_allclose(fit.information, -hessian, rtol=1e-4)


def test_robust_standard_errors_equal_lifelines_without_ties() -> None:
    pd = pytest.importorskip("pandas")
    lifelines = pytest.importorskip("lifelines")
    x, time, event = _data(5, 400, 2, ties=False)
    sets = risk_sets(time, event)
    fit = cox_fit(x, sets)
    u = cox_score_residuals(x, sets, fit.beta)
    inverse = np.linalg.inv(fit.information)
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(T=time, E=event)
    other = lifelines.CoxPHFitter().fit(
        frame, "T", "E", robust=True, fit_options={"precision": 1e-14}
    )
    mine = np.sqrt(np.diag(inverse @ u.T @ u @ inverse))
    np.testing.assert_allclose(mine, other.standard_errors_.to_numpy(), rtol=1e-5)


def test_integer_weights_equal_repeated_rows_without_ties_among_them() -> None:
    x, time, event = _data(6, 200, 1, ties=False)
    twice = np.repeat(np.arange(200), 2)
    repeated = cox_fit(x[twice], risk_sets(time[twice], event[twice]))
    weighted = cox_fit(x, risk_sets(time, event), np.full(200, 2.0))
    # Repeats are ties to Efron; they differ from weights by that correction only.
    assert weighted.beta == pytest.approx(cox_fit(x, risk_sets(time, event)).beta, abs=1e-9)
    assert weighted.beta == pytest.approx(repeated.beta, abs=0.02)


def test_baseline_is_nelson_aalen_when_every_risk_is_equal() -> None:
    _, time, event = _data(7, 100, 1, ties=False)
    times, log_cumulative = cox_baseline(risk_sets(time, event), np.zeros(100))
    expected = np.cumsum([1.0 / (time >= t).sum() for t in np.sort(time[event])])
    np.testing.assert_allclose(np.exp(log_cumulative), expected)
    np.testing.assert_allclose(times, np.sort(time[event]))


@pytest.mark.parametrize("ties", [False, True])
def test_hazard_influence_is_the_derivative_in_each_weight(ties: bool) -> None:
    x, time, event = _data(8, 80, 2, ties=ties)
    sets = risk_sets(time, event)
    at, horizon = np.array([[0.3, -0.2], [1.0, 1.0]]), float(np.median(time))

    def log_hazard(w: np.ndarray) -> np.ndarray:
        fit = cox_fit(x, sets, w, tol=1e-15)
        return cox_hazard_influence(x, sets, fit, horizon, at, w)[0]

    ones = np.ones(80)
    influence = cox_hazard_influence(x, sets, cox_fit(x, sets, ones, tol=1e-15), horizon, at)[1]
    for row in (0, 17, 42):
        moved = ones.copy()
        moved[row] += 1e-5
        slope = (log_hazard(moved) - log_hazard(ones)) / 1e-5
        np.testing.assert_allclose(influence[row], slope, rtol=1e-3, atol=1e-6)


def test_extreme_predictors_and_zero_weights_stay_finite() -> None:
    x, time, event = _data(9, 50, 1, ties=True)
    sets = risk_sets(time, event)
    w = np.where(np.arange(50) % 2, 0.0, 1.0)
    assert np.isfinite(cox_fit(x * 1e3, sets, w).beta).all()
    kept = w > 0
    alone = cox_fit(x[kept], risk_sets(time[kept], event[kept]), np.ones(kept.sum()))
    assert cox_fit(x, sets, w).beta == pytest.approx(alone.beta, abs=0.05)


@pytest.mark.parametrize("scale", [1e-80, 1e-12, 1e80])
def test_the_scale_of_the_weights_does_not_change_a_fit(scale: float) -> None:
    x, time, event = _data(3, 80, 2, ties=True)
    w = np.random.default_rng(1).uniform(0.5, 2.0, 80)
    sets = risk_sets(time, event)
    plain, other = cox_fit(x, sets, w), cox_fit(x, sets, scale * w)
    assert other.converged
    np.testing.assert_allclose(other.beta, plain.beta, rtol=1e-9)
