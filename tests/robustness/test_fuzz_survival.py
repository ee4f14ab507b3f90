"""Survival metrics under the fuzz rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cje import survival as s
from tests.robustness.fuzzing import columns, fuzz, holds_rule, masks, sizes, sound_columns

TIMED = [
    "brier_score", "calibration_slope", "harrell_c", "integrated_calibration_index",
    "observed_expected_at_horizon", "time_dependent_auc", "uno_c", "calibration_curve",
    "recalibrate", "fit_baseline", "index_of_prediction_accuracy",
]  # fmt: skip


def _follow_up(data: Any, n: int) -> tuple[Any, Any]:
    time = data.draw(columns(n, low=0.01, high=data.draw(st.sampled_from([1.0, 1e-8, 1e12]))))
    return time, data.draw(masks(n) | columns(n))


@pytest.mark.parametrize("name", TIMED)
@fuzz()
@given(data=st.data(), n=sizes)
def test_metrics_of_follow_up_are_finite_or_refused(name: str, data: Any, n: int) -> None:
    predicted = data.draw(columns(n) | columns(n, low=-800.0, high=800.0))
    time, event = _follow_up(data, n)
    options: dict[str, Any] = {}
    if name == "calibration_slope":
        options["strict"] = True  # else NaN with a warning where there are no events
    if name in TIMED[:7] and data.draw(st.booleans()):
        options["sample_weight"] = data.draw(columns(n))
    holds_rule(
        lambda: getattr(s, name)(predicted, time, event, **options),
        missing=("censoring_p", "lower", "upper", "band"),
    )


@pytest.mark.parametrize("name", ["calibration_in_the_large", "d_calibration"])
@fuzz()
@given(data=st.data(), n=sizes)
def test_metrics_of_own_survival_are_finite_or_refused(name: str, data: Any, n: int) -> None:
    own, (_, event) = data.draw(columns(n)), _follow_up(data, n)
    strict = {"strict": True} if name == "calibration_in_the_large" else {}
    holds_rule(lambda: getattr(s, name)(own, event, **strict))


@fuzz()
@given(st.data(), sizes, st.sampled_from([None, 0.5, -1.0, float("nan"), 1e9]))
def test_the_bootstrap_is_finite_or_refused(data: Any, n: int, horizon: float | None) -> None:
    time, event = _follow_up(data, n)
    own, risk, at = data.draw(columns(n)), data.draw(columns(n)), data.draw(columns(n))
    holds_rule(lambda: s.bootstrap_calibration(own, risk, at, time, event, horizon, n_draws=10))


@fuzz()
@given(st.data(), sizes)
def test_curves_over_times_are_finite_or_refused(data: Any, n: int) -> None:
    time, event = _follow_up(data, n)
    grid = np.linspace(0.1, 0.9, 3)
    table = np.sort(np.random.default_rng(n).random((n, 3)), axis=1)[:, ::-1]
    holds_rule(lambda: s.integrated_brier_score(table, grid, time, event))
    holds_rule(lambda: s.km_calibration(table, grid, time, event))


@fuzz()
@given(st.data(), sizes, st.sampled_from([None, 0.5, -1.0, float("nan"), 1e9]))
def test_samples_and_risks_are_finite_or_refused(data: Any, n: int, horizon: float | None) -> None:
    time, event = _follow_up(data, n)

    def work() -> Any:
        sample = s.survival_sample(time, event, data.draw(st.none() | columns(n)))
        known = data.draw(sound_columns(len(sample)))
        found = s.censoring_test(known, sample, 0.5 if horizon is None else horizon)
        return sample.time, sample.weight, found

    holds_rule(work)
    holds_rule(lambda: s.from_survival(data.draw(columns(n)), horizon))
    matrix = np.column_stack([data.draw(sound_columns(n))] * 2)
    holds_rule(lambda: s.from_survival(matrix, horizon, times=[0.2, 0.5]))


@pytest.mark.parametrize("name", ["net_benefit", "survival_report", "compare_survival"])
@fuzz(60)
@given(data=st.data(), n=sizes)
def test_reports_and_comparisons_are_finite_or_refused(name: str, data: Any, n: int) -> None:
    (time, event), at = _follow_up(data, n), data.draw(columns(n))
    options: dict[str, Any] = {}
    for option, values in (("entry", columns(n, high=0.02)), ("groups", columns(n))):
        if data.draw(st.integers(0, 3)) == 0:
            options[option] = data.draw(values)
    if data.draw(st.booleans()):
        options["cause"] = data.draw(st.sampled_from([1, 2, 0, None]))
    horizon = data.draw(st.sampled_from([0.3, 0.5, -1.0, float("nan")]))
    calls = {
        "net_benefit": lambda: s.net_benefit(at, time, event, horizon, **options),
        "survival_report": lambda: s.survival_report(at, (time, event), horizon, **options),
        "compare_survival": lambda: s.compare_survival(
            at, np.sqrt(np.abs(data.draw(sound_columns(n)))), (time, event), [horizon], **options
        ),
    }
    holds_rule(calls[name], missing=("censoring_p",))


@fuzz()
@given(st.data(), sizes)
def test_a_paired_difference_is_finite_or_refused(data: Any, n: int) -> None:
    (time, event), first, second = _follow_up(data, n), data.draw(columns(n)), data.draw(columns(n))
    holds_rule(
        lambda: s.paired_difference(
            s.harrell_c(first, time, event), s.harrell_c(second, time, event)
        )
    )


class Constant:
    """A model that has learnt nothing, or falls over."""

    def __init__(self, broken: bool) -> None:
        self.broken = broken

    def fit(self, x: Any, time: Any, event: Any) -> Constant:
        return self

    def predict_survival(self, x: Any, times: Any) -> Any:
        return np.full((len(x), len(times)), np.nan if self.broken else 0.5)


@fuzz(25)  # each example fits five models
@given(st.data(), sizes.filter(bool), st.booleans())
def test_optimism_is_finite_or_refused(data: Any, n: int, broken: bool) -> None:
    time, event = data.draw(sound_columns(n, low=0.01)), data.draw(masks(n))
    x = np.arange(float(n))[:, None]
    holds_rule(
        lambda: s.optimism_corrected(lambda: Constant(broken), x, time, event, 0.5, n_bootstrap=5)
    )
