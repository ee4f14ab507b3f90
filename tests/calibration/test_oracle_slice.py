"""Oracle-slice augmentation: unbiased with W; with m(S) only where W and Y agree given S."""

import numpy as np
import pytest

from cje import simulate
from cje.calibration import (
    OracleSliceConfig,
    augmentation,
    labelling_propensity,
    projected_augmentation,
    weight_given_score,
)
from cje.errors import CJEError


def estimates(direct_effect: float, labelling: str, draws: int) -> dict[str, np.ndarray]:
    """Errors of the plug-in and of both corrections, rewards deliberately wrong."""
    errors: dict[str, list[float]] = {"plug-in": [], "raw": [], "projected": [], "mcar": []}
    for seed in range(draws):
        sim = simulate.logged_with_logprobs(
            2000, 600, targets={"t": 0.5}, weight_shape="rising", seed=seed,
            labelling=labelling, direct_effect=direct_effect, fresh_draws=0,
        )  # fmt: skip
        data, seen = sim.dataset, sim.dataset.is_labelled
        w = np.exp(data.target_policy_logprobs[:, 0] - data.base_policy_logprob)
        w /= w.mean()
        reward = 0.5 * simulate.true_curve("monotone")(data.judge_score)  # half the truth
        pi = labelling_propensity(seen, data.judge_score)
        y = data.oracle_label
        plug_in = np.mean(w * reward)
        terms = {
            "plug-in": 0.0,
            "raw": augmentation(y, seen, reward, w, pi).mean(),
            "projected": projected_augmentation(y, seen, reward, w, data.judge_score, pi).mean(),
            "mcar": augmentation(y, seen, reward, w, labelling_propensity(seen)).mean(),
        }
        for name, term in terms.items():
            errors[name].append(plug_in + term - sim.truth["t"])
    return {name: np.array(values) for name, values in errors.items()}


def z_score(errors: np.ndarray) -> float:
    return abs(errors.mean()) / (errors.std(ddof=1) / np.sqrt(len(errors)))


def test_both_forms_are_unbiased_and_the_projected_one_is_tighter_where_w_and_y_agree() -> None:
    errors = estimates(0.0, "mcar", 60)
    assert errors["plug-in"].mean() < -0.2
    assert z_score(errors["raw"]) < 3
    assert z_score(errors["projected"]) < 3
    assert abs(errors["projected"].mean()) < 0.01
    assert errors["projected"].std() < errors["raw"].std()


def test_projected_form_is_biased_where_the_outcome_follows_the_weight_given_the_score() -> None:
    errors = estimates(0.8, "mcar", 60)
    assert abs(errors["raw"].mean()) < 0.012
    assert errors["projected"].mean() < -0.02
    assert z_score(errors["projected"]) > 5


def test_a_fitted_propensity_is_needed_when_labels_are_missing_at_random() -> None:
    errors = estimates(0.0, "mar", 60)
    assert abs(errors["raw"].mean()) < 0.012
    assert abs(errors["mcar"].mean()) > 2 * abs(errors["raw"].mean()) + 0.005


def test_fitted_propensities_sum_to_the_labels_and_find_the_shape() -> None:
    rng = np.random.default_rng(0)
    score = rng.random(5000)
    chance = 0.1 + 0.6 * np.abs(score - 0.5)
    seen = rng.random(5000) < chance
    pi = labelling_propensity(seen, score)
    assert pi.sum() == pytest.approx(seen.sum(), rel=1e-6)
    assert np.abs(pi - chance).max() < 0.08
    assert labelling_propensity(np.ones(5, bool), np.arange(5.0)).tolist() == [1.0] * 5
    separated = labelling_propensity(score > 0.7, score, min_pi=0.05)
    assert np.isfinite(separated).all()
    assert separated.min() == 0.05


def test_weight_given_score_estimates_the_conditional_mean_out_of_fold() -> None:
    rng = np.random.default_rng(1)
    score = rng.random(4000)
    truth = 3 * np.exp(2 * score)
    weights = truth * rng.lognormal(-0.125, 0.5, 4000)
    folds = np.arange(4000) % 5
    for m in (weight_given_score(weights, score), weight_given_score(weights, score, folds)):
        assert np.sqrt(np.mean((m - truth) ** 2)) < 0.15 * truth.std()
    changed = weights.copy()
    changed[folds == 0] *= 10
    held = folds == 0
    before = weight_given_score(weights, score, folds)[held]
    assert np.array_equal(weight_given_score(changed, score, folds)[held], before)


def test_configuration_and_inputs_are_checked() -> None:
    assert OracleSliceConfig().enable_augmentation is False
    assert OracleSliceConfig().use_projected_weights is False
    one = np.ones(2)
    for call in (
        lambda: OracleSliceConfig(min_pi=0.0),
        lambda: labelling_propensity([False, False]),
        lambda: labelling_propensity([True, False], min_pi=2.0),
        lambda: augmentation([np.nan, 1.0], [True, True], one, one, one),
        lambda: augmentation(one, [True, True], one, one, np.zeros(2)),
        lambda: augmentation(one, [True, True], one, np.array([1.0, np.inf]), one),
        lambda: augmentation(np.ones(3), [True, True], one, one, one),
        lambda: weight_given_score(one, one, [0, 0]),
    ):
        with pytest.raises(CJEError):
            call()
