"""Document 000: every Python snippet runs as written, its troubleshooting table holds."""

import warnings

import numpy as np
import pytest

from cje import simulate
from cje.errors import CJEError

SNIPPETS = {
    "basic reward calibration": """
from cje.calibration import calibrate_dataset

# Calibrate judge scores to oracle labels (auto mode by default)
calibrated_dataset, cal_result = calibrate_dataset(
    dataset,
    judge_field="judge_score",
    oracle_field="oracle_label",
    calibration_mode="auto",  # Or "monotone", "two_stage"
    random_seed=42  # For reproducibility
)

# Access calibration quality metrics and metadata
print(f"RMSE: {cal_result.calibration_rmse:.3f}")
print(f"Coverage: {cal_result.coverage_at_01:.1%}")
print(f"Selected mode: {calibrated_dataset.metadata.get('calibration_info', {}).get('selected_mode')}")
""",  # noqa: E501
    "weight calibration": """
from cje.calibration import calibrate_to_target_mean

# Calibrate weights with variance control
calibrated_weights, info = calibrate_to_target_mean(
    raw_weights,
    target_mean=1.0,
    enforce_variance_nonincrease=True,
    ordering_index=judge_scores,  # Order by judge scores
    return_diagnostics=True
)

print(f"Variance reduction: {info['var_before']/info['var_after']:.2f}x")
""",
    "stacked SIMCal, and debugging it": """
from cje.calibration import SIMCalibrator, SimcalConfig

# Configure stacked calibration
config = SimcalConfig(
    ess_floor=0.2,      # Minimum 20% ESS
    var_cap=1.0,        # No variance increase
    include_baseline=False,
)

# Run calibration
calibrator = SIMCalibrator(config)
calibrated, info = calibrator.transform(
    weights,
    judge_scores,
    rewards=rewards  # For IPS influence functions
)

print(f"Mixture: {info['mixture_weights']}")
print(f"ESS improvement: {info['ess_after']/info['ess_before']:.2f}x")

# Check intermediate steps
calibrated, info = calibrator.transform(weights, scores, rewards=rewards)
print(f"Mixture weights: {info['mixture_weights']}")
print(f"Variance reduction: {info['var_before']/info['var_after']:.2f}x")
""",
    "cross-fitted calibration": """
from cje.calibration import JudgeCalibrator

# Fit with cross-validation for DR methods
calibrator = JudgeCalibrator()
result = calibrator.fit_cv(
    judge_scores,
    oracle_labels,
    oracle_mask,
    n_folds=5
)

# Get out-of-fold predictions
fold_ids = result.fold_ids
oof_predictions = calibrator.predict_oof(judge_scores, fold_ids)
""",
    "oracle slice configuration": """
from cje.calibration import OracleSliceConfig
oracle_config = OracleSliceConfig(
    enable_augmentation=True,
    enable_cross_fit=True,
    min_pi=0.01,
    use_mar=False  # MCAR assumption
)
""",
    "bootstrapping": """
from cje.calibration import JudgeCalibrator
# For low oracle coverage scenarios
n_bootstrap = 100
calibrations = []
for _ in range(n_bootstrap):
    idx = np.random.choice(n_oracle, n_oracle, replace=True)
    cal = JudgeCalibrator()
    result = cal.fit_transform(judge_scores[idx], oracle_labels[idx])
    calibrations.append(result.calibrated_scores)
""",
}


@pytest.fixture(scope="module")
def names() -> dict:
    sim = simulate.logged_with_logprobs(
        1000, 200, targets={"t": 0.3}, weight_shape="rising", seed=3, fresh_draws=0
    )
    data = sim.dataset
    weights = np.exp(data.target_policy_logprobs[:, 0] - data.base_policy_logprob)
    return {
        "np": np,
        "dataset": data,
        "raw_weights": weights,
        "weights": weights,
        "judge_scores": data.judge_score,
        "scores": data.judge_score,
        "rewards": simulate.true_curve("monotone")(data.judge_score),
        "oracle_labels": data.oracle_label[data.is_labelled],
        "oracle_mask": data.is_labelled,
        "n_oracle": data.n_labelled,
    }


