"""JudgeCalibrator and FlexibleCalibrator: scikit-learn's contract, files, folds, refusals."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.estimator_checks import check_estimator

from cje import simulate
from cje.calibration import (
    FlexibleCalibrator,
    JudgeCalibrator,
    calibrate_dataset,
    calibrate_from_raw_data,
)
from cje.data import Dataset
from cje.errors import CJEError

RNG = np.random.default_rng(5)
SCORES = RNG.random(400)
RISING = np.clip(SCORES + 0.15 * RNG.standard_normal(400), 0, 1)
ARCH = np.clip(4 * SCORES * (1 - SCORES) + 0.1 * RNG.standard_normal(400), 0, 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", [JudgeCalibrator, FlexibleCalibrator])
def test_the_calibrators_keep_the_contract_of_scikit_learn(cls: type) -> None:
    # fit_transform returns a CalibrationResult, as in the founding document: the checks that
    # call it cannot pass. All others must.
    by_design = {"check_fit_score_takes_y", "check_pipeline_consistency"}
    results = check_estimator(cls(), on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    if cls is JudgeCalibrator:
        for name in by_design:
            assert "fit_transform" in str(failed[name]) or "CalibrationResult" in str(failed[name])
            del failed[name]
    assert failed == {}
    assert len(results) > 50
    copy = clone(cls(random_seed=7))
    assert copy.get_params()["random_seed"] == 7


def test_monotone_mode_is_isotonic_regression_and_keeps_the_slice_mean() -> None:
    result = JudgeCalibrator("monotone").fit_transform(SCORES, RISING)
    reference = IsotonicRegression(out_of_bounds="clip").fit(SCORES, RISING)
    grid = np.linspace(-0.5, 1.5, 500)
    ours = result.calibrator.predict(grid)
    assert np.allclose(ours, reference.predict(grid), atol=1e-12)
    assert result.calibrated_scores.mean() == pytest.approx(RISING.mean(), abs=1e-14)
    weights = RNG.random(400)
    weighted = JudgeCalibrator("monotone").fit_transform(SCORES, RISING, sample_weight=weights)
    assert np.average(weighted.calibrated_scores, weights=weights) == pytest.approx(
        np.average(RISING, weights=weights), abs=1e-14
    )


def test_result_says_what_it_holds() -> None:
    result = JudgeCalibrator().fit_cv(SCORES, ARCH)
    assert result.selected_mode == "two_stage"
    error = ARCH - result.calibrated_scores
    assert result.calibration_rmse == pytest.approx(np.sqrt(np.mean(error**2)))
    assert result.coverage_at_01 == pytest.approx(np.mean(np.abs(error) <= 0.1))
    assert result.r2 == pytest.approx(1 - np.sum(error**2) / np.sum((ARCH - ARCH.mean()) ** 2))
    out = ARCH - result.calibrator.predict_oof(SCORES, result.fold_ids)
    assert result.oof_rmse == pytest.approx(np.sqrt(np.mean(out**2)))
    assert result.oof_coverage_at_01 == pytest.approx(np.mean(np.abs(out) <= 0.1))
    assert result.oof_rmse > result.calibration_rmse
    assert len(result.fold_models) == 5
    for word in ("two_stage", "RMSE", "R²", "Out of fold", "400 of 400"):
        assert word in result.summary()


def test_all_forms_of_partial_labels_agree() -> None:
    mask = np.zeros(400, dtype=bool)
    mask[::3] = True
    with_nan = np.where(mask, RISING, np.nan)
    forms = [
        JudgeCalibrator().fit_cv(SCORES, with_nan),
        JudgeCalibrator().fit_cv(SCORES, RISING, mask),
        JudgeCalibrator().fit_cv(SCORES, RISING[mask], mask),
        JudgeCalibrator().fit_cv(SCORES, RISING[::3], np.flatnonzero(mask)),
    ]
    for form in forms[1:]:
        assert np.array_equal(form.calibrated_scores, forms[0].calibrated_scores)
    assert forms[0].n_oracle == mask.sum()
    assert forms[0].oracle_coverage == pytest.approx(mask.mean())


def test_fold_models_never_see_their_fold() -> None:
    prompts = [f"p{i // 2}" for i in range(400)]
    result = JudgeCalibrator("two_stage").fit_cv(SCORES, ARCH, n_folds=4, prompt_ids=prompts)
    folds = result.fold_ids
    assert all(folds[i] == folds[i + 1] for i in range(0, 400, 2))
    changed, moved = ARCH.copy(), SCORES.copy()
    held = folds == 2
    changed[held] = 1 - changed[held]
    moved[held] = moved[held] ** 3
    other = JudgeCalibrator("two_stage").fit_cv(moved, changed, n_folds=4, prompt_ids=prompts)
    grid = np.linspace(0, 1, 50)
    assert np.array_equal(result.fold_models[2].predict(grid), other.fold_models[2].predict(grid))
    assert not np.array_equal(
        result.fold_models[1].predict(grid), other.fold_models[1].predict(grid)
    )


def test_index_is_the_score_or_the_learned_transformation() -> None:
    monotone = JudgeCalibrator("monotone").fit(SCORES, RISING)
    assert np.array_equal(monotone.index(SCORES), SCORES)
    flexible = JudgeCalibrator("two_stage")
    folds = flexible.fit_cv(SCORES, ARCH).fold_ids
    index = flexible.index(SCORES)
    assert np.corrcoef(index, 4 * SCORES * (1 - SCORES))[0, 1] > 0.98
    assert not np.array_equal(flexible.index(SCORES, folds), index)
    rewards = flexible.predict(SCORES)
    assert (np.diff(rewards[np.argsort(index)]) >= 0).all()


@pytest.mark.parametrize("cls", [JudgeCalibrator, FlexibleCalibrator])
@pytest.mark.parametrize("labels", [RISING, ARCH], ids=["monotone", "two_stage"])
def test_saved_calibrators_predict_the_same_bits_elsewhere_in_any_batch(
    cls: type, labels: np.ndarray, tmp_path: Path
) -> None:
    length = RNG.integers(10, 3000, 400).astype(float)
    calibrator = cls().fit(SCORES, labels, covariates=length[:, None])
    path = tmp_path / "calibrator.json"
    calibrator.save(path)
    new = RNG.random((40_000, 2)) * [1.4, 4000] - [0.2, 0]
    here = calibrator.predict(new)
    script = (
        "import sys, numpy as np; from cje.calibration import *; "
        f"c = {cls.__name__}.load(sys.argv[1]); x = np.load(sys.argv[2]); "
        "np.save(sys.argv[3], np.concatenate([c.predict(p) for p in np.array_split(x, 77)]))"
    )
    np.save(tmp_path / "x.npy", new)
    arguments = [str(path), str(tmp_path / "x.npy"), str(tmp_path / "out.npy")]
    subprocess.run([sys.executable, "-c", script, *arguments], check=True)
    assert np.array_equal(np.load(tmp_path / "out.npy"), here)
    assert "pickle" not in path.read_text()
    again = cls.load(path)
    assert again.selected_mode == calibrator.selected_mode
    assert again.get_params() == calibrator.get_params()
    folds = np.arange(400) % 5
    assert np.array_equal(
        again.predict_oof(SCORES, folds, length[:, None]),
        calibrator.predict_oof(SCORES, folds, length[:, None]),
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "other"}', '{"a": NaN}'])
def test_foreign_files_are_refused(text: str) -> None:
    with pytest.raises(CJEError):
        JudgeCalibrator.from_json(text)
    stored = json.loads(FlexibleCalibrator().fit(SCORES, RISING).to_json())
    with pytest.raises(CJEError, match="FlexibleCalibrator"):
        JudgeCalibrator.from_json(json.dumps(stored))


def test_few_labels_fall_back_to_monotone_and_say_why() -> None:
    for mode in ("auto", "two_stage"):
        result = JudgeCalibrator(mode).fit_transform(SCORES[:19], ARCH[:19])
        assert result.selected_mode == "monotone"
        assert "19 labels" in result.selection.reason
        assert result.oof_rmse is None
    assert JudgeCalibrator().fit_transform([0.5], [1.0]).calibrated_scores.tolist() == [1.0]


def test_a_covariate_removes_a_length_bias() -> None:
    rng = np.random.default_rng(8)
    length = rng.random(2000)
    quality = rng.random(2000)
    score = np.clip(0.6 * quality + 0.4 * length, 0, 1)
    plain = JudgeCalibrator().fit_cv(score, quality)
    helped = JudgeCalibrator().fit_cv(score, quality, covariates=length[:, None])
    assert helped.selected_mode == "two_stage"
    assert helped.oof_rmse < 0.5 * plain.oof_rmse


def test_inclusion_probabilities_undo_a_biased_slice() -> None:
    rng = np.random.default_rng(9)
    score = np.rint(rng.random(20_000) * 4) / 4
    label = (rng.random(20_000) < 0.2 + 0.6 * score).astype(float)
    chance = np.where(label > 0, 0.9, 0.3)  # labelled rows over-represent successes
    seen = rng.random(20_000) < chance
    naive = JudgeCalibrator().fit_transform(score, label, seen)
    weighted = JudgeCalibrator().fit_transform(score, label, seen, inclusion_probability=chance)
    assert abs(weighted.calibrated_scores.mean() - label.mean()) < 0.01
    assert naive.calibrated_scores.mean() - label.mean() > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: JudgeCalibrator().fit(SCORES, RISING * 5), r"must lie in \[0, 1\]"),
        (lambda: JudgeCalibrator().fit(SCORES, np.full(400, np.nan)), "No oracle labels"),
        (lambda: JudgeCalibrator().fit([0.1, np.nan], [0.1, 0.2]), "row 1"),
        (lambda: JudgeCalibrator("spline").fit(SCORES, RISING), "Unknown calibration mode"),
        (lambda: JudgeCalibrator().fit_cv(SCORES, RISING[:3]), "one value per row"),
        (lambda: JudgeCalibrator().fit_cv(SCORES, RISING[:3], np.ones(400, bool)), "oracle_mask"),
        (lambda: JudgeCalibrator().fit_cv(SCORES, RISING, [0, 0]), "distinct rows"),
        (lambda: JudgeCalibrator().fit_cv(SCORES, RISING, n_folds=1), "n_folds"),
        (lambda: JudgeCalibrator().fit_cv(SCORES, RISING, prompt_ids=["a"]), "one id per row"),
        (lambda: JudgeCalibrator().fit_cv(SCORES, RISING, prompt_ids=["a"] * 400), "fewer folds"),
        (lambda: JudgeCalibrator().fit(SCORES, RISING, sample_weight=-SCORES), "negative"),
        (
            lambda: JudgeCalibrator().fit(SCORES, RISING, inclusion_probability=SCORES * 0),
            "inclusion_probability",
        ),
        (lambda: JudgeCalibrator().fit(SCORES, RISING).predict_oof(SCORES, [9] * 400), "0..4"),
        (lambda: JudgeCalibrator().fit(SCORES[:9], RISING[:9]).predict_oof([0.1], [0]), "fit_cv"),
        (lambda: JudgeCalibrator(cv=1).fit(SCORES, RISING), "at least 2"),
    ],
)
def test_invalid_input_is_refused_by_name(call, message: str) -> None:
    with pytest.raises(CJEError, match=message):
        call()


# ---- whole data sets --------------------------------------------------------------------------


def test_dataset_keeps_everything_and_gains_rewards_and_reasons() -> None:
    data = simulate.non_monotone_judge(600, 150, seed=2, labelling="mar").dataset
    calibrated, result = calibrate_dataset(data, enable_cross_fit=True)
    info = calibrated.metadata["calibration_info"]
    assert info["selected_mode"] == result.selected_mode == "two_stage"
    assert "regions" in info["reason"]
    assert json.loads(json.dumps(info)) == json.loads(json.dumps(info))
    assert np.array_equal(calibrated.rewards, result.calibrated_scores)
    assert np.array_equal(calibrated.judge_score, data.judge_score)
    assert data.rewards is None
    plain, _uncrossed = calibrate_dataset(data, calibration_mode="monotone", enable_cross_fit=False)
    assert plain.metadata["calibration_info"]["selected_mode"] == "monotone"


def test_covariates_and_other_fields_of_a_dataset_are_used() -> None:
    n = 300
    data = Dataset.from_arrays(
        prompt_id=[f"p{i}" for i in range(n)],
        policy="a",
        judge_score=SCORES[:n],
        oracle_label=RISING[:n],
        covariates={"other_judge": SCORES[:n] * 10, "kpi": RISING[:n]},
        response=["x" * (i % 50) for i in range(n)],
    )
    _by_default, first = calibrate_dataset(data)
    _other, second = calibrate_dataset(data, judge_field="other_judge", oracle_field="kpi")
    assert np.allclose(first.calibrated_scores, second.calibrated_scores)
    lengths, third = calibrate_dataset(data, use_response_length=True)
    assert lengths.metadata["calibration_info"]["covariates"] == ["response_length"]
    assert third.n_oracle == n
    for bad in ({"judge_field": "nope"}, {"covariate_names": ["nope"]}):
        with pytest.raises(CJEError, match="no column 'nope'"):
            calibrate_dataset(data, **bad)
    with pytest.raises(CJEError, match="needs the responses"):
        calibrate_dataset(data.with_columns(response=None), use_response_length=True)


def test_missing_scores_are_an_error_that_names_the_row() -> None:
    data = Dataset.from_arrays(
        prompt_id=["a", "b"], policy="p", judge_score=[0.1, np.nan], oracle_label=[1.0, 0.0]
    )
    with pytest.raises(CJEError, match=r"1 rows have no judge_score \[row 1\]"):
        calibrate_dataset(data)


def test_raw_records_are_calibrated_without_being_changed() -> None:
    rows = [
        {
            "prompt_id": f"p{i}",
            "judge_score": {"mean": float(s), "variance": 0.01} if i % 2 else float(s),
            "metadata": {"oracle_label": float(y) if i % 3 else None},
        }
        for i, (s, y) in enumerate(zip(SCORES, RISING, strict=True))
    ]
    before = json.dumps(rows)
    out, result = calibrate_from_raw_data(rows, reward_field="value")
    assert json.dumps(rows) == before
    assert [r["value"] for r in out] == result.calibrated_scores.tolist()
    assert result.n_oracle == sum(1 for i in range(400) if i % 3)
    with pytest.raises(CJEError, match="not found in record 1"):
        calibrate_from_raw_data([{"judge_score": 0.1, "oracle_label": 1.0}, {}])
    with pytest.raises(CJEError, match="record 0"):
        calibrate_from_raw_data([{"judge_score": "high"}])
    with pytest.raises(CJEError, match="No records"):
        calibrate_from_raw_data([])


@pytest.mark.parametrize("levels", [None, 6])
def test_row_order_moves_nothing_without_prompt_ids(levels: int | None) -> None:
    rng = np.random.default_rng(5)
    score = rng.random(200)
    label = np.clip(score - 0.6 * (score > 0.7) + 0.2 * rng.standard_normal(200), 0, 1)
    if levels is not None:  # many equal rows: judges and people use few numbers
        score, label = np.rint(score * levels) / levels, np.rint(label)
    label[::3] = np.nan
    straight = JudgeCalibrator().fit_cv(score, label)
    for _ in range(5):
        order = rng.permutation(200)
        shuffled = JudgeCalibrator().fit_cv(score[order], label[order])
        np.testing.assert_array_equal(shuffled.calibrated_scores, straight.calibrated_scores[order])
        assert shuffled.oof_rmse == pytest.approx(straight.oof_rmse, abs=1e-12)
        assert JudgeCalibrator().fit(score[order], label[order]).selected_mode == (
            straight.selected_mode
        )


def test_equal_rows_do_not_share_a_fold() -> None:
    score, label = np.repeat([0.2, 0.8], 500), np.tile([0.0, 1.0], 500)
    folds = JudgeCalibrator().fit_cv(score, label).fold_ids
    for s in (0.2, 0.8):
        for y in (0.0, 1.0):
            held = np.bincount(folds[(score == s) & (label == y)], minlength=5)
            assert held.min() > 25  # 50 expected of 250; all in one fold would leave zeros
