"""Which shape, and how much of the raw weights: the two objectives of stacked SIMCal.

Let W be raw mean-one weights, S the score and h the centred outcome.

``projection`` estimates E[W|S]. The shape (increasing, decreasing, or one turning point between two
monotone pieces) is *chosen* by out-of-fold squared error against W: E[(W - m)^2] is the squared
distance of m from E[W|S] plus a constant. Where the raw weights are a candidate too, the mixture
p W + (1 - p) m minimises an estimate of the mean squared error of the weighted mean,

    p' (Var(h) D + Sigma / n) p,   D_cd = E[(m_c - E[W|S]) (m_d - E[W|S])],

with Sigma the covariance of the influence terms m_c h. Var(h) p'Dp bounds the squared bias
(Cauchy-Schwarz, the mean being kept); D is 0 for the raw weights, and for m it is the out-of-fold
error with E Var(W|S) removed by a U-statistic.

``variance`` minimises p' Sigma p alone. The candidate of the wrong direction is nearly constant,
has the smallest variance, and is wrong whenever E[W|S] varies: it biases the estimate and the
interval does not show it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from cje.calibration.weights.score_cells import ScoreCells, mass_groups
from cje.calibration.weights.target_mean import pav_blocks
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.isotonic import isotonic_predict
from cje.kernels.simplex import simplex_qp

__all__ = ["FoldGrid", "Shape", "baseline_share", "choose_shape", "variance_mixture"]

_GROUPS = 1024  # cells of the cross-fitted comparison; the final fit uses every distinct score
_TURNING_GROUPS = 64
_REFERENCE_GROUPS = 50
_ROWS_PER_REFERENCE = 20
_TIE = 1e-9  # relative; below it rounding, and so the rows' order, would make the choice


@dataclass(frozen=True)
class Shape:
    """Monotone pieces from low to high scores: (first score of the piece, increasing?)."""

    pieces: tuple[tuple[float, bool], ...]
    oof_error: dict[str, float]

    @property
    def turning_point(self) -> float | None:
        """Where the direction changes, if it does."""
        return self.pieces[1][0] if len(self.pieces) > 1 else None

    def fit(
        self, x: FloatArray, means: FloatArray, counts: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        """Block values and block starts over cells in score order; every piece keeps its mean."""
        values, starts = [], []
        for piece, up in _piece_slices(x, self.pieces):
            v, s = pav_blocks(means[piece], counts[piece], increasing=up)
            values.append(v)
            starts.append(s + piece.start)
        return np.concatenate(values), np.concatenate(starts)


@dataclass(frozen=True)
class FoldGrid:
    """Rows in (group of scores, fold) boxes; sums over boxes replace rows."""

    cells: ScoreCells
    folds: IntArray  # (n,)
    n_folds: int
    box: IntArray  # (n,) group * n_folds + fold
    x: FloatArray  # (G,) first score of each group
    n: FloatArray  # (G, F) rows

    @classmethod
    def build(cls, cells: ScoreCells, folds: IntArray, n_folds: int) -> FoldGrid:
        """Put every row in its box."""
        group = cells.groups(_GROUPS)
        box = (group * n_folds)[cells.cell]
        box += folds
        x = cells.x[np.flatnonzero(np.diff(group, prepend=-1))]
        n = np.bincount(box, minlength=len(x) * n_folds).reshape(len(x), n_folds)
        return cls(cells, folds, n_folds, box, x, n.astype(np.float64))

    def sums(self, column: FloatArray) -> FloatArray:
        """(G, F) sums of a column over the rows of each box."""
        sums: FloatArray = np.bincount(self.box, column, minlength=self.n.size).astype(np.float64)
        return sums.reshape(self.n.shape)

    def held_out_curve(
        self, weight_sums: FloatArray, pieces: tuple[tuple[float, bool], ...]
    ) -> FloatArray:
        """(G, F): the projection fitted without fold f, at every group."""
        curve = np.empty_like(weight_sums)
        total_w, total_n = weight_sums.sum(axis=1), self.n.sum(axis=1)
        for f in range(self.n_folds):
            n = total_n - self.n[:, f]
            live = n > 0
            if not live.any():  # one row, or all in one fold: nothing but the mean is known
                curve[:, f] = 1.0
                continue
            x = self.x[live]
            mean = (total_w - weight_sums[:, f])[live] / n[live]
            fitted = np.empty(len(x))
            for piece, up in _piece_slices(x, pieces):
                fitted[piece] = isotonic_regression(
                    mean[piece], weights=n[live][piece], increasing=up
                ).x
            curve[:, f] = fitted if live.all() else isotonic_predict(x, fitted, self.x)
        return curve


def choose_shape(grid: FoldGrid, weights: FloatArray) -> Shape:
    """The shape of E[W|S] with the least out-of-fold squared error against W.

    The turning point is found on all rows and judged out of fold. A single direction must beat it
    by more than one standard error of the paired difference: a wrong direction biases the
    estimate, an unnecessary turning point costs almost nothing.

    Parameters
    ----------
    grid : FoldGrid
    weights : array (n,)
        Mean-one weights.
    """
    n = len(weights)
    w, ww = grid.sums(weights), grid.sums(weights * weights)
    low = float(grid.x[0])
    options = {"increasing": ((low, True),), "decreasing": ((low, False),)}
    curves = {name: grid.held_out_curve(w, pieces) for name, pieces in options.items()}
    errors = {name: _squared_error(grid.n, w, ww, curve) for name, curve in curves.items()}
    rising, falling = errors["increasing"], errors["decreasing"]
    best = "decreasing" if falling < rising * (1.0 - _TIE) else "increasing"
    turned = _best_turn(grid, w.sum(axis=1))
    if turned is None:
        return Shape(options[best], errors)
    curve = grid.held_out_curve(w, turned)
    errors["turning"] = _squared_error(grid.n, w, ww, curve)
    # (W-a)^2 - (W-b)^2 = (a-b)(a+b-2W), squared and summed over rows from box sums
    total, gap = curves[best] + curve, curves[best] - curve
    squares = np.sum(gap**2 * (total**2 * grid.n - 4.0 * total * w + 4.0 * ww)) / n
    gain = errors[best] - errors["turning"]
    se = np.sqrt(max(squares - gain**2, 0.0) / n)
    clearly_worse = gain < -se - _TIE * errors[best]
    return Shape(options[best] if clearly_worse else turned, errors)


def baseline_share(
    grid: FoldGrid,
    weights: FloatArray,
    shape: Shape,
    outcome: FloatArray | None,
    ridge_lambda: float,
) -> float:
    """Share of the raw weights in the stack {raw, projection}: the module's quadratic programme.

    Without an outcome the weights' own variance counts.
    """
    n = len(weights)
    if outcome is None:
        h, scale = np.ones(n), 1.0
    else:
        h = outcome - np.sum(weights * outcome) / weights.sum()
        scale = float(np.var(outcome))
    w = grid.sums(weights)
    curve = grid.held_out_curve(w, shape.pieces)
    explained = _explained_square(grid, weights)
    distance = explained + float(np.sum(grid.n * curve**2 - 2.0 * curve * w)) / n
    hh = grid.sums(h * h)
    second = np.empty((2, 2))
    second[0, 0] = np.sum((weights * h) ** 2) / n
    second[0, 1] = second[1, 0] = np.sum(curve * grid.sums(weights * h * h)) / n
    second[1, 1] = np.sum(curve**2 * hh) / n
    mean = np.array([np.sum(weights * h), np.sum(curve * grid.sums(h))]) / n
    matrix = (second - np.outer(mean, mean)) / n
    # A squared distance is not negative; below zero the U-statistic is noise.
    matrix[1, 1] += scale * max(distance, 0.0)
    return float(simplex_qp(_ridge(matrix, ridge_lambda))[0])


def variance_mixture(
    candidates: FloatArray,
    outcome: FloatArray | None,
    is_residual: bool,
    fold_ids: IntArray,
    n_folds: int,
    ridge_lambda: float,
) -> FloatArray:
    """The published rule: least variance of the influence terms, each centred out of fold.

    Parameters
    ----------
    candidates : array (n, C)
        Mean-one candidate weights.
    """
    if outcome is None:
        influence = candidates - 1.0
    elif is_residual:
        influence = candidates * outcome[:, None]
    else:
        mass = np.stack([np.bincount(fold_ids, c, minlength=n_folds) for c in candidates.T])
        value = np.stack(
            [np.bincount(fold_ids, c * outcome, minlength=n_folds) for c in candidates.T]
        )
        rest = mass.sum(axis=1, keepdims=True) - mass
        estimate = (value.sum(axis=1, keepdims=True) - value) / np.maximum(rest, 1e-300)
        influence = candidates * (outcome[:, None] - estimate.T[fold_ids])
    sigma = np.atleast_2d(np.cov(influence, rowvar=False, bias=True))  # one row: zero
    return simplex_qp(_ridge(sigma, ridge_lambda))


def _piece_slices(
    x: FloatArray, pieces: tuple[tuple[float, bool], ...]
) -> list[tuple[slice, bool]]:
    """The cells of each piece that has any, and whether it rises."""
    edges = [0, *(int(x.searchsorted(start)) for start, _ in pieces[1:]), len(x)]
    return [
        (slice(a, b), up)
        for (_, up), a, b in zip(pieces, edges[:-1], edges[1:], strict=True)
        if b > a
    ]


def _best_turn(grid: FoldGrid, w: FloatArray) -> tuple[tuple[float, bool], ...] | None:
    """Valley or peak with the least squared error on all rows; None for fewer than three groups.

    Block means make the squared error a constant minus sum_b n_b v_b^2, and a PAV pass from either
    end has that sum for every prefix: all turning points cost four passes over coarse groups.
    """
    n = grid.n.sum(axis=1)
    if len(n) < 3:
        return None
    coarse = np.flatnonzero(np.diff(mass_groups(n, _TURNING_GROUPS), prepend=-1))
    size, total = np.add.reduceat(n, coarse), np.add.reduceat(w, coarse)
    backwards = size[::-1].tolist(), total[::-1].tolist()
    forwards = size.tolist(), total.tolist()
    lopsided = np.abs(np.cumsum(size)[:-1] / n.sum() - 0.5)  # ties go to the least of a turn
    best: tuple[tuple[float, bool], ...] | None = None
    most = 0.0  # a sum of squares of positive weights exceeds it
    for first in (True, False):
        left = _prefix_fit(*forwards, increasing=first)
        # Read from its far end, a piece that falls after the turn rises, and the reverse.
        right = _prefix_fit(*backwards, increasing=first)
        joined = np.array(left[:-1]) + np.array(right[:-1])[::-1]
        tied = joined >= joined.max() * (1.0 - _TIE)
        cut = int(np.argmax(np.where(tied, lopsided, -1.0)))
        if joined[cut] > most * (1.0 + _TIE):
            most = float(joined[cut])
            turn = float(grid.x[coarse[cut + 1]])
            best = ((float(grid.x[0]), first), (turn, not first))
    return best


def _prefix_fit(size: list[float], total: list[float], *, increasing: bool) -> list[float]:
    """sum_b n_b v_b^2 of the isotonic fit of every prefix of the cells."""
    sign = 1.0 if increasing else -1.0
    blocks: list[tuple[float, float, float]] = []  # rows, sum, explained up to and including
    explained = []
    for n, t in zip(size, total, strict=True):
        while blocks and sign * blocks[-1][1] * n >= sign * t * blocks[-1][0]:
            n, t = n + blocks[-1][0], t + blocks[-1][1]
            blocks.pop()
        so_far = (blocks[-1][2] if blocks else 0.0) + t * t / n
        blocks.append((n, t, so_far))
        explained.append(so_far)
    return explained


def _squared_error(n: FloatArray, w: FloatArray, ww: FloatArray, curve: FloatArray) -> float:
    """Mean of (W - curve)^2 over rows, from box sums."""
    return float(np.sum(ww - 2.0 * curve * w + n * curve**2) / n.sum())


def _explained_square(grid: FoldGrid, weights: FloatArray) -> float:
    """U-statistic for E[E[W|S]^2]: products of *different* rows that share a range of scores."""
    n = len(weights)
    n_groups = int(min(_REFERENCE_GROUPS, max(1, n // _ROWS_PER_REFERENCE)))
    group = grid.cells.groups(n_groups)
    size = np.bincount(group, grid.cells.counts)
    total = np.bincount(group, grid.cells.sums(weights))
    square = np.bincount(group, grid.cells.sums(weights * weights))
    paired = size > 1
    if not paired.any():
        return 0.0
    products = (total[paired] ** 2 - square[paired]) / (size[paired] - 1)
    return float(np.sum(products) / size[paired].sum())


def _ridge(matrix: FloatArray, ridge_lambda: float) -> FloatArray:
    k = len(matrix)
    return np.asarray(matrix + ridge_lambda * np.trace(matrix) / k * np.eye(k))