@pytest.mark.parametrize("title", SNIPPETS)
@pytest.mark.filterwarnings("ignore:ess_floor")
def test_a_snippet_runs_as_written(title: str, names: dict, capsys: pytest.CaptureFixture) -> None:
    scope = dict(names)
    exec(SNIPPETS[title], scope)
    printed = capsys.readouterr().out
    assert "nan" not in printed
    if title == "basic reward calibration":
        assert "Selected mode: monotone" in printed
        assert scope["calibrated_dataset"].rewards is not None
    if title == "weight calibration":
        assert scope["calibrated_weights"].mean() == pytest.approx(1.0, abs=1e-10)
        assert scope["info"]["var_before"] > scope["info"]["var_after"]
    if title == "cross-fitted calibration":
        assert scope["oof_predictions"].shape == (1000,)
    if title == "bootstrapping":
        spread = np.std([c.mean() for c in scope["calibrations"]])
        assert len(scope["calibrations"]) == 100
        assert 0.005 < spread < 0.05


# ---- Common Issues and Solutions -------------------------------------------------------------


def test_judge_field_reward_is_refused_with_the_way_out(names: dict) -> None:
    from cje.calibration import calibrate_dataset, calibrate_from_raw_data

    with pytest.raises(CJEError, match=r"Judge field 'reward' not allowed.*judge_score"):
        calibrate_dataset(names["dataset"], judge_field="reward")
    with pytest.raises(CJEError, match="Judge field 'reward' not allowed"):
        calibrate_from_raw_data([{"reward": 0.3, "oracle_label": 1.0}], judge_field="reward")


def test_low_r2_is_found_with_the_four_remedies() -> None:
    from cje.calibration import JudgeCalibrator

    rng = np.random.default_rng(0)
    result = JudgeCalibrator().fit_transform(rng.random(200), rng.random(200))
    finding = next(f for f in result.findings if f.code == "low-calibration-r2")
    for remedy in ("label more rows", "judge's prompt", "another judge", "noisy"):
        assert remedy in finding.action
    assert finding.action in result.summary()


def test_nearly_constant_weights_are_reported_with_a_caution() -> None:
    from cje.calibration import SIMCalibrator, calibrate_to_target_mean

    rng = np.random.default_rng(1)
    score = rng.random(5000)
    falling = np.exp(-3 * score + 0.3 * rng.standard_normal(5000))
    wrong, info = calibrate_to_target_mean(falling, ordering_index=score, return_diagnostics=True)
    assert wrong.var() < 0.01 * info["var_before"]
    assert "right only if the index is unrelated to the weights" in info["note"]
    unrelated = rng.lognormal(size=5000)
    _calibrated, info = SIMCalibrator().transform(unrelated, score)
    assert info["note"] == "" or "is unrelated to" in info["note"]
    right, _ = SIMCalibrator().transform(falling, score)
    assert np.corrcoef(right, np.exp(-3 * score))[0, 1] > 0.9


def test_an_unreachable_variance_cap_is_reported() -> None:
    from cje.calibration import calibrate_to_target_mean

    score = np.linspace(0, 1, 200)
    calibrated, info = calibrate_to_target_mean(
        np.exp(3 * score), ordering_index=score, return_diagnostics=True, max_variance_ratio=0.5
    )
    assert info["feasible"] is False
    assert "variance cap not satisfied" in info["note"]
    assert np.isfinite(calibrated).all()


