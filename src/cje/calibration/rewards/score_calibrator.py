"""What `JudgeCalibrator` and `FlexibleCalibrator` share: scikit-learn's conventions, JSON files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from cje.calibration.rewards.labels import no_labels
from cje.calibration.rewards.reward_model import CrossFittedRewardModel, fit_reward_model
from cje.calibration.rewards.selection import MIN_LABELS_TWO_STAGE
from cje.checks import finite_array, float_array, fold_column, n_rows
from cje.data.folds import get_content_folds
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["ScoreCalibrator"]

_FORMAT = "cje-score-calibrator"
_VERSION = 1


class ScoreCalibrator(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the two calibrators.

    Two forms of input. For evaluation: a 1-D array of judge scores with labels on [0, 1], and
    covariates as a separate array. For scikit-learn: a 2-D X whose first column is the score and
    whose other columns are covariates, with any finite labels (rewards are still clipped to [0, 1],
    and a warning says so where labels leave that range).
    """

    model_: CrossFittedRewardModel
    n_features_in_: int
    cv: int | Iterable[Any]
    random_seed: int
    _mode_parameter: ClassVar[str]  # the subclass's own name for the mode

    @property
    def selected_mode(self) -> str | None:
        """``"monotone"`` or ``"two_stage"`` after fitting, None before."""
        model: CrossFittedRewardModel | None = getattr(self, "model_", None)
        return None if model is None else model.mode

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = False  # 1-D is accepted too, but with it the checks skip 2-D
        tags.target_tags.required = True
        tags.regressor_tags.poor_score = True  # rewards live on [0, 1]; a regressor's y may not
        return tags

    # ---- fitting --------------------------------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        covariates: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inclusion_probability: ArrayLike | None = None,
        folds: ArrayLike | None = None,
    ) -> Self:
        """Fit on labelled rows.

        Parameters
        ----------
        X : array (n,) of scores, or (n, 1 + p) with covariates in the further columns
        y : array (n,)
            Labels. NaN marks a row without one; it takes no part.
        covariates : array (n, p), optional
        sample_weight, inclusion_probability : array (n,), optional
            Rows count with weight ``sample_weight / inclusion_probability``.
        folds : array (n,) of int, optional
            Fold of every row; hashed from what the row holds by default.
        """
        scores, extra, labels = self._read_training(X, y, covariates)
        weights = combine_weights(len(scores), sample_weight, inclusion_probability)
        columns = row_content(scores, labels, extra, weights)
        fold_ids, n_folds = self._training_folds(folds, columns)
        rows = labelled_rows(labels)
        crossed = enough_to_cross_fit(len(rows)) or folds is not None
        self.model_ = fit_reward_model(
            scores[rows],
            labels[rows],
            folds=fold_ids[rows] if crossed else None,
            n_folds=n_folds if crossed else None,
            weights=None if weights is None else weights[rows],
            covariates=None if extra is None else extra[rows],
            mode=getattr(self, self._mode_parameter),
        )
        return self

    # ---- predictions ----------------------------------------------------------------------

    def predict(self, X: ArrayLike, covariates: ArrayLike | None = None) -> FloatArray:
        """All-data reward of every row."""
        scores, extra = self._read(X, covariates)
        return self.model_.predict(scores, extra)

    def predict_oof(
        self, judge_scores: ArrayLike, fold_ids: ArrayLike, covariates: ArrayLike | None = None
    ) -> FloatArray:
        """Reward of every row under the model that never saw the row's fold."""
        scores, extra = self._read(judge_scores, covariates)
        return self.model_.predict_oof(scores, self._read_folds(fold_ids, len(scores)), extra)

    def index(
        self,
        judge_scores: ArrayLike,
        fold_ids: ArrayLike | None = None,
        covariates: ArrayLike | None = None,
    ) -> FloatArray:
        """The index outcome models should use: S (monotone) or g(S, X) (two-stage).

        With `fold_ids`, the index of the model that never saw the row's fold.
        """
        scores, extra = self._read(judge_scores, covariates)
        folds = None if fold_ids is None else self._read_folds(fold_ids, len(scores))
        return self.model_.index(scores, folds, extra)

    # ---- files ----------------------------------------------------------------------------

    def to_json(self) -> str:
        """The fitted calibrator as JSON text; floats survive exactly, nothing is pickled."""
        check_is_fitted(self, "model_")
        names = getattr(self, "feature_names_in_", None)
        params = self.get_params()
        if not isinstance(params.get("cv"), int):
            params["cv"] = max(self.model_.n_folds, 2)  # given splits belong to the training rows
        return json.dumps(
            {
                "format": _FORMAT,
                "version": _VERSION,
                "class": type(self).__name__,
                "params": params,
                "n_features_in": self.n_features_in_,
                "feature_names_in": None if names is None else list(names),
                "model": self.model_.to_dict(),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`: bit-equal predictions."""
        try:
            data = json.loads(text)
        except (TypeError, ValueError) as error:
            raise CJEError("Not a saved calibrator: the text is not JSON", value=text) from error
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise CJEError("Not a saved calibrator", hint="use a file written by .save()")
        if data.get("version") != _VERSION or data.get("class") != cls.__name__:
            raise CJEError(
                f"This file holds a {data.get('class')}, version {data.get('version')}; "
                f"{cls.__name__}, version {_VERSION}, was asked for"
            )
        try:
            calibrator = cls(**data["params"])
            calibrator.n_features_in_ = data["n_features_in"]
            if data["feature_names_in"] is not None:
                calibrator.feature_names_in_ = np.asarray(data["feature_names_in"], dtype=object)
            calibrator.model_ = CrossFittedRewardModel.from_dict(data["model"])
        except (KeyError, TypeError, ValueError) as error:
            raise CJEError(
                "This saved calibrator is damaged", value=str(error), hint="save it again"
            ) from error
        return calibrator

    def save(self, path: str | Path) -> None:
        """Write the fitted calibrator to a JSON file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a calibrator written by `save`."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    # ---- checks at the boundary -----------------------------------------------------------

    def _read(
        self, X: ArrayLike, covariates: ArrayLike | None, *, fitting: bool = False
    ) -> tuple[FloatArray, FloatArray | None]:
        """Scores and covariates as finite float64, from either form of input."""
        if not fitting:
            check_is_fitted(self, "model_")
        if is_one_dimensional(X):
            X = finite_array("judge_scores", X)[:, None]
            if not fitting and covariates is None and self.n_features_in_ > 1:
                raise CJEError(
                    f"Scores alone given, but the fit used {self.n_features_in_ - 1} covariates",
                    hint="pass covariates=..., or Reshape your data to (score, covariates) columns",
                )
        if covariates is not None:
            extra = float_array("covariates", covariates)
            if n_rows("covariates", extra) != n_rows("judge_scores", X):
                raise CJEError("covariates must have one row per score", value=extra.shape)
            X = np.column_stack([X, extra])
        with _readable_errors():
            matrix: FloatArray = validate_data(self, X, dtype=np.float64, reset=fitting)
        scores = np.ascontiguousarray(matrix[:, 0])
        return scores, matrix[:, 1:] if matrix.shape[1] > 1 else None

    def _read_folds(self, fold_ids: ArrayLike, n: int) -> IntArray:
        folds = np.asarray(fold_ids)
        n_folds = self.model_.n_folds
        if n_folds == 0:
            raise CJEError(
                "This calibrator was fitted without folds", hint="fit it with fit_cv(...)"
            )
        if folds.shape != (n,) or folds.dtype.kind not in "iu":
            raise CJEError("fold_ids must hold one integer per row", value=folds.shape)
        if n and (folds.min() < 0 or folds.max() >= n_folds):
            raise CJEError(
                f"fold_ids must lie in 0..{n_folds - 1}", value=(int(folds.min()), int(folds.max()))
            )
        return folds.astype(np.int64)

    def _training_folds(
        self, folds: ArrayLike | None, columns: list[FloatArray]
    ) -> tuple[IntArray, int]:
        if folds is None:
            return folds_from_cv(self.cv, columns, self.random_seed)
        fold_ids = fold_column("folds", folds, len(columns[0]))
        return fold_ids.astype(np.int64), int(fold_ids.max()) + 1

    def _read_training(
        self, X: ArrayLike, y: ArrayLike, covariates: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray | None, FloatArray]:
        if y is None:
            raise CJEError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        strict = is_one_dimensional(X)
        scores, extra = self._read(X, covariates, fitting=True)
        with _readable_errors():
            labels = float_array("oracle_labels", column_or_1d(y, warn=True))
            check_consistent_length(scores, labels)
        check_labels(labels, strict=strict)
        return scores, extra, labels


class _WrongTypeError(CJEError, TypeError):
    """A CJEError that is also a TypeError, as scikit-learn's checks of estimators require."""


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Raise scikit-learn's own errors as `CJEError`."""
    try:
        yield
    except CJEError:
        raise
    except TypeError as error:
        raise _WrongTypeError(str(error)) from error
    except ValueError as error:
        raise CJEError(str(error)) from error


def is_one_dimensional(X: ArrayLike) -> bool:
    """Whether X is a plain column of scores (False for sparse matrices and data frames)."""
    if isinstance(X, list | tuple):
        with _readable_errors():
            return np.ndim(X) == 1
    return getattr(X, "ndim", 2) == 1


def combine_weights(
    n: int, sample_weight: ArrayLike | None, inclusion_probability: ArrayLike | None
) -> FloatArray | None:
    """sample_weight / inclusion_probability, checked; None where neither is given."""
    if sample_weight is None and inclusion_probability is None:
        return None
    weights = np.ones(n)
    for name, given in (
        ("sample_weight", sample_weight),
        ("inclusion_probability", inclusion_probability),
    ):
        if given is None:
            continue
        values = finite_array(name, given)
        if len(values) != n:
            raise CJEError(
                f"{name} must have one value per row", value=len(values), hint=f"n = {n}"
            )
        if (values < 0).any():
            raise CJEError(f"{name} must not be negative", value=float(values.min()))
        if name == "sample_weight":
            weights = weights * values
        elif (values <= 0).any() or (values > 1).any():
            raise CJEError(
                "inclusion_probability must lie in (0, 1]",
                value=float(values.min()) if (values <= 0).any() else float(values.max()),
            )
        else:
            weights = weights / values
    return weights


def row_content(
    scores: FloatArray,
    labels: FloatArray,
    covariates: FloatArray | None,
    weights: FloatArray | None,
) -> list[FloatArray]:
    """Everything a row holds, column by column; the label is the second."""
    columns = [scores, labels]
    columns += [] if covariates is None else list(covariates.T)
    return columns if weights is None else [*columns, weights]


def folds_from_cv(
    cv: int | Iterable[Any], columns: list[FloatArray], seed: int
) -> tuple[IntArray, int]:
    """Fold of every row: hashed from its content, or read off given (train, test) splits."""
    if isinstance(cv, int | np.integer):
        if cv < 2:
            raise CJEError("cv must be at least 2 folds", value=cv)
        folds = get_content_folds(columns, int(cv), seed, scatter_equal=False)
        trains = ~np.isnan(columns[1])
        folds[trains] = get_content_folds([c[trains] for c in columns], int(cv), seed)
        return folds, int(cv)
    folds = np.full(len(columns[0]), -1, dtype=np.int64)
    n_folds = 0
    try:
        for k, (_, test) in enumerate(cv):
            folds[test] = k
            n_folds = k + 1
    except (TypeError, ValueError, IndexError) as error:
        raise CJEError(
            "cv must be a number of folds, or (train, test) splits of the rows", value=cv
        ) from error
    if (folds < 0).any():
        raise CJEError(
            "The given cv splits leave rows in no test fold",
            value=int((folds < 0).sum()),
            hint="every row must be held out once",
        )
    return folds, n_folds


def enough_to_cross_fit(n_labels: int) -> bool:
    """Whether internal folds make sense; below this monotone is used anyway."""
    return n_labels >= MIN_LABELS_TWO_STAGE


def labelled_rows(labels: FloatArray) -> IntArray:
    """Rows whose label is not NaN; at least one."""
    rows = np.flatnonzero(~np.isnan(labels))
    if len(rows) == 0:
        raise no_labels()
    return rows


def check_labels(labels: FloatArray, *, strict: bool) -> None:
    """Labels are NaN (missing) or finite; outside [0, 1] an error, or a warning if not strict."""
    present = labels[~np.isnan(labels)]
    finite_array("oracle_labels", present)
    outside = (present < 0) | (present > 1)
    if not outside.any():
        return
    if strict:
        raise CJEError(
            "Oracle labels must lie in [0, 1]",
            value=float(present[outside][0]),
            hint="map them first: (label - low) / (high - low)",
        )
    warnings.warn(
        f"{int(outside.sum())} labels lie outside [0, 1]; predictions are clipped to [0, 1]",
        stacklevel=4,
    )
