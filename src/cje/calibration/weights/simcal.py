"""Stacked SIMCal: importance weights projected on the judge's score.

If the outcome depends on the response only through the score, E[W Y] = E[E[W|S] Y]: the weights may
be replaced by m(S) = E[W|S], which is never more variable. That is a gain only if m *estimates*
E[W|S]. A projection chosen to be smooth rather than right, such as a nearly constant one, biases
the estimate.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from cje.calibration.weights.score_cells import ScoreCells
from cje.calibration.weights.simcal_config import SimcalConfig
from cje.calibration.weights.simcal_inputs import read_outcome, read_scores, read_weights
from cje.calibration.weights.stacking import (
    FoldGrid,
    Shape,
    baseline_share,
    choose_shape,
    variance_mixture,
)
from cje.calibration.weights.target_mean import pav_blocks
from cje.checks import fold_column
from cje.data.folds import get_content_folds
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.isotonic import isotonic_predict

__all__ = ["SIMCalibrator", "SimcalConfig"]

Knots = tuple[FloatArray, FloatArray]

_NEARLY_CONSTANT = 0.01
_SMALLEST = float(np.finfo(np.float64).tiny)  # of a mean to divide by


@dataclass(frozen=True)
class _PolicyFit:
    """One policy's calibration: everything `predict` needs."""

    scale: float  # mean of the raw weights
    mixture: FloatArray  # over config.candidates
    curve: Knots  # the stacked projection, as a function of the score
    raw_share: float  # of the raw weights in the result
    keep: float  # 1 - share blended towards 1 by the caps
    shape: Shape | None  # None under objective="variance"