def test_ess_floor_dominates_a_looser_variance_cap_with_a_warning() -> None:
    from cje.calibration import SimcalConfig, SIMCalibrator

    with pytest.warns(UserWarning, match="ESS constraint dominates"):
        config = SimcalConfig(ess_floor=0.8, var_cap=1.0)
    score = np.linspace(0, 1, 1000)
    _weights, info = SIMCalibrator(config).transform(np.exp(4 * score), score)
    assert info["ess_after"] >= 0.8 * 1000 * (1 - 1e-9)
    assert info["feasible"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SimcalConfig(ess_floor=0.2, var_cap=1.0)  # implied 4, looser: nothing to say


def test_low_oracle_coverage_is_found_with_the_remedies() -> None:
    from cje.calibration import calibrate_dataset

    data = simulate.monotone_judge(1000, 30, seed=1).dataset
    calibrated, result = calibrate_dataset(data)
    finding = next(f for f in result.findings if f.code == "low-oracle-coverage")
    for remedy in ("more labels", "uncalibrated", "bootstrap"):
        assert remedy in finding.action
    stored = calibrated.metadata["calibration_info"]["findings"]
    assert any(f["code"] == "low-oracle-coverage" for f in stored)


RUBBISH = [None, "x", [], {}, 3, object(), [[1, 2], [3]], np.array(["a"]), [float("inf")]]


@pytest.mark.parametrize("rubbish", RUBBISH, ids=lambda v: type(v).__name__)
def test_invalid_input_of_any_kind_is_a_clear_error(rubbish: object) -> None:
    from cje import calibration as c

    for call in (
        lambda: c.FlexibleCalibrator().fit(rubbish, rubbish),
        lambda: c.calibrate_dataset(rubbish),
        lambda: c.augmentation(rubbish, rubbish, rubbish, rubbish, rubbish),
        lambda: c.labelling_propensity(rubbish),
        lambda: c.weight_given_score(rubbish, rubbish),
        lambda: c.projection_influence(rubbish, rubbish, rubbish, rubbish),
        lambda: c.fit_reward_model(rubbish, rubbish),
        lambda: c.SIMCalibrator(rubbish if rubbish is not None else "x"),
        lambda: c.JudgeCalibrator.from_json(rubbish),
        lambda: c.JudgeCalibrator().fit(rubbish, rubbish),
        lambda: c.JudgeCalibrator().fit_transform(rubbish, rubbish),
        lambda: c.JudgeCalibrator().fit_cv(rubbish, rubbish),
        lambda: c.SIMCalibrator().transform(rubbish, rubbish),
        lambda: c.calibrate_to_target_mean(rubbish),
        lambda: c.calibrate_from_raw_data(rubbish),
    ):
        with pytest.raises(CJEError):
            call()


@pytest.mark.parametrize(
    "rubbish", ["x", object(), float("nan"), -1, []], ids=lambda v: type(v).__name__
)
def test_invalid_settings_are_clear_errors(rubbish: object) -> None:
    from cje import calibration as c

    s = np.linspace(0, 1, 30)
    for call in (
        *(
            lambda name=name: c.SimcalConfig(**{name: rubbish})
            for name in ("ess_floor", "var_cap", "baseline_shrink", "ridge_lambda", "n_folds")
        ),
        lambda: c.OracleSliceConfig(min_pi=rubbish),
        lambda: c.calibrate_to_target_mean(s, target_mean=rubbish),
        lambda: c.calibrate_to_target_mean(s, max_variance_ratio=rubbish),
        lambda: c.JudgeCalibrator(calibration_mode=rubbish).fit(s, s),
        lambda: c.JudgeCalibrator(cv=rubbish).fit(s, s),
        lambda: c.JudgeCalibrator().fit_cv(s, s, n_folds=rubbish),
        lambda: c.JudgeCalibrator().fit_cv(s, s, prompt_ids=rubbish),
        lambda: c.JudgeCalibrator().fit(s, s, covariates=rubbish),
        lambda: c.JudgeCalibrator().fit(s, s, sample_weight=rubbish),
        lambda: c.JudgeCalibrator().fit(s, s, folds=rubbish),
    ):
        with pytest.raises(CJEError):
            call()
