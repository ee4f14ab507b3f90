"""Any data set gives a finite, ordered result or a CJEError."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cje.data import Dataset
from cje.errors import CJEError
from cje.estimators import DirectEstimator, EstimationResult, NaiveEstimator, bootstrap_direct
from tests.robustness.fuzzing import fuzz

unit = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 1.0))


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    n = draw(st.integers(1, 60))
    prompts = draw(st.integers(1, n))
    policies = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    levels = draw(st.sampled_from([1, 2, 5, 1000]))
    score = np.round(rng.random(n) * levels) / levels
    label = rng.choice(draw(st.lists(unit, min_size=1, max_size=4)), n)
    label[rng.random(n) > draw(st.floats(0.0, 1.0))] = np.nan
    propensity = None
    if draw(st.booleans()):
        propensity = np.clip(rng.random(n), draw(st.sampled_from([1e-6, 0.1])), 1.0)
    return Dataset.from_arrays(
        prompt_id=[f"p{i}" for i in rng.integers(0, prompts, n)],
        policy=[f"m{i}" for i in rng.integers(0, policies, n)],
        judge_score=score,
        oracle_label=label,
        label_propensity=propensity,
    )


def _check(result: EstimationResult) -> None:
    assert np.isfinite(result.estimates).all()
    assert np.isfinite(result.robust_standard_errors).all()
    refused = result.refused_values()
    for row in result.rows():
        computed = refused.get(row["name"], row)
        assert 0.0 <= computed["low"] <= computed["high"] <= 1.0
    for pair, adjusted in result.compare_all():
        if pair.refused is not None:
            assert np.isnan(pair.p_value)
            assert np.isnan(adjusted)
            continue
        assert -1.0 <= pair.interval.low <= pair.interval.high <= 1.0
        assert 0.0 <= pair.p_value <= adjusted <= 1.0
    assert EstimationResult.from_json(result.to_json()).summary() == result.summary()


@fuzz()
@given(datasets())
def test_direct_is_finite_or_says_why_not(data: Dataset) -> None:
    try:
        result = DirectEstimator(data).fit_and_estimate()
    except CJEError:
        return
    _check(result)


@fuzz()
@given(datasets())
def test_naive_is_always_finite(data: Dataset) -> None:
    _check(NaiveEstimator(data).fit_and_estimate())


@fuzz()
@given(datasets())
def test_the_bootstrap_is_finite_or_says_why_not(data: Dataset) -> None:
    try:
        draws = bootstrap_direct(data, n_draws=20)
    except CJEError:
        return
    assert np.isfinite(draws).all()
