"""SIMCalibrator: shapes, constraints, prediction, many policies, and the unsafe objective."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from cje.calibration import SimcalConfig, SIMCalibrator, projection_influence
from cje.calibration.weights.score_cells import ScoreCells
from cje.calibration.weights.stacking import _prefix_fit
from cje.calibration.weights.target_mean import pav_blocks
from cje.errors import CJEError

SHAPES = {
    "rising": lambda s: np.exp(2 * s),
    "falling": lambda s: np.exp(-2 * s),
    "valley": lambda s: np.exp(8 * (s - 0.5) ** 2),
    "peak": lambda s: np.exp(-8 * (s - 0.5) ** 2),
}


def draw(shape: str, n: int = 4000, seed: int = 0, levels: int | None = None):
    rng = np.random.default_rng(seed)
    score = rng.random(n)
    if levels:
        score = np.rint(score * levels) / levels
    truth = SHAPES[shape](score)
    return truth * rng.lognormal(-0.5, 1.0, n), score, truth / truth.mean()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("levels", [None, 20])
def test_the_projection_recovers_the_conditional_mean(shape: str, levels: int | None) -> None:
    weights, score, truth = draw(shape, levels=levels)
    projected, info = SIMCalibrator(SimcalConfig(include_baseline=False)).transform(weights, score)
    assert projected.mean() == pytest.approx(1.0, abs=1e-10)
    assert np.sqrt(np.mean((projected - truth) ** 2)) < 0.2 * truth.std() + 0.1
    up, down = info["mixture_weights"]
    if shape == "rising":
        assert up > 0.75
    elif shape == "falling":
        assert down > 0.75
    else:
        assert info["turning_point"] == pytest.approx(0.5, abs=0.1)
        assert 0.3 < up < 0.7


def test_variance_objective_warns_and_picks_the_flat_direction() -> None:
    weights, score, truth = draw("rising")
    rewards = score
    config = SimcalConfig(objective="variance", include_baseline=False)
    with pytest.warns(UserWarning, match="biases the estimate"):
        flat, _ = SIMCalibrator(config).transform(weights, score, rewards=rewards)
    safe, _ = SIMCalibrator().transform(weights, score, rewards=rewards)
    target = np.mean(truth * rewards)
    assert abs(np.mean(safe * rewards) - target) < 0.02
    assert abs(np.mean(flat * rewards) - target) > 0.05


@pytest.mark.filterwarnings("ignore:objective")
@pytest.mark.parametrize("objective", ["projection", "variance"])
@pytest.mark.parametrize("baseline", [False, True])
def test_mixture_is_on_the_simplex_and_policies_are_calibrated_apart(
    objective: str, baseline: bool
) -> None:
    columns = [draw(shape, 1500)[0] for shape in SHAPES]
    score = draw("rising", 1500)[1]
    weights = np.stack(columns, axis=1)
    config = SimcalConfig(objective=objective, include_baseline=baseline)
    together, info = SIMCalibrator(config).transform(weights, score, rewards=score)
    assert info["mixture_weights"].shape == (4, 2 + baseline)
    assert np.allclose(info["mixture_weights"].sum(axis=1), 1.0)
    assert (info["mixture_weights"] >= 0).all()
    for k in range(4):
        alone, single = SIMCalibrator(config).transform(weights[:, k], score, rewards=score)
        assert np.array_equal(alone, together[:, k])
        assert single["ess_after"] == info["ess_after"][k]


@pytest.mark.parametrize("baseline", [False, True])
def test_predict_reproduces_the_training_rows_in_any_batch_and_clips_scores(baseline: bool) -> None:
    weights, score, _ = draw("valley", 2000)
    config = SimcalConfig(include_baseline=baseline, var_cap=0.5, baseline_shrink=0.1)
    calibrator = SIMCalibrator(config)
    fitted, _ = calibrator.fit_transform(weights, score)
    again = calibrator.predict(weights, score)
    assert np.allclose(again, fitted, atol=1e-9)
    parts = [calibrator.predict(weights[i : i + 7], score[i : i + 7]) for i in range(0, 70, 7)]
    assert np.array_equal(np.concatenate(parts), again[:70])
    outside = calibrator.predict(weights[:2], np.array([-5.0, 9.0]))
    edges = calibrator.predict(weights[:2], np.array([score.min(), score.max()]))
    assert np.array_equal(outside, edges)


def test_caps_hold_and_the_floor_is_a_share_of_rows() -> None:
    weights, score, _ = draw("rising")
    for config in (SimcalConfig(var_cap=0.05), SimcalConfig(ess_floor=0.95)):
        out, info = SIMCalibrator(config).transform(weights, score)
        assert out.mean() == pytest.approx(1.0, abs=1e-10)
        assert info["feasible"]
        assert info["gamma"] > 0
        assert "blended" in info["note"]
        assert out.var() <= 0.0527
    _none, info = SIMCalibrator().transform(weights, score)
    assert info["gamma"] == 0


def test_full_baseline_shrink_returns_the_raw_weights() -> None:
    weights, score, _ = draw("rising", 300)
    out, _ = SIMCalibrator(SimcalConfig(baseline_shrink=1.0)).transform(weights, score)
    assert np.allclose(out, weights / weights.mean())


def test_row_order_moves_nothing() -> None:
    weights, score, _ = draw("valley", 3000)
    order = np.random.default_rng(1).permutation(3000)
    straight, _ = SIMCalibrator().transform(weights, score, rewards=score)
    shuffled, _ = SIMCalibrator().transform(weights[order], score[order], rewards=score[order])
    assert np.allclose(shuffled, straight[order], atol=1e-12, rtol=0)


@pytest.mark.parametrize("levels", [3, 10])
@pytest.mark.parametrize("few_weights", [False, True])
def test_row_order_moves_nothing_where_scores_are_tied(levels: int, few_weights: bool) -> None:
    rng = np.random.default_rng(levels)
    score = rng.integers(0, levels, 300) / (levels - 1)
    weights = rng.integers(1, 4, (300, 2)) * 1.0 if few_weights else rng.lognormal(size=(300, 2))
    straight, _ = SIMCalibrator().transform(weights, score, rewards=score)
    for _ in range(5):
        order = rng.permutation(300)
        shuffled, _ = SIMCalibrator().transform(weights[order], score[order], rewards=score[order])
        assert np.allclose(shuffled, straight[order], atol=1e-12, rtol=0)


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_the_scale_of_the_weights_does_not_matter(scale: float) -> None:
    rng = np.random.default_rng(0)
    score, weights = rng.random(400), rng.lognormal(size=400)
    plain, info = SIMCalibrator().transform(weights, score)
    scaled, same = SIMCalibrator().transform(weights * scale, score)
    assert np.allclose(scaled, plain, rtol=1e-9)
    assert same["ess_before"] == pytest.approx(info["ess_before"])


def test_single_row_constant_scores_and_zeros_work() -> None:
    assert SIMCalibrator().transform([3.0], [0.5])[0].tolist() == [1.0]
    same, _info = SIMCalibrator(SimcalConfig(include_baseline=False)).transform(
        np.arange(10.0), np.zeros(10)
    )
    assert np.allclose(same, 1.0)
    sparse = np.zeros(50)
    sparse[3] = 5.0
    out, _ = SIMCalibrator().transform(sparse, np.linspace(0, 1, 50))
    assert np.isfinite(out).all()
    assert out.mean() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SIMCalibrator().transform([1.0, np.nan], [0.1, 0.2]), "row 1"),
        (lambda: SIMCalibrator().transform([1.0, -1.0], [0.1, 0.2]), "not negative"),
        (lambda: SIMCalibrator().transform([0.0, 0.0], [0.1, 0.2]), "All weights are zero"),
        (lambda: SIMCalibrator().transform([1.0, 1.0], [0.1]), "Length mismatch"),
        (lambda: SIMCalibrator().transform([1.0, 1.0], [0.1, np.inf]), "scores must be finite"),
        (lambda: SIMCalibrator().transform([1.0, 2.0], [0.1, 0.2], rewards=[1.0]), "one value"),
        (lambda: SIMCalibrator().transform([1.0, 2.0], [0.1, 0.2], rewards=0.5), "one value"),
        (lambda: SIMCalibrator().transform([1.0, 2.0], [0.1, 0.2], rewards=[1e308, 0]), "large"),
        (lambda: SIMCalibrator().transform([1.0, 2.0], [0.1, 0.2], rewards=[np.nan, 0]), "finite"),
        (lambda: SIMCalibrator().transform([5e-324, 0.0], [0.1, 0.2]), "underflows float64"),
        (lambda: SIMCalibrator().fit([1e-300] * 2, [0, 1]).predict([1e30], [0]), "too large"),
        (lambda: projection_influence([5e-324, 0], [1, 1], [0, 1], [0, 1]), "raw"),
        (lambda: projection_influence([1, 1], [5e-324] * 2, [0, 1], [0, 1]), "too small"),
        (lambda: SIMCalibrator().transform([1.0, 2.0], [0.1, 0.2], fold_ids=[1, 1]), "two folds"),
        (lambda: SIMCalibrator().predict([1.0], [0.5]), "fit"),
        (lambda: SimcalConfig(ess_floor=1.5), "ess_floor"),
        (lambda: SimcalConfig(var_cap=-1), "var_cap"),
        (lambda: SimcalConfig(baseline_shrink=2), "baseline_shrink"),
        (lambda: SimcalConfig(n_folds=1), "n_folds"),
        (lambda: SimcalConfig(ridge_lambda=np.nan), "ridge_lambda"),
        (lambda: SimcalConfig(objective="ess"), "projection or variance"),
    ],
)
def test_invalid_input_is_refused_by_name(call, message: str) -> None:
    with pytest.raises(CJEError, match=message):
        call()


def test_prefix_fit_equals_a_fit_of_every_prefix() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 5, 25).astype(float)
    total = rng.random(25) * n
    for increasing in (True, False):
        prefix = _prefix_fit(n.tolist(), total.tolist(), increasing=increasing)
        for k in range(1, 26):
            values, starts = pav_blocks(total[:k] / n[:k], n[:k], increasing=increasing)
            assert prefix[k - 1] == pytest.approx(
                np.sum(np.add.reduceat(n[:k], starts) * values**2)
            )


@pytest.mark.parametrize("levels", [3, 1000, None])
def test_score_cells_sort_as_argsort_does(levels: int | None) -> None:
    rng = np.random.default_rng(2)
    score = rng.normal(size=5000)
    if levels:
        score = np.rint(rng.random(5000) * levels) / levels - 0.3
    cells = ScoreCells.build(score)
    assert np.array_equal(cells.x, np.unique(score))
    assert np.array_equal(cells.x[cells.cell], score)
    assert np.array_equal(cells.counts, np.bincount(cells.cell))
    close = np.array([0.0, 1.0, *np.full(2000, 0.5), np.nextafter(0.5, 1)])
    assert np.array_equal(ScoreCells.build(close).x, np.unique(close))


def test_projection_influence_of_a_function_of_the_score_is_the_raw_one() -> None:
    weights, score, _ = draw("rising", 1000)
    m, _ = SIMCalibrator(SimcalConfig(include_baseline=False)).transform(weights, score)
    psi = projection_influence(weights, m, score, score)
    w = weights / weights.mean()
    theta = np.mean(m * score)
    assert np.allclose(psi, w * (score - theta))


def test_final_fit_is_plain_isotonic_where_the_shape_rises() -> None:
    weights, score, _ = draw("rising", 500)
    out, info = SIMCalibrator(SimcalConfig(include_baseline=False)).transform(weights, score)
    order = np.argsort(score)
    if info["turning_point"] is None:
        expected = isotonic_regression(weights[order] / weights.mean()).x
        assert np.allclose(out[order], expected)
    else:
        cut = int(np.searchsorted(score[order], info["turning_point"]))
        parts = [weights[order][:cut], weights[order][cut:]]
        assert [p.sum() / weights.mean() for p in parts] == pytest.approx(
            [out[order][:cut].sum(), out[order][cut:].sum()]
        )
