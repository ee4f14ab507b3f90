"""The explicit smoother equals the house lowess and keeps what a smoother must keep."""

from __future__ import annotations

import numpy as np
import pytest

from cje.kernels.local_linear import local_linear, pool_cells, smoother_matrix
from cje.kernels.smooth import lowess


def _smooth(x: np.ndarray, y: np.ndarray, w: np.ndarray, frac: float = 0.3) -> np.ndarray:
    prepared = local_linear(x, w, frac=frac)
    cells = prepared.cells
    mean = np.bincount(cells.code, weights=w * y) / np.bincount(cells.code, weights=w)
    return (prepared.interpolate @ (smoother_matrix(prepared, cells.weight) @ mean))[cells.code]


@pytest.mark.parametrize("n", [200, 5000])
def test_curve_equals_lowess(n: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.beta(0.7, 0.7, n)
    y = (rng.random(n) < 0.2 + 0.6 * x**2).astype(float)
    gap = np.abs(_smooth(x, y, np.ones(n)) - lowess(x, y, frac=0.3))
    assert gap.mean() < 2e-3
    assert gap.max() < 2e-2


def test_a_straight_line_is_reproduced_and_rows_sum_to_one() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.random(300), rng.uniform(0.5, 2, 300)
    np.testing.assert_allclose(_smooth(x, 2 - 3 * x, w), 2 - 3 * x, atol=1e-9)
    prepared = local_linear(x, w, frac=0.2)
    rows = smoother_matrix(prepared, prepared.cells.weight)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("values", [[0.5], [0.2, 0.2, 0.2], [0.1, 0.9], [0.0, 1.0, 1.0, 1.0]])
def test_few_distinct_values_give_finite_curves(values: list[float]) -> None:
    x = np.array(values)
    assert np.isfinite(_smooth(x, np.arange(len(x), dtype=float), np.ones(len(x)))).all()


def test_cells_keep_ties_together_weight_and_mean() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 3000, 20_000) / 3000
    w = rng.random(20_000)
    cells = pool_cells(x, w, max_cells=500)
    assert len(cells.x) <= 500
    assert cells.weight.sum() == pytest.approx(w.sum())
    assert cells.weight @ cells.x == pytest.approx(w @ x)
    assert all(len(set(cells.code[x == v])) == 1 for v in np.unique(x)[:50])
