"""Judge calibration and weight calibration under the fuzz rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cje.calibration import (
    FlexibleCalibrator,
    JudgeCalibrator,
    SimcalConfig,
    SIMCalibrator,
    augmentation,
    calibrate_dataset,
    calibrate_from_raw_data,
    calibrate_to_target_mean,
    fit_reward_model,
    labelling_propensity,
    projected_augmentation,
    projection_influence,
    weight_given_score,
)
from cje.data import Dataset
from tests.robustness.fuzzing import columns, fuzz, holds_rule, masks, sizes, sound_columns

UNDEFINED = ("r2",)  # documented: NaN where all labels are equal
modes = st.sampled_from(["auto", "monotone", "two_stage", "other"])


@fuzz()
@given(st.data(), sizes, modes, st.integers(-1, 6))
def test_judge_calibration_is_finite_or_refused(data: Any, n: int, mode: str, folds: int) -> None:
    score, label = data.draw(columns(n)), data.draw(columns(n))
    mask = data.draw(st.none() | masks(n) | columns(n))

    def fit() -> Any:
        model = JudgeCalibrator(mode)
        return model.fit_cv(score, label, mask, n_folds=folds), model.predict(score)

    holds_rule(fit, missing=UNDEFINED)
    holds_rule(lambda: JudgeCalibrator(mode).fit_transform(score, label, mask), missing=UNDEFINED)


@fuzz()
@given(st.data(), sizes, modes, st.integers(0, 6))
def test_calibrating_a_data_set_is_finite_or_refused(
    data: Any, n: int, mode: str, folds: int
) -> None:
    label = data.draw(sound_columns(n))
    label[~data.draw(masks(n))] = np.nan

    def work() -> Any:
        ids, score = [f"p{i // 2}" for i in range(n)], data.draw(columns(n))
        made = Dataset.from_arrays(prompt_id=ids, policy="m", judge_score=score, oracle_label=label)
        calibrated, result = calibrate_dataset(made, calibration_mode=mode, n_folds=folds)
        return calibrated.rewards, result

    holds_rule(work, missing=UNDEFINED)


@fuzz()
@given(st.data(), sizes, modes)
def test_calibrating_plain_rows_is_finite_or_refused(data: Any, n: int, mode: str) -> None:
    cells = st.floats(0.0, 1.0) | st.sampled_from([None, "x", "0.5", True, 7, float("nan"), {}])
    rows = [
        {"prompt_id": f"p{i}", "judge_score": data.draw(cells), "oracle_label": data.draw(cells)}
        for i in range(min(n, 12))
    ]
    holds_rule(lambda: calibrate_from_raw_data(rows, calibration_mode=mode)[1], missing=UNDEFINED)


@fuzz()
@given(st.data(), sizes, modes)
def test_the_flexible_calibrator_is_finite_or_refused(data: Any, n: int, mode: str) -> None:
    score, label, new = data.draw(columns(n)), data.draw(columns(n)), data.draw(columns(3))

    def work() -> Any:
        model = FlexibleCalibrator(mode).fit(score, label)
        return model.predict(new), model.index(new)

    holds_rule(work)


@fuzz()
@given(st.data(), sizes, modes)
def test_reward_models_are_finite_or_refused(data: Any, n: int, mode: str) -> None:
    score, label = data.draw(columns(n)), data.draw(columns(n))
    weights = data.draw(st.none() | columns(n))
    new = data.draw(columns(3))

    def work() -> Any:
        model = fit_reward_model(score, label, n_folds=data.draw(st.integers(0, 5)), mode=mode,
                                 weights=weights)  # fmt: skip
        return model.predict(new)

    holds_rule(work)


@st.composite
def weights(draw: st.DrawFn, n: int) -> Any:
    """Importance ratios: mild, wild, zero."""
    if draw(st.booleans()):
        return draw(columns(n, high=3.0))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    wild = np.exp(rng.normal(size=n) * draw(st.sampled_from([1.0, 20.0, 200.0])))
    return wild * draw(st.sampled_from([1.0, 0.0, 1e-300, 1e300]))


@fuzz()
@given(st.data(), sizes)
def test_simcal_is_finite_or_refused(data: Any, n: int) -> None:
    w, score = data.draw(weights(n)), data.draw(columns(n))
    rewards = data.draw(st.none() | columns(n))
    config = SimcalConfig(
        ess_floor=data.draw(st.sampled_from([None, 0.2, 1.0])),
        var_cap=data.draw(st.sampled_from([None, 0.5])),
        include_baseline=data.draw(st.booleans()),
        objective=data.draw(st.sampled_from(["projection", "variance"])),
    )

    def work() -> Any:
        made, info = SIMCalibrator(config).transform(w, score, rewards=rewards)
        np.testing.assert_allclose(made.mean(axis=0), 1.0, rtol=1e-9)
        return made, info

    holds_rule(work)


@fuzz()
@given(st.data(), sizes, st.sampled_from([1.0, 0.0, -1.0, 5.0, 1e300, float("nan")]))
def test_the_mean_one_projection_is_finite_or_refused(data: Any, n: int, mean: float) -> None:
    w, index = data.draw(weights(n)), data.draw(st.none() | columns(n))

    def work() -> Any:
        made = calibrate_to_target_mean(w, mean, ordering_index=index)
        np.testing.assert_allclose(np.mean(made), mean, rtol=1e-9)
        return made

    holds_rule(work)


@fuzz()
@given(st.data(), sizes)
def test_the_oracle_slice_is_finite_or_refused(data: Any, n: int) -> None:
    label, reward, score, w = (data.draw(columns(n)) for _ in range(4))
    mask, pi = data.draw(masks(n)), data.draw(columns(n, low=0.1))
    holds_rule(lambda: augmentation(label, mask, reward, w, pi))
    holds_rule(lambda: projected_augmentation(label, mask, reward, w, score, pi))
    holds_rule(lambda: projection_influence(w, w, label, reward))
    holds_rule(lambda: weight_given_score(w, score))
    holds_rule(lambda: labelling_propensity(mask, score))
