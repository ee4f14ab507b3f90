"""Several judges of the same responses: all enter the calibration, and each is assessed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cje.calibration.rewards.reward_model import fit_reward_model
from cje.data.dataset import Dataset
from cje.data.folds import get_folds
from cje.data.judges import judge_of
from cje.estimators.direct.label_predictor import fit_label_predictor
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.ranks import ecdf_fit, ecdf_predict

__all__ = ["assess_judges", "judge_covariates"]

_LEAST_LABELS = 20
_FOLDS = 5


def judge_covariates(parts: Sequence[Dataset | None]) -> tuple[str, ...]:
    """The covariates that hold the single judges, but the last; empty where a data set lacks them.

    The score is the judges' mean, so that with all but one of them every weighted mean of the
    judges is within reach of the calibration.
    """
    given = [part for part in parts if part is not None]
    judges = tuple(given[0].metadata.get("judges", ())) if given else ()
    if not all(set(judges) <= set(part.covariates) for part in given):
        return ()
    return judges[:-1]


def assess_judges(data: Dataset, seed: int = 42) -> dict[str, dict[str, Any]]:
    """How well each judge alone, and all together, predict the label.

    Per judge: the labelled rows, the share of the label's variance that its calibrated score
    explains (out of fold, with a fold never splitting a prompt), and the rank correlation with the
    label. Both are None with fewer than 20 labels, or labels that are all the same.
    """
    judges = tuple(data.metadata.get("judges", ()))
    if not judges:
        return {}
    rows = np.flatnonzero(data.is_labelled & np.isfinite(data.judge_score))
    labels = data.oracle_label[rows]
    folds = get_folds(data.prompt_id, _FOLDS, seed)[rows]
    enough = len(rows) >= _LEAST_LABELS and float(np.ptp(labels)) > 0.0
    found: dict[str, dict[str, Any]] = {}
    for name in judges:
        found[judge_of(name)] = {"labels": len(rows)} | (
            _alone(data.covariates[name][rows], labels, folds)
            if enough
            else {"r2": None, "rank_correlation": None}
        )
    together = None
    if enough:
        x = np.column_stack([data.covariates[name][rows] for name in judges[:-1]])
        scores = data.judge_score[rows]
        fitted = fit_label_predictor(scores, labels, folds, n_folds=_FOLDS, covariates=x)
        together = _explained(fitted.at_labels, labels)
    found["all together"] = {"labels": len(rows), "r2": together, "rank_correlation": None}
    return found


def _alone(scores: FloatArray, labels: FloatArray, folds: IntArray) -> dict[str, float | None]:
    model = fit_reward_model(scores, labels, folds=folds, n_folds=_FOLDS)
    return {
        "r2": _explained(model.predict_oof(scores, folds), labels),
        "rank_correlation": _rank_correlation(scores, labels),
    }


def _explained(predicted: FloatArray, labels: FloatArray) -> float:
    return float(1.0 - ((labels - predicted) ** 2).sum() / ((labels - labels.mean()) ** 2).sum())


def _rank_correlation(a: FloatArray, b: FloatArray) -> float | None:
    """Spearman's, with mid-ranks; None where one of the two does not vary."""
    ranks = [ecdf_predict(*ecdf_fit(x), x) for x in (a, b)]
    if any(float(np.ptp(rank)) == 0.0 for rank in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
