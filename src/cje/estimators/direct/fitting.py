"""The prediction of the label: fitted with given covariates, or with those that lower its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cje.data.dataset import Dataset
from cje.estimators.direct.auto_covariates import (
    Gain,
    feature_sets,
    gain,
    response_embeddings,
    text_gain,
)
from cje.estimators.direct.label_pool import LabelPool, gather_labels
from cje.estimators.direct.label_predictor import LabelPredictor, fit_label_predictor
from cje.kernels.arrays import FloatArray

__all__ = ["Fitted", "fit_automatically", "fit_with"]


@dataclass(frozen=True)
class Fitted:
    """A prediction of the label, and what it is fitted on.

    Attributes
    ----------
    x : array (n, p), optional
        Covariates of the data set's rows.
    pool : LabelPool
    predictor : LabelPredictor
    offset : array (n,), optional
        What the text of each row adds; `predictor.at_labels` has it.
    tried, used : tuple of Gain
        Of automatic covariates.
    """

    x: FloatArray | None
    pool: LabelPool
    predictor: LabelPredictor
    offset: FloatArray | None = None
    tried: tuple[Gain, ...] = ()
    used: tuple[Gain, ...] = ()


def fit_with(
    parts: Sequence[Dataset],
    tables: Sequence[FloatArray | None],
    n_folds: int,
    seed: int,
    mode: str,
) -> Fitted:
    """Gather the labels of the data sets (the first is valued) and fit, with one table for each."""
    data = parts[0]
    pool = gather_labels(data, tables, parts[1:], n_folds=n_folds, seed=seed)
    predictor = fit_label_predictor(
        pool.scores, pool.labels, pool.folds, n_folds=n_folds, weights=pool.weights,
        covariates=pool.covariates, mode=mode,
        reference=np.sort(data.judge_score) if mode == "monotone" else None,
    )  # fmt: skip
    return Fitted(tables[0], pool, predictor)


def fit_automatically(
    parts: Sequence[Dataset],
    n_folds: int,
    seed: int,
    mode: str,
    *,
    text_model: str | Path | None = None,
) -> Fitted:
    """Fit the features with the lowest out-of-fold error, and the text, where they lower it."""
    plain = best = fit_with(parts, [None] * len(parts), n_folds, seed, mode)
    tried: list[Gain] = []
    used: list[Gain] = []
    for features in feature_sets(parts):
        offered = fit_with(parts, features.tables, n_folds, seed, mode)
        found = gain(features.columns, plain.pool.labels, plain.predictor.at_labels,
                     offered.predictor.at_labels, plain.pool.clusters)  # fmt: skip
        tried.append(found)
        if found.used and found.gain > sum(other.gain for other in used):
            best, used = offered, [found]
    best = replace(best, tried=tuple(tried), used=tuple(used))
    return best if text_model is None else _with_text(best, parts, n_folds, seed, text_model)


def _with_text(
    fitted: Fitted, parts: Sequence[Dataset], n_folds: int, seed: int, folder: str | Path
) -> Fitted:
    tables = response_embeddings(parts, folder)
    at_labels = gather_labels(parts[0], tables, parts[1:], n_folds=n_folds, seed=seed).covariates
    assert at_labels is not None  # tables were given
    predictor = fitted.predictor
    found, offset = text_gain(folder, tables[0], at_labels, fitted.pool, predictor)
    fitted = replace(fitted, tried=(*fitted.tried, found))
    if not found.used:
        return fitted
    return replace(
        fitted,
        predictor=replace(predictor, at_labels=predictor.at_labels + offset.at_labels),
        offset=offset.by_row,
        used=(*fitted.used, found),
    )
