"""`JudgeCalibrator` (AutoCal-R): judge score -> oracle scale from a partly labelled sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.calibration.rewards.result import CalibrationResult, build_result
from cje.calibration.rewards.reward_model import fit_reward_model
from cje.calibration.rewards.score_calibrator import (
    ScoreCalibrator,
    check_labels,
    combine_weights,
    enough_to_cross_fit,
    folds_from_cv,
    is_one_dimensional,
    labelled_rows,
    row_content,
)
from cje.checks import finite_array, float_array, n_rows
from cje.data.codes import Codes
from cje.data.folds import get_folds
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["CalibrationResult", "JudgeCalibrator"]


class JudgeCalibrator(ScoreCalibrator):
    """Map cheap judge scores to the scale of expensive oracle labels.

    Monotone mode is the isotonic regression of the label on the score: r(s) minimises
    sum_i w_i (Y_i - r(S_i))^2 over non-decreasing r. Its fitted values are block means of labels,
    so the (weighted) mean over the labelled slice is preserved exactly. Two-stage mode replaces S
    by a smooth index g(S, X) first (`FlexibleCalibrator`). ``auto`` picks by out-of-fold error.

    Parameters
    ----------
    calibration_mode : {"auto", "monotone", "two_stage"}
    random_seed : int
        Seed of the fold assignment.
    cv : int or iterable of (train, test)
        Folds of `fit` and `fit_transform`; `fit_cv` takes its own `n_folds`.

    Notes
    -----
    Assumes that the labelled rows represent the rest given the score (and covariates), or that
    `inclusion_probability` says how they were chosen.

    References
    ----------
    Ayer et al. (1955); Robertson, Wright and Dykstra (1988); Chernozhukov et al. (2018).

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.linspace(0, 1, 100)
    >>> result = JudgeCalibrator().fit_transform(scores, scores**2)
    >>> result.selected_mode, result.n_oracle
    ('monotone', 100)
    """

    _mode_parameter = "calibration_mode"

    def __init__(
        self,
        calibration_mode: str = "auto",
        random_seed: int = 42,
        cv: int | Iterable[Any] = 5,
    ) -> None:
        self.calibration_mode = calibration_mode
        self.random_seed = random_seed
        self.cv = cv

    def fit_transform(
        self,
        judge_scores: ArrayLike,
        oracle_labels: ArrayLike,
        oracle_mask: ArrayLike | None = None,
        covariates: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inclusion_probability: ArrayLike | None = None,
    ) -> CalibrationResult:
        """Fit on the labelled rows and calibrate every row.

        Parameters
        ----------
        judge_scores : array (n,)
        oracle_labels : array
            One per row (NaN: none), or one for each row of `oracle_mask`.
        oracle_mask : array, optional
            Which rows are labelled: booleans, or row numbers.
        covariates : array (n, p), optional
        sample_weight, inclusion_probability : array (n,), optional
        """
        return self._calibrate(
            judge_scores, oracle_labels, oracle_mask,
            lambda columns: folds_from_cv(self.cv, columns, self.random_seed),
            covariates, sample_weight, inclusion_probability, must_cross=False,
        )  # fmt: skip

    def fit_cv(
        self,
        judge_scores: ArrayLike,
        oracle_labels: ArrayLike,
        oracle_mask: ArrayLike | None = None,
        n_folds: int = 5,
        prompt_ids: Sequence[str] | Codes | None = None,
        covariates: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inclusion_probability: ArrayLike | None = None,
    ) -> CalibrationResult:
        """Fit the all-data model and one model per fold, for doubly robust estimators.

        Folds follow from `prompt_ids` (`cje.data.folds`), so that rows of one prompt never train
        a model that predicts another of them; without ids every row is its own prompt, and its
        fold follows from what it holds. The other parameters are those of `fit_transform`.
        """
        if not isinstance(n_folds, int | np.integer) or n_folds < 2:
            raise CJEError("n_folds must be an integer of at least 2", value=n_folds)
        n = n_rows("judge_scores", judge_scores)
        if prompt_ids is not None and not (hasattr(prompt_ids, "__len__") and len(prompt_ids) == n):
            raise CJEError("prompt_ids must have one id per row", value=prompt_ids)

        def assign(columns: list[FloatArray]) -> tuple[IntArray, int]:
            if prompt_ids is None:
                return folds_from_cv(n_folds, columns, self.random_seed)
            return get_folds(prompt_ids, n_folds, self.random_seed), int(n_folds)

        return self._calibrate(
            judge_scores, oracle_labels, oracle_mask, assign,
            covariates, sample_weight, inclusion_probability, must_cross=True,
        )  # fmt: skip

    def _calibrate(
        self,
        judge_scores: ArrayLike,
        oracle_labels: ArrayLike,
        oracle_mask: ArrayLike | None,
        assign_folds: Callable[[list[FloatArray]], tuple[IntArray, int]],
        covariates: ArrayLike | None,
        sample_weight: ArrayLike | None,
        inclusion_probability: ArrayLike | None,
        *,
        must_cross: bool,
    ) -> CalibrationResult:
        scores, extra = self._read(judge_scores, covariates, fitting=True)
        labels = full_length_labels(oracle_labels, oracle_mask, len(scores))
        check_labels(labels, strict=is_one_dimensional(judge_scores))
        rows = labelled_rows(labels)
        weights = combine_weights(len(scores), sample_weight, inclusion_probability)
        folds, n_folds = assign_folds(row_content(scores, labels, extra, weights))
        w = None if weights is None else weights[rows]
        x = None if extra is None else extra[rows]
        crossed = must_cross or enough_to_cross_fit(len(rows))
        self.model_ = fit_reward_model(
            scores[rows], labels[rows], weights=w, covariates=x, mode=self.calibration_mode,
            folds=folds[rows] if crossed else None, n_folds=n_folds if crossed else None,
        )  # fmt: skip
        return build_result(
            self.model_,
            self.model_.predict(scores, extra),
            rows,
            labels[rows],
            np.ones(len(rows)) if w is None else w,
            self.model_.label_oof,
            folds if crossed else None,
            self,
        )


def full_length_labels(
    oracle_labels: ArrayLike, oracle_mask: ArrayLike | None, n: int
) -> FloatArray:
    """One label per row, NaN where there is none, from any of the accepted forms."""
    if oracle_labels is None:
        raise CJEError(
            "oracle_labels are required", hint="pass one label per row, NaN where missing"
        )
    labels = float_array("oracle_labels", oracle_labels)
    if oracle_mask is None:
        if labels.shape != (n,):
            raise CJEError(
                "oracle_labels must have one value per row",
                value=labels.shape,
                hint="use NaN for unlabelled rows, or pass oracle_mask",
            )
        return labels
    where = _mask_rows(np.asarray(oracle_mask), n)
    if labels.shape == (n,):
        labels = labels[where]
    elif labels.shape != (len(where),):
        raise CJEError(
            "oracle_labels must have one value per row, or one per row of oracle_mask",
            value=labels.shape,
            hint=f"{n} rows, {len(where)} of them in oracle_mask",
        )
    finite_array("oracle_labels", labels)
    full = np.full(n, np.nan)
    full[where] = labels
    return full


def _mask_rows(mask: np.ndarray[Any, Any], n: int) -> IntArray:
    if mask.dtype == bool:
        if mask.shape != (n,):
            raise CJEError("oracle_mask must have one value per row", value=mask.shape)
        return np.flatnonzero(mask)
    if mask.dtype.kind not in "iu" or mask.ndim != 1:
        raise CJEError("oracle_mask must hold booleans or row numbers", value=str(mask.dtype))
    if len(mask) and (mask.min() < 0 or mask.max() >= n or len(np.unique(mask)) != len(mask)):
        raise CJEError(f"oracle_mask must name distinct rows in 0..{n - 1}")
    return mask.astype(np.int64)
