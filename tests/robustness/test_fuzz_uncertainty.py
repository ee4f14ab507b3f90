"""The uncertainty-aware estimator under the fuzz rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cje.data import JudgeScore, JudgeScores
from cje.uncertainty import (
    IsotonicCalibration,
    UncertaintyAwareDRCPO,
    UncertaintyEstimatorConfig,
    adaptive_shrinkage,
    apply_full_calibration,
    apply_shrinkage,
    apply_variance_scaling,
    calibrate_scores_isotonic,
    calibrate_variance_gamma,
    compute_optimal_shrinkage,
    covariance_shrinkage,
    create_uncertainty_report,
    first_order_shrinkage,
)
from tests.robustness.fuzzing import columns, fuzz, holds_rule, masks, sizes, sound_columns


@fuzz()
@given(
    st.data(), sizes, st.sampled_from(["optimal", "adaptive", "fixed", "covariance"]),
    st.integers(2, 6),
)  # fmt: skip
def test_the_estimator_is_finite_or_refused(data: Any, n: int, method: Any, folds: int) -> None:
    labels = data.draw(columns(n))
    if isinstance(labels, np.ndarray) and labels.shape == (n,) and labels.dtype.kind == "f":
        labels = np.where(data.draw(masks(n)), labels, np.nan)
    weights = data.draw(columns(n, high=3.0))
    one = isinstance(weights, np.ndarray) and weights.shape == (n,) and weights.dtype.kind == "f"
    if data.draw(st.booleans()) and one:
        weights = np.stack([weights, np.ones(n)], axis=1)
    mean, variance = data.draw(columns(n)), data.draw(columns(n, high=0.25))
    options = {"prompt_ids": [f"p{i // 2}" for i in range(n)]} if data.draw(st.booleans()) else {}

    def work() -> Any:
        config = UncertaintyEstimatorConfig(k_folds=folds, shrinkage_method=method)
        result = UncertaintyAwareDRCPO(config).fit(
            judge_scores=JudgeScores(mean, variance), oracle_rewards=labels,
            importance_weights=weights, **options,
        )  # fmt: skip
        result.summary()
        return [policy.estimate for policy in result.policies], result.influence.values

    holds_rule(work)


@fuzz()
@given(st.data(), sizes)
def test_the_parts_are_finite_or_refused(data: Any, n: int) -> None:
    w, r, v = data.draw(columns(n, high=3.0)), data.draw(columns(n)), data.draw(columns(n))
    holds_rule(lambda: compute_optimal_shrinkage(w, r, v))
    holds_rule(lambda: covariance_shrinkage(w, r, v))
    holds_rule(lambda: adaptive_shrinkage(w, v, 0.2))
    holds_rule(lambda: apply_shrinkage(w, v, data.draw(st.sampled_from([0.0, 0.5, 1e9, -1.0]))))
    holds_rule(lambda: calibrate_variance_gamma(r, w, v))
    holds_rule(lambda: calibrate_scores_isotonic(JudgeScores(r, v), w))


@fuzz()
@given(st.floats(), st.floats())
def test_one_score_is_finite_or_refused(mean: float, variance: float) -> None:
    holds_rule(lambda: JudgeScore(mean, variance))


@fuzz()
@given(st.data(), sizes, st.floats() | st.sampled_from([0.0, 1.0, 3.0]))
def test_calibrated_variances_are_finite_or_refused(data: Any, n: int, gamma: float) -> None:
    mean, variance = data.draw(columns(n)), data.draw(columns(n, high=0.25))
    line = IsotonicCalibration(np.array([0.0, 1.0]), np.array([0.1, 0.9]))

    def whole() -> Any:
        made = apply_full_calibration(JudgeScores(mean, variance), line, gamma)
        return made.mean, made.variance

    holds_rule(whole)
    holds_rule(lambda: apply_variance_scaling(variance, gamma))


@fuzz()
@given(st.data(), sizes)
def test_the_report_is_finite_or_refused(data: Any, n: int) -> None:
    w, r, v = data.draw(sound_columns(n, high=3.0)), data.draw(columns(n)), data.draw(columns(n))
    known = data.draw(sound_columns(n)), data.draw(sound_columns(n))
    holds_rule(lambda: first_order_shrinkage(w, *known))
    holds_rule(
        lambda: create_uncertainty_report(
            weights=w, rewards=r, variances=v, estimate=0.5, se_with_uncertainty=0.1,
            se_without_uncertainty=0.05, gamma=1.0,
        ).to_dict()
    )  # fmt: skip