class SIMCalibrator:
    """Project importance weights on a score, by a stack of monotone candidates.

    Candidates are {baseline (raw), increasing, decreasing}. By default the direction is chosen by
    out-of-fold squared error against the raw weights, and the raw weights' share, where they take
    part, by distance from E[W|S] and variance together (`cje.calibration.weights.stacking`). Where
    E[W|S] demonstrably turns, as in a U, each side of the turning point has its own direction, and
    `mixture_weights` gives each direction the share of rows on its side.

    Parameters
    ----------
    config : SimcalConfig, optional

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> weights = np.exp(2 * scores + rng.normal(size=2000))
    >>> calibrated, info = SIMCalibrator().transform(weights, scores)
    >>> info["candidates"][info["mixture_weights"].argmax()]
    'increasing'
    >>> bool(info["ess_after"] > info["ess_before"]), round(float(calibrated.mean()), 12)
    (True, 1.0)
    """

    def __init__(self, config: SimcalConfig | None = None) -> None:
        self.config = SimcalConfig() if config is None else config
        if not isinstance(self.config, SimcalConfig):
            raise CJEError("config must be a SimcalConfig", value=type(config).__name__)

    def fit(
        self,
        weights: ArrayLike,
        scores: ArrayLike,
        rewards: ArrayLike | None = None,
        residuals: ArrayLike | None = None,
        fold_ids: ArrayLike | None = None,
    ) -> Self:
        """Learn the projection; `transform` also applies it.

        Parameters
        ----------
        weights : array (n,) or (n, K)
            Non-negative importance weights of one policy, or of K policies side by side.
        scores : array (n,)
            The index to project on.
        rewards, residuals : array (n,) or (n, K), optional
            Outcomes whose influence the stack weighs: rewards (IPS) or residuals (DR).
        fold_ids : array (n,) of int, optional
            Folds of the comparison (`cje.data.folds`), where rows share prompts.
        """
        self._fit(weights, scores, rewards, residuals, fold_ids)
        return self

    def fit_transform(
        self,
        weights: ArrayLike,
        scores: ArrayLike,
        rewards: ArrayLike | None = None,
        residuals: ArrayLike | None = None,
        fold_ids: ArrayLike | None = None,
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Fit and return (calibrated weights, info).

        `info` has ``candidates``, ``mixture_weights``, ``turning_point``, ``oof_error`` of each
        shape, ``ess_before``, ``ess_after`` (in rows), ``var_before``, ``var_after`` (of mean-one
        weights), ``gamma`` (share blended towards 1 by the caps), ``feasible`` and ``note``. For K
        policies the numbers are arrays over policies. Every column has mean one.
        """
        raw, calibrated, single = self._fit(weights, scores, rewards, residuals, fold_ids)
        info = self._info(raw, calibrated, single)
        return calibrated[0] if single else np.stack(calibrated, axis=1), info

    transform = fit_transform

    def predict(self, weights: ArrayLike, scores: ArrayLike) -> FloatArray:
        """Apply what was learned to new rows; scores are clipped to the training range.

        Row by row: raw weights enter (for the baseline) divided by the *training* mean, and the
        result is not renormalised, so that a row's weight does not depend on its batch.
        """
        if not hasattr(self, "fits_"):
            raise CJEError("Must call fit() before predict()")
        raw, single = read_weights(weights)
        x = read_scores(scores, len(raw))
        if raw.shape[1] != len(self.fits_):
            raise CJEError(f"The fit had {len(self.fits_)} policies", value=raw.shape[1])
        low, high = self.score_range_
        x = np.clip(x, low, high)
        columns = [self._apply(fit, raw[:, k], x) for k, fit in enumerate(self.fits_)]
        return columns[0] if single else np.stack(columns, axis=1)

    # ---- fitting ----------------------------------------------------------------------------

    def _fit(
        self,
        weights: ArrayLike,
        scores: ArrayLike,
        rewards: ArrayLike | None,
        residuals: ArrayLike | None,
        fold_ids: ArrayLike | None,
    ) -> tuple[FloatArray, list[FloatArray], bool]:
        if self.config.objective == "variance":
            warnings.warn(
                "objective='variance' prefers nearly constant weights and biases the estimate "
                "wherever E[W|S] varies; use the default, objective='projection'",
                stacklevel=4,
            )
        raw, single = read_weights(weights)
        n, n_policies = raw.shape
        x = read_scores(scores, n)
        outcome = read_outcome(rewards, residuals, raw.shape)
        cells = ScoreCells.build(x)
        grid = FoldGrid.build(cells, *self._folds(fold_ids, cells, [x, *raw.T]))
        self.score_range_ = (float(cells.x[0]), float(cells.x[-1]))
        self.fits_: list[_PolicyFit] = []
        columns = []
        for k in range(n_policies):
            h = None if outcome is None else outcome[:, min(k, outcome.shape[1] - 1)]
            fit, column = self._fit_policy(grid, raw[:, k], h, residuals is not None)
            self.fits_.append(fit)
            columns.append(column)
        return raw, columns, single

    def _fit_policy(
        self, grid: FoldGrid, raw: FloatArray, outcome: FloatArray | None, is_residual: bool
    ) -> tuple[_PolicyFit, FloatArray]:
        config, cells = self.config, grid.cells
        scale = float(raw.mean())
        if not _SMALLEST <= scale < np.inf:
            raise CJEError(
                f"The sum of the weights {'underflows' if scale < 1.0 else 'overflows'} float64",
                value=float(raw.max()),
                hint="subtract the largest log-ratio first: normalised weights stay the same",
            )
        weights = raw / scale
        means = cells.sums(weights) / cells.counts
        shape: Shape | None = None
        if config.objective == "projection":
            shape = choose_shape(grid, weights)
            values, starts = shape.fit(cells.x, means, cells.counts)
            mixture = self._projection_mixture(grid, weights, shape, outcome)
        else:
            ends = [pav_blocks(means, cells.counts, increasing=up) for up in (True, False)]
            mixture = self._variance_mixture(grid, weights, ends, outcome, is_residual)
            values, starts = _mix_directions(mixture, ends)
        base = float(mixture[0]) if config.include_baseline else 0.0
        raw_share = base + (1.0 - base) * config.baseline_shrink
        out = _mix_raw(cells.rows(values, starts), weights, raw_share)
        out /= out.mean()
        keep = _keep_share(_mean_one_variance(out), config.tightest_cap())
        if keep < 1.0:
            out = 1.0 + keep * (out - 1.0)
        fit = _PolicyFit(scale, mixture, _knots(values, starts, cells), raw_share, keep, shape)
        return fit, out

    def _projection_mixture(
        self, grid: FoldGrid, weights: FloatArray, shape: Shape, outcome: FloatArray | None
    ) -> FloatArray:
        base = 0.0
        if self.config.include_baseline:
            base = baseline_share(grid, weights, shape, outcome, self.config.ridge_lambda)
        edges = np.array([start for start, _ in shape.pieces[1:]])
        piece = np.searchsorted(edges, grid.cells.x, side="right")
        rows = np.bincount(piece, grid.cells.counts, minlength=len(shape.pieces))
        up = np.array([increasing for _, increasing in shape.pieces])
        share = float(rows[up].sum() / rows.sum())
        directions = (1.0 - base) * np.array([share, 1.0 - share])
        return np.append(base, directions) if self.config.include_baseline else directions

    def _variance_mixture(
        self,
        grid: FoldGrid,
        weights: FloatArray,
        projections: list[tuple[FloatArray, IntArray]],
        outcome: FloatArray | None,
        is_residual: bool,
    ) -> FloatArray:
        columns = [grid.cells.rows(*p) for p in projections]
        if self.config.include_baseline:
            columns.insert(0, weights)
        return variance_mixture(
            np.column_stack(columns), outcome, is_residual,
            grid.folds, grid.n_folds, self.config.ridge_lambda,
        )  # fmt: skip

    def _apply(self, fit: _PolicyFit, raw: FloatArray, x: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            weights = raw / fit.scale
        if not np.isfinite(weights.max()):
            raise CJEError(
                "weights are too large compared with those of the fit", value=float(raw.max())
            )
        out = _mix_raw(isotonic_predict(*fit.curve, x), weights, fit.raw_share)
        return 1.0 + fit.keep * (out - 1.0)

    def _folds(
        self, fold_ids: ArrayLike | None, cells: ScoreCells, columns: list[FloatArray]
    ) -> tuple[IntArray, int]:
        n = cells.n_rows
        if fold_ids is None:
            n_folds = self.config.n_folds
            if cells.has_ties:
                return get_content_folds(columns, n_folds), n_folds
            return cells.cell % n_folds, n_folds
        folds = fold_column("fold_ids", fold_ids, n)
        if folds.min() < 0:
            raise CJEError("fold_ids must not be negative", value=int(folds.min()))
        if folds.min() == folds.max():
            raise CJEError("fold_ids must name at least two folds", value=int(folds.min()))
        return folds.astype(np.int64), int(folds.max()) + 1

    # ---- report ------------------------------------------------------------------------------

    def _info(self, raw: FloatArray, calibrated: list[FloatArray], single: bool) -> dict[str, Any]:
        n = len(raw)
        before = np.array(
            [_mean_one_variance(raw[:, k] / fit.scale) for k, fit in enumerate(self.fits_)]
        )
        after = np.array([_mean_one_variance(column) for column in calibrated])
        cap = self.config.tightest_cap()
        columns: dict[str, Any] = {
            "mixture_weights": np.stack([fit.mixture for fit in self.fits_]),
            "ess_before": n / (1.0 + before),
            "ess_after": n / (1.0 + after),
            "var_before": before,
            "var_after": after,
            "gamma": np.array([1.0 - fit.keep for fit in self.fits_]),
            "feasible": after <= cap * 1.001 + 1e-12,
            "oof_error": [fit.shape and fit.shape.oof_error for fit in self.fits_],
            "turning_point": [fit.shape and fit.shape.turning_point for fit in self.fits_],
            "note": [_note(b, a, fit) for b, a, fit in zip(before, after, self.fits_, strict=True)],
        }
        if single:
            columns = {name: column[0] for name, column in columns.items()}
        return {
            "n_samples": n,
            "candidates": self.config.candidates,
            "objective": self.config.objective,
            **columns,
        }


def _mix_directions(
    mixture: FloatArray, projections: list[tuple[FloatArray, IntArray]]
) -> tuple[FloatArray, IntArray]:
    """The increasing and decreasing blocks mixed, on the cells where either changes."""
    total = float(mixture[-2:].sum())
    up, down = mixture[-2:] / total if total > 0.0 else (0.5, 0.5)
    starts = np.union1d(projections[0][1], projections[1][1])
    parts = [v[np.searchsorted(s, starts, side="right") - 1] for v, s in projections]
    return up * parts[0] + down * parts[1], starts


def _mix_raw(curve: FloatArray, raw: FloatArray, share: float) -> FloatArray:
    return curve if share == 0.0 else share * raw + (1.0 - share) * curve


def _mean_one_variance(weights: FloatArray) -> float:
    """Variance of weights whose mean is one: E[w^2] - 1, without temporaries."""
    return max(float(np.einsum("i,i", weights, weights)) / len(weights) - 1.0, 0.0)


def _knots(values: FloatArray, starts: IntArray, cells: ScoreCells) -> Knots:
    """A block function of the cells as knots: both ends of every block."""
    ends = np.append(starts[1:], len(cells.x)) - 1
    both = np.column_stack((starts, ends)).ravel()
    kept = np.ones(len(both), dtype=bool)
    kept[1::2] = ends > starts
    return cells.x[both[kept]], np.repeat(values, 2)[kept]


def _keep_share(variance: float, cap: float) -> float:
    return 1.0 if variance <= cap else float(np.sqrt(cap / variance))


def _note(before: float, after: float, fit: _PolicyFit) -> str:
    notes = []
    if fit.keep < 1.0:
        notes.append(f"blended {1.0 - fit.keep:.0%} towards 1 for the ESS floor or variance cap")
    if after < _NEARLY_CONSTANT * before:
        notes.append("nearly constant weights: right only if the score is unrelated to the weights")
    return "; ".join(notes)
