"""Every estimator of the registry under the fuzz rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cje.data import Dataset, PrecomputedSampler
from cje.errors import CJEError
from cje.estimators import EstimationResult
from cje.estimators.registry import REGISTRY
from tests.robustness.fuzzing import fuzz, holds_rule, masks, sizes, sound_columns


@st.composite
def logs(draw: st.DrawFn, targets: int = 2) -> tuple[Dataset, Dataset | None]:
    """Logged rows with log-probs, and perhaps fresh draws of the same prompts; always valid."""
    n = draw(sizes.filter(bool))
    prompts = draw(st.sampled_from([1, 2, n]))
    label = draw(sound_columns(n))
    label[~draw(masks(n))] = np.nan
    logged = draw(sound_columns(n, low=-40.0, high=0.0))
    shift = draw(st.sampled_from([0.0, 0.1, 1.0, 30.0, 500.0]))
    moved = [
        np.minimum(logged + shift * draw(sound_columns(n, low=-1.0)), 0.0) for _ in range(targets)
    ]
    propensity = draw(st.none() | sound_columns(n, low=0.05))
    data = Dataset.from_arrays(
        prompt_id=[f"p{i % prompts}" for i in range(n)],
        policy="log",
        draw_idx=np.arange(n) // prompts,
        judge_score=draw(sound_columns(n)),
        oracle_label=label,
        label_propensity=propensity,
        base_policy_logprob=logged,
        target_policy_logprobs={f"t{k}": column for k, column in enumerate(moved)},
    )
    if draw(st.integers(0, 3)) == 0:
        return data, None
    m = draw(st.sampled_from([1, prompts, 2 * prompts]))
    held = draw(st.sampled_from([["t0", "t1"], ["t0"]]))
    fresh = Dataset.from_arrays(
        prompt_id=[f"p{i % prompts}" for i in range(m)] * len(held),
        policy=np.repeat(held, m).tolist(),
        draw_idx=np.tile(np.arange(m) // prompts, len(held)),
        judge_score=draw(sound_columns(m * len(held))),
    )
    return data, fresh


def _outcome(result: EstimationResult) -> Any:
    result.summary()
    result.best_policy()
    assert EstimationResult.from_json(result.to_json()).estimates.tolist() == list(result.estimates)
    refused = result.refused()  # a refused value has no limits, although they were computed
    for name, (low, high), value in zip(
        result.policies, result.ci(), result.estimates, strict=True
    ):
        assert math.isnan(low) if name in refused else low <= value <= high
    limits = [tuple(interval) for interval in result.influence.intervals(result.level)]
    pairs = [
        (p.difference, *p.interval, p.p_value)
        for p, _ in result.compare_all()
        if p.verdict != "refused"
    ]
    return result.estimates, result.standard_errors, result.robust_standard_errors, limits, pairs


@pytest.mark.parametrize(
    "name", [name for name, e in REGISTRY.items() if e.needs in ("logged", "both")]
)
@fuzz()
@given(
    given_logs=logs(),
    label_weight=st.sampled_from(["raw", "projected"]),
    noise=st.sampled_from([0.0, 0.5, 2.0]),
)
def test_off_policy_estimators_are_finite_or_refused(
    name: str, given_logs: tuple[Dataset, Dataset | None], label_weight: str, noise: float
) -> None:
    data, fresh = given_logs
    entry = REGISTRY[name]
    options: dict[str, Any] = {"label_weight": label_weight, "logprob_noise": noise}

    def work() -> Any:
        sampler = PrecomputedSampler(data)
        if entry.needs == "logged":
            made = entry.load()(sampler, **options)
        else:
            if fresh is None:
                raise CJEError("this target has no fresh draws to give")
            made = entry.load()(sampler, fresh, **options)
        return _outcome(made.fit_and_estimate())

    holds_rule(work)


@pytest.mark.parametrize("name", [name for name, e in REGISTRY.items() if e.needs == "fresh"])
@fuzz()
@given(given_logs=logs())
def test_fresh_draw_estimators_are_finite_or_refused(
    name: str, given_logs: tuple[Dataset, Dataset | None]
) -> None:
    data, _ = given_logs
    holds_rule(lambda: _outcome(REGISTRY[name].load()(data).fit_and_estimate()))
