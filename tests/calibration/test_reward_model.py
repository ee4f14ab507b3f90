"""fit_reward_model: refits, row order, selection, and what each part promises."""

import numpy as np
import pytest

from cje import simulate
from cje.calibration import CrossFittedRewardModel, fit_reward_model
from cje.calibration.rewards.selection import select_mode
from cje.data.folds import get_content_folds
from cje.errors import CJEError


def draw(n: int = 300, levels: int | None = None, arch: bool = False, seed: int = 0):
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    if levels:
        s = np.rint(s * levels) / levels
    mean = 4 * s * (1 - s) if arch else s
    return s, np.clip(mean + 0.15 * rng.standard_normal(n), 0, 1), get_content_folds([s], 5)


@pytest.mark.parametrize("mode", ["monotone", "two_stage"])
@pytest.mark.parametrize("levels", [None, 10])
def test_refits_equal_fits_from_scratch(mode: str, levels: int | None) -> None:
    s, y, folds = draw(levels=levels, arch=True)
    model = fit_reward_model(s, y, folds=folds, mode=mode)
    grid = np.linspace(0, 1, 101)
    rng = np.random.default_rng(3)
    counts = rng.multinomial(300, np.full(300, 1 / 300)).astype(float)
    direct = fit_reward_model(s, y, weights=counts, mode=mode)
    assert np.allclose(model.refit(counts).predict(grid), direct.predict(grid), atol=1e-9)
    gone = np.array([3, 7, 200])
    kept = np.setdiff1d(np.arange(300), gone)
    direct = fit_reward_model(s[kept], y[kept], mode=mode)
    assert np.allclose(model.leave_out(gone).predict(grid), direct.predict(grid), atol=1e-9)
    outside = folds != 1
    direct = fit_reward_model(s[outside], y[outside], mode=mode)
    assert np.allclose(model.folds[1].predict(grid), direct.predict(grid), atol=1e-9)


@pytest.mark.parametrize("levels", [None, 10])
@pytest.mark.parametrize("covariate", [False, True])
def test_row_order_changes_no_bit(levels: int | None, covariate: bool) -> None:
    s, y, folds = draw(levels=levels, arch=True)
    x = np.random.default_rng(1).random((300, 1)) if covariate else None
    order = np.random.default_rng(2).permutation(300)
    straight = fit_reward_model(s, y, folds=folds, covariates=x)
    shuffled = fit_reward_model(
        s[order], y[order], folds=folds[order], covariates=None if x is None else x[order]
    )
    assert straight.to_dict() == shuffled.to_dict()


@pytest.mark.parametrize("arch", [False, True])
def test_predictions_agree_with_their_definitions(arch: bool) -> None:
    s, y, folds = draw(arch=arch)
    model = fit_reward_model(s, y, folds=folds)
    assert model.mode == ("two_stage" if arch else "monotone")
    each = model.predict_each_fold(s)
    assert each.shape == (300, 5)
    assert np.array_equal(model.predict_oof(s, folds), each[np.arange(300), folds])
    assert model.predict(s).mean() == pytest.approx(y.mean(), abs=1e-12)
    assert ((each >= 0) & (each <= 1)).all()
    again = CrossFittedRewardModel.from_dict(model.to_dict())
    assert np.array_equal(again.predict(s), model.predict(s))
    with pytest.raises(CJEError, match="loaded from a file"):
        again.refit(np.ones(300))


def test_two_stage_has_at_least_five_knots_and_follows_the_curve() -> None:
    s, y, _ = draw(40, arch=True)
    model = fit_reward_model(s, y, mode="two_stage")
    assert len(model.full.first_stage.score.knots) >= 5
    s, y, _folds = draw(3000, arch=True)
    model = fit_reward_model(s, y, mode="two_stage")
    grid = np.linspace(0.05, 0.95, 50)
    assert np.abs(model.predict(grid) - 4 * grid * (1 - grid)).max() < 0.08


def test_a_fold_without_labels_uses_all_of_them() -> None:
    s, y, _ = draw(60)
    folds = np.arange(60) % 3
    model = fit_reward_model(s, y, folds=folds, n_folds=4)
    assert np.array_equal(model.folds[3].predict(s), model.predict(s))
    with pytest.raises(CJEError, match="fewer folds"):
        fit_reward_model(s, y, folds=np.zeros(60, dtype=int), n_folds=2)
    with pytest.raises(CJEError, match="Fold numbers"):
        fit_reward_model(s, y, folds=folds, n_folds=2)


def test_a_region_counts_only_beyond_one_standard_error() -> None:
    rng = np.random.default_rng(4)
    s, w = np.sort(rng.random(300)), np.ones(300)
    y = np.zeros(300)
    monotone = np.sqrt(rng.random(300))
    barely = np.sqrt(np.maximum(monotone**2 - 0.001 + 0.5 * rng.standard_normal(300) * 0.01, 0))
    chosen = select_mode(s, y, w, monotone, monotone)
    assert chosen.mode == "monotone"
    assert not any(region["better"] for region in chosen.regions)
    noisy = np.sqrt(np.clip(monotone**2 - 0.002 + 0.3 * rng.standard_normal(300), 0, None))
    verdict = select_mode(s, y, w, monotone, noisy)
    for region in verdict.regions:
        assert region["better"] == (region["gain"] > region["se"])
    assert select_mode(s, y, w, monotone, barely).regions[0]["se"] > 0


def test_two_stage_is_not_trained_where_monotone_clearly_suffices() -> None:
    data = simulate.monotone_judge(1000, 200, seed=1).dataset
    rows = data.is_labelled
    folds = get_content_folds([np.arange(200.0)], 5)
    model = fit_reward_model(data.judge_score[rows], data.oracle_label[rows], folds=folds)
    assert model.mode == "monotone"
    assert model.selection.two_stage_trained is False
    assert "not trained" in model.selection.reason


@pytest.mark.parametrize("mode", ["monotone", "two_stage"])
@pytest.mark.parametrize(
    "given", [[0.1, np.nan], [np.inf], ["x"], [1j], [{}], 0.5, None, [[0.1]], "text"]
)
def test_scores_that_are_not_numbers_have_no_reward(mode: str, given: object) -> None:
    s, y, folds = draw()
    model = fit_reward_model(s, y, folds=folds, n_folds=5, mode=mode)
    zeros = np.zeros(np.size(given), dtype=int)
    for call in (
        lambda: model.predict(given),
        lambda: model.index(given),
        lambda: model.predict_each_fold(given),
        lambda: model.predict_oof(given, zeros),
    ):
        with pytest.raises(CJEError, match="scores"):
            call()


def test_folds_and_covariates_must_be_those_of_the_fit() -> None:
    s, y, folds = draw(arch=True)
    x = np.random.default_rng(1).random((len(s), 2))
    model = fit_reward_model(s, y, folds=folds, n_folds=5, mode="two_stage", covariates=x)
    with pytest.raises(CJEError, match="the 5 folds of the fit"):
        model.predict_oof(s, np.full(len(s), 5), x)
    with pytest.raises(CJEError, match="one integer per row"):
        model.predict_oof(s, folds[:3], x)
    for wrong in (None, x[:, :1], x[:5], np.full_like(x, np.nan)):
        with pytest.raises(CJEError, match="covariates"):
            model.predict(s, wrong)


def test_importing_the_array_api_does_not_import_scikit_learn() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from cje.calibration import fit_reward_model, SIMCalibrator, augmentation; "
        "sys.exit('sklearn' in sys.modules or 'polars' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
