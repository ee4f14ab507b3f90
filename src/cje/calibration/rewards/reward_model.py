"""Judge score -> reward on plain arrays: one model, its cross-fitted siblings, cheap refits.

The estimators' entry point is `fit_reward_model`; `JudgeCalibrator` wraps the same objects in
scikit-learn's conventions. Labelled rows are first aggregated to their distinct scores, so that a
refit under new row weights costs O(distinct scores), not O(rows).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cje.calibration.rewards.first_stage import FirstStage, fit_first_stage
from cje.calibration.rewards.labels import LabelTable, Rows
from cje.calibration.rewards.selection import (
    MIN_LABELS_TWO_STAGE,
    ModeSelection,
    monotone_suffices,
    select_mode,
)
from cje.checks import LARGEST, finite_array, float_array, fold_column, n_rows
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.isotonic import isotonic_fit, isotonic_predict

__all__ = ["CrossFittedRewardModel", "RewardModel", "fit_reward_model"]

MODES = ("auto", "monotone", "two_stage")
_CHUNK = 16_384  # rows whose spline columns stay in cache


@dataclass(frozen=True)
class RewardModel:
    """One fitted map from judge score (and covariates) to reward, as plain arrays.

    Monotone: r(s) = iso(s). Two-stage: r(s, x) = iso(g(s, x)), with g a spline and iso the isotonic
    regression of the label on g. Between knots (clipped to [0, 1]) the map is linear, outside them
    constant.
    """

    x_knots: FloatArray
    y_knots: FloatArray
    first_stage: FirstStage | None = None

    @property
    def mode(self) -> str:
        """``"monotone"`` or ``"two_stage"``."""
        return "monotone" if self.first_stage is None else "two_stage"

    def index(self, scores: FloatArray, covariates: FloatArray | None = None) -> FloatArray:
        """The index that the isotonic stage orders rows by: S itself, or T = g(S, X)."""
        scores = _all_finite("scores", scores, 1)
        if self.first_stage is None:
            return scores
        covariates = self._covariates(covariates, len(scores))
        out = np.empty(len(scores))
        for start in range(0, len(scores), _CHUNK):
            rows = slice(start, start + _CHUNK)
            part = None if covariates is None else covariates[rows]
            out[rows] = self.first_stage.index(scores[rows], part)
        return out

    def predict(self, scores: FloatArray, covariates: FloatArray | None = None) -> FloatArray:
        """Reward of every row; the same bits whatever the batch."""
        return isotonic_predict(self.x_knots, self.y_knots, self.index(scores, covariates))

    def _covariates(self, given: FloatArray | None, n: int) -> FloatArray | None:
        """The covariates of n rows, as many as the first stage was fitted on."""
        expected = 0 if self.first_stage is None else len(self.first_stage.covariates)
        if not expected:
            return None
        if given is None:
            raise CJEError(f"the model was fitted with {expected} covariates, and none are given")
        x = _all_finite("covariates", given, 2)
        if x.shape != (n, expected):
            raise CJEError(f"covariates must be ({n}, {expected})", value=x.shape)
        return x

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; floats survive the trip exactly."""
        return {
            "x_knots": self.x_knots.tolist(),
            "y_knots": self.y_knots.tolist(),
            "first_stage": None if self.first_stage is None else self.first_stage.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RewardModel:
        """The inverse of `to_dict`."""
        first = data["first_stage"]
        return cls(
            np.asarray(data["x_knots"], dtype=np.float64),
            np.asarray(data["y_knots"], dtype=np.float64),
            None if first is None else FirstStage.from_dict(first),
        )


@dataclass(frozen=True)
class CrossFittedRewardModel:
    """The all-data model and, for each fold, the model that never saw that fold.

    Parameters
    ----------
    full : RewardModel
        Fitted on every label.
    folds : tuple of RewardModel
        ``folds[k]`` is fitted on the labels outside fold k; empty where no folds were given.
    selection : ModeSelection
        Which mode was chosen and why.
    table : LabelTable, optional
        The aggregated labels, for `refit` and `leave_out`; absent after loading from JSON.
    label_oof : array (n,), optional
        Out-of-fold reward of every labelled row of the fit; absent likewise, or without folds.
    """

    full: RewardModel
    folds: tuple[RewardModel, ...]
    selection: ModeSelection
    table: LabelTable | None = None
    label_oof: FloatArray | None = None

    @property
    def mode(self) -> str:
        """The mode all the models share."""
        return self.full.mode

    @property
    def n_folds(self) -> int:
        """Number of fold models."""
        return len(self.folds)

    def predict(self, scores: FloatArray, covariates: FloatArray | None = None) -> FloatArray:
        """All-data reward of every row."""
        return self.full.predict(scores, covariates)

    def predict_oof(
        self, scores: FloatArray, fold_ids: IntArray, covariates: FloatArray | None = None
    ) -> FloatArray:
        """Reward of every row under the model that did not see the row's fold."""
        return self._out_of_fold(RewardModel.predict, scores, fold_ids, covariates)

    def predict_each_fold(
        self, scores: FloatArray, covariates: FloatArray | None = None
    ) -> FloatArray:
        """Every fold model on every row, shape (n, n_folds): what a fold jackknife averages."""
        scores = _all_finite("scores", scores, 1)
        columns = [model.predict(scores, covariates) for model in self.folds]
        return np.stack(columns, axis=1) if columns else np.empty((len(scores), 0))

    def index(
        self,
        scores: FloatArray,
        fold_ids: IntArray | None = None,
        covariates: FloatArray | None = None,
    ) -> FloatArray:
        """S (monotone) or g(S, X) (two-stage), of the all-data or of each row's fold model."""
        if fold_ids is None:
            return self.full.index(scores, covariates)
        return self._out_of_fold(RewardModel.index, scores, fold_ids, covariates)

    def _out_of_fold(
        self,
        of: Callable[[RewardModel, FloatArray, FloatArray | None], FloatArray],
        scores: FloatArray,
        fold_ids: IntArray,
        covariates: FloatArray | None,
    ) -> FloatArray:
        """`of` the model that did not see the row's fold, for every row."""
        scores = _all_finite("scores", scores, 1)
        fold_ids = self._folds(fold_ids, scores)
        covariates = self.full._covariates(covariates, len(scores))
        out = np.empty(len(scores))
        for k, rows in _rows_by_fold(fold_ids, self.n_folds):
            part = None if covariates is None else covariates[rows]
            out[rows] = of(self.folds[k], scores[rows], part)
        return out

    def _folds(self, given: IntArray, scores: FloatArray) -> IntArray:
        """The fold of each row, checked to be a fold that has a model."""
        folds = fold_column("fold_ids", given, len(scores))
        if folds.size and not (folds.min() >= 0 and folds.max() < self.n_folds):
            raise CJEError(
                f"fold_ids must name the {self.n_folds} folds of the fit",
                value=(int(folds.min()), int(folds.max())),
                hint="without folds in the fit there is no out-of-fold reward",
            )
        return folds

    def refit(self, weights: FloatArray) -> RewardModel:
        """The all-data model under new weights of the labelled rows, the mode kept.

        `weights` multiplies the fit's own weights, in the row order `fit_reward_model` was given:
        bootstrap multiplicities, or 0 for rows left out.
        """
        return _fit_one(_need_table(self).reweighted(weights), self.mode)

    def leave_out(self, rows: IntArray) -> RewardModel:
        """The all-data model without the named labelled rows (one cluster of a jackknife)."""
        return _fit_one(_need_table(self).without(rows), self.mode)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "full": self.full.to_dict(),
            "folds": [model.to_dict() for model in self.folds],
            "selection": self.selection.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CrossFittedRewardModel:
        """The inverse of `to_dict`."""
        return cls(
            RewardModel.from_dict(data["full"]),
            tuple(RewardModel.from_dict(model) for model in data["folds"]),
            ModeSelection.from_dict(data["selection"]),
        )


def fit_reward_model(
    scores: FloatArray,
    labels: FloatArray,
    *,
    folds: IntArray | None = None,
    n_folds: int | None = None,
    weights: FloatArray | None = None,
    covariates: FloatArray | None = None,
    mode: str = "auto",
) -> CrossFittedRewardModel:
    """Fit judge score -> oracle label on the labelled rows, with one model per fold.

    Parameters
    ----------
    scores, labels : array (n,)
        The labelled rows only, finite.
    folds : array (n,) of int, optional
        Fold of each labelled row (`cje.data.folds`); the k-th fold model is fitted without them.
    n_folds : int, optional
        Number of folds; by default ``max(folds) + 1``. A fold without labels gets the all-data fit,
        which contains no label of that fold.
    weights : array (n,), optional
        Sample weights, or 1 / inclusion probability, or their product.
    covariates : array (n, p), optional
        Further predictors of the first stage; only the two-stage mode uses them.
    mode : {"auto", "monotone", "two_stage"}
        ``auto`` compares the modes out of fold (see `cje.calibration.rewards.selection`);
        without folds there is nothing to compare on, and it is monotone.

    Notes
    -----
    Isotonic regression replaces labels by block means, so the weighted mean of the fitted rewards
    over the labelled rows is the weighted mean of the labels, in both modes.

    Examples
    --------
    >>> import numpy as np
    >>> model = fit_reward_model(np.array([.1, .4, .4, .9]), np.array([0., .5, .3, 1.]))
    >>> model.predict(np.array([0., .4, .65])).round(6).tolist()
    [0.0, 0.4, 0.7]
    """
    if not isinstance(mode, str) or mode not in MODES:
        raise CJEError("Unknown calibration mode", value=mode, hint=f"one of {', '.join(MODES)}")
    n = n_rows("scores", scores)
    scores, labels = (
        finite_array("scores", scores, n=n, largest=LARGEST),
        finite_array("labels", labels, n=n, largest=LARGEST),
    )
    table = LabelTable.build(scores, labels, weights, folds, n_folds, covariates)
    if mode != "monotone" and table.n_labels < MIN_LABELS_TWO_STAGE:
        return _assemble(table, "monotone", ModeSelection.too_few(table.n_labels))
    if mode != "auto":
        return _assemble(table, mode, ModeSelection.forced(mode))
    if table.n_folds < 2:
        return _assemble(table, "monotone", ModeSelection.no_folds())
    return _fit_auto(table)


def _fit_auto(table: LabelTable) -> CrossFittedRewardModel:
    full = _fit_one(table, "monotone")
    folds = _fit_folds(table, "monotone", full)
    rows = table.rows()
    monotone = _oof(folds, table)
    if table.covariates is None:
        verdict = monotone_suffices(
            rows.scores, rows.labels, rows.weights, full.predict(rows.scores), monotone
        )
        if verdict is not None:
            return _bundle(full, folds, verdict, table, monotone)
    flexible = _fit_folds(table, "two_stage", None)
    two_stage = _oof(flexible, table)
    selection = select_mode(rows.scores, rows.labels, rows.weights, monotone, two_stage)
    if selection.mode == "monotone":
        return _bundle(full, folds, selection, table, monotone)
    return _bundle(_fit_one(table, "two_stage"), flexible, selection, table, two_stage)


def _assemble(table: LabelTable, mode: str, selection: ModeSelection) -> CrossFittedRewardModel:
    full = _fit_one(table, mode)
    folds = _fit_folds(table, mode, full)
    return _bundle(full, folds, selection, table, _oof(folds, table) if folds else None)


def _bundle(
    full: RewardModel,
    folds: tuple[RewardModel, ...],
    selection: ModeSelection,
    table: LabelTable,
    oof: FloatArray | None,
) -> CrossFittedRewardModel:
    """`oof` is in the table's order; return it in the caller's row order."""
    mine = None
    if oof is not None:
        mine = np.empty(len(oof))
        mine[table.order] = oof
    return CrossFittedRewardModel(full, folds, selection, table, mine)


def _fit_one(table: LabelTable, mode: str) -> RewardModel:
    cells = table.cells()
    if mode == "monotone":
        return _clipped(cells.scores, cells, None)
    stage = fit_first_stage(
        cells.scores, cells.labels, cells.weights, cells.covariates, table.n_labels
    )
    return _clipped(stage.index(cells.scores, cells.covariates), cells, stage)


def _clipped(index: FloatArray, cells: Rows, stage: FirstStage | None) -> RewardModel:
    """Isotonic fit on the index; knots in [0, 1] keep everything between them there."""
    x_knots, y_knots = isotonic_fit(index, cells.labels, cells.weights)
    return RewardModel(x_knots, np.clip(y_knots, 0.0, 1.0), stage)


def _fit_folds(table: LabelTable, mode: str, full: RewardModel | None) -> tuple[RewardModel, ...]:
    """One model per fold; `full` stands in for folds that hold no label."""
    models = []
    for k in range(table.n_folds):
        if table.fold_is_empty(k):
            full = full or _fit_one(table, mode)
            models.append(full)
        else:
            models.append(_fit_one(table.without_fold(k), mode))
    return tuple(models)


def _oof(models: tuple[RewardModel, ...], table: LabelTable) -> FloatArray:
    """Out-of-fold reward of the table's rows, in the table's own row order."""
    rows = table.rows()
    out = np.empty(len(rows.scores))
    assert table.folds is not None
    for k, at in _rows_by_fold(table.folds, table.n_folds):
        part = None if rows.covariates is None else rows.covariates[at]
        out[at] = models[k].predict(rows.scores[at], part)
    return out


def _all_finite(name: str, values: FloatArray, ndim: int) -> FloatArray:
    """Check for finite numbers; the sum detects any other, and rows are inspected only then."""
    array = float_array(name, values)
    if array.ndim != ndim:
        raise CJEError(f"{name} must have {ndim} dimension(s)", value=array.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        whole = np.isfinite(array.sum())
    if not whole:
        bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            raise CJEError(f"{name} is not finite", where=f"row {row}", value=array[row].tolist())
    return array


def _rows_by_fold(fold_ids: IntArray, n_folds: int) -> list[tuple[int, IntArray]]:
    return [(k, np.flatnonzero(fold_ids == k)) for k in range(n_folds)]


def _need_table(model: CrossFittedRewardModel) -> LabelTable:
    if model.table is None:
        raise CJEError(
            "This reward model was loaded from a file and holds no labels to refit on",
            hint="call fit_reward_model on the labels again",
        )
    return model.table
