"""Agreement statistics equal those of independent libraries; their influence is the jackknife's."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score, r2_score, recall_score
from statsmodels.stats.inter_rater import cohens_kappa, to_table

from cje.diagnostics import (
    cohen_kappa,
    explained_share,
    krippendorff_alpha,
    rank_correlation,
    sensitivity_specificity,
)
from cje.diagnostics.agreement import rank_influence
from cje.errors import CJEError


def _pair(seed: int, n: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.integers(1, 6, n).astype(float)
    b = np.clip(a + rng.integers(-2, 3, n), 1, 5)
    return a, b, rng.uniform(0.2, 3.0, n)


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_that_of_scikit_learn(weights: str, seed: int) -> None:
    a, b, w = _pair(seed)
    theirs = None if weights == "none" else weights
    for sample in (None, w):
        mine = cohen_kappa(a, b, weights=weights, sample_weight=sample)  # type: ignore[arg-type]
        assert mine == pytest.approx(
            cohen_kappa_score(a, b, weights=theirs, sample_weight=sample), abs=1e-12
        )


@pytest.mark.parametrize(("weights", "theirs"), [("none", None), ("linear", "linear")])
def test_kappa_is_that_of_statsmodels(weights: str, theirs: str | None) -> None:
    a, b, _ = _pair(7)
    table = to_table(np.column_stack([a, b]).astype(int) - 1, bins=5)[0]
    found = cohens_kappa(table, wt=theirs, return_results=False)
    assert cohen_kappa(a, b, weights=weights) == pytest.approx(found, abs=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("metric", ["nominal", "ordinal", "interval"])
@pytest.mark.parametrize("seed", range(5))
def test_alpha_is_that_of_krippendorff(metric: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = np.clip(rng.integers(1, 6, (50, 1)) + rng.integers(-1, 2, (50, 4)), 1, 5).astype(float)
    table[rng.random(table.shape) < 0.4] = np.nan
    found = krippendorff.alpha(table.T, level_of_measurement=metric)
    assert krippendorff_alpha(table, metric=metric) == pytest.approx(found, abs=1e-10)  # type: ignore[arg-type]


def test_rank_correlation_r2_and_shares_are_those_of_scipy_and_scikit_learn() -> None:
    a, b, w = _pair(3)
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b)[0], abs=1e-12)
    for sample in (None, w):
        mine = explained_share(a, b, sample_weight=sample)
        assert mine == pytest.approx(r2_score(a, b, sample_weight=sample), abs=1e-12)
        truth, said = a > 3, b > 2
        both = sensitivity_specificity(truth, said, sample_weight=sample)
        assert both[0] == pytest.approx(recall_score(truth, said, sample_weight=sample))
        assert both[1] == pytest.approx(recall_score(~truth, ~said, sample_weight=sample))


def test_whole_weights_count_a_row_that_often() -> None:
    a, b, _ = _pair(4, 60)
    times = np.random.default_rng(0).integers(1, 4, 60)
    repeated = np.repeat(a, times), np.repeat(b, times)
    assert rank_correlation(a, b, sample_weight=times) == pytest.approx(rank_correlation(*repeated))


def test_the_influence_on_a_rank_correlation_is_what_leaving_a_row_out_does() -> None:
    a, b, _ = _pair(5, 80)
    found = rank_influence(a, b, np.ones(80))
    assert found is not None
    rho, influence = found
    without = [spearmanr(np.delete(a, i), np.delete(b, i))[0] for i in range(80)]
    moved = 79 / 80 * (rho - np.array(without))
    assert abs(influence.sum()) < 1e-12
    assert np.abs(moved - influence).max() < 0.1 * np.abs(influence).max()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: cohen_kappa([1, 1], [1, 1]),
        lambda: cohen_kappa([1, 2], [1]),
        lambda: cohen_kappa([1, 2], [1, 2], weights="cubic"),  # type: ignore[arg-type]
        lambda: krippendorff_alpha([[1, np.nan], [2, np.nan]]),
        lambda: krippendorff_alpha([[1, 1], [1, 1]]),
        lambda: krippendorff_alpha([1, 2]),
        lambda: krippendorff_alpha([["a", "b"]]),
        lambda: rank_correlation([1, 1, 1], [1, 2, 3]),
        lambda: sensitivity_specificity([1, 1], [1, 0]),
        lambda: explained_share([1, 1], [1, 0]),
    ],
)
def test_what_is_not_defined_is_an_error(wrong: object) -> None:
    with pytest.raises(CJEError):
        wrong()  # type: ignore[operator]
