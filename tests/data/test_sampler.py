"""`PrecomputedSampler`: weights in log space, a counted clip, and nothing made up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cje.data import Dataset, PrecomputedSampler
from cje.data.folds import get_folds
from cje.errors import CJEError


def logged(base: list[float], **targets: list[float]) -> Dataset:
    n = len(base)
    return Dataset.from_arrays(
        prompt_id=[f"p{i}" for i in range(n)],
        policy="base",
        judge_score=np.linspace(0, 1, n),
        base_policy_logprob=base,
        target_policy_logprobs=targets,
    )


def test_raw_weights_are_ratios_and_normalised_ones_have_mean_one() -> None:
    sampler = PrecomputedSampler(logged([-1.0, -2.0, -3.0], t=[-2.0, -2.0, -1.0]))
    assert np.allclose(sampler.weights("t", normalised=False), np.exp([-1.0, 0.0, 2.0]))
    hajek = sampler.weights("t")
    assert hajek.mean() == pytest.approx(1.0, abs=1e-15)
    assert np.allclose(hajek / hajek[1], np.exp([-1.0, 0.0, 2.0]))
    assert np.array_equal(sampler.weight_matrix()[:, 0], hajek)


def test_the_hard_clip_is_applied_and_counted() -> None:
    sampler = PrecomputedSampler(
        logged([-100.0, -50.0, -3.0], t=[-10.0, -90.0, -3.0], u=[-100.0, -50.0, -3.0])
    )
    assert sampler.clipped["t"].above == 1
    assert sampler.clipped["t"].below == 1
    assert sampler.clipped["u"].above == 0
    assert sampler.weights("t", normalised=False).tolist() == [np.exp(20.0), np.exp(-20.0), 1.0]
    assert sampler.log_ratios(clipped=False)[:, 0].tolist() == [90.0, -40.0, 0.0]
    wide = PrecomputedSampler(sampler.dataset, log_ratio_clip=100.0)
    assert wide.clipped["t"].above == 0


@given(st.lists(st.tuples(st.floats(-1e5, 0), st.floats(-1e5, 0)), min_size=1, max_size=30))
def test_weights_are_finite_whatever_the_log_probabilities(
    pairs: list[tuple[float, float]],
) -> None:
    base, target = (list(column) for column in zip(*pairs, strict=True))
    sampler = PrecomputedSampler(logged(base, t=target))
    for normalised in (True, False):
        weights = sampler.weights("t", normalised=normalised)
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
    assert sampler.weights("t").mean() == pytest.approx(1.0)


def test_a_missing_log_probability_is_never_replaced() -> None:
    with pytest.raises(
        CJEError, match=r"target_policy_logprobs.t is missing on 1 of 2 rows"
    ) as caught:
        PrecomputedSampler(logged([-1.0, -1.0], t=[-1.0, float("nan")]))
    assert "row 1" in str(caught.value)
    data = Dataset.from_arrays(prompt_id=["a", "b"], policy="x", judge_score=[0.1, 0.2])
    with pytest.raises(CJEError, match="needs log-probabilities"):
        PrecomputedSampler(data)


def test_rewards_scores_labels_and_folds_come_from_the_data() -> None:
    data = logged([-1.0] * 4, t=[-1.0] * 4)
    sampler = PrecomputedSampler(data)
    with pytest.raises(CJEError, match="no calibrated rewards"):
        sampler.rewards()
    calibrated = PrecomputedSampler(data.with_columns(rewards=[0.1, 0.2, 0.3, 0.4]))
    assert calibrated.rewards().tolist() == [0.1, 0.2, 0.3, 0.4]
    assert np.array_equal(sampler.judge_scores(), data.judge_score)
    assert np.isnan(sampler.oracle_labels()).all()
    assert sampler.prompt_ids() is data.prompt_id
    assert np.array_equal(sampler.fold_ids(3, seed=7), get_folds(data.prompt_id, 3, 7))
    assert (sampler.n_samples, sampler.n_policies, sampler.target_policies) == (4, 1, ("t",))


def test_names_and_settings_are_checked() -> None:
    data = logged([-1.0, -1.0], t=[-1.0, -1.0])
    with pytest.raises(CJEError, match="unknown target policy"):
        PrecomputedSampler(data).weights("u")
    with pytest.raises(CJEError, match="positive"):
        PrecomputedSampler(data, log_ratio_clip=0.0)
    with pytest.raises(CJEError, match="no rows"):
        PrecomputedSampler(data.select([]))
