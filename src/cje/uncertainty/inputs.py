"""Everything `UncertaintyAwareDRCPO.fit` is given, checked once and in one shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import float_array
from cje.data.folds import get_content_folds, get_folds
from cje.data.judge_score import JudgeScore, JudgeScores
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray
from cje.uncertainty.calibration import as_judge_scores, check_labels
from cje.uncertainty.config import UncertaintyEstimatorConfig

__all__ = ["Inputs", "check_inputs"]

FreshIds = Mapping[str, Sequence[str]] | Sequence[Sequence[str]]
FreshScores = Mapping[str, JudgeScores] | Sequence[JudgeScores | Sequence[JudgeScore]]


@dataclass(frozen=True)
class Inputs:
    """Checked columns.

    Attributes
    ----------
    labelled : array of int
        Rows with a label; `labels`, `label_folds` and `propensity` follow it.
    clusters : array of int
        Prompt of every row, then of every fresh draw of each policy (`fresh_clusters`).
    """

    scores: JudgeScores
    labelled: IntArray
    labels: FloatArray
    propensity: FloatArray
    row_folds: IntArray
    n_folds: int
    weights: FloatArray
    names: tuple[str, ...]
    covariates: FloatArray | None
    fresh: tuple[JudgeScores, ...] | None
    clusters: IntArray | None
    fresh_clusters: tuple[IntArray, ...] | None
    n_clusters: int

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def label_folds(self) -> IntArray:
        return self.row_folds[self.labelled]


def check_inputs(
    config: UncertaintyEstimatorConfig,
    *,
    covariates: ArrayLike | None,
    judge_scores: JudgeScores | Iterable[JudgeScore],
    oracle_rewards: ArrayLike,
    importance_weights: ArrayLike,
    policy_names: Sequence[str] | None,
    label_propensity: ArrayLike | None,
    fresh_judge_scores: FreshScores | None,
    prompt_ids: Sequence[str] | None,
    fresh_prompt_ids: FreshIds | None,
) -> Inputs:
    """Check shapes and values; every error names the argument and what to do."""
    scores = as_judge_scores(judge_scores)
    n = len(scores)
    if n < 2:
        raise CJEError("at least two rows are needed", value=n)
    weights = _weights(importance_weights, n)
    names = _names(policy_names, weights.shape[1])
    labelled, labels = _labels(oracle_rewards, n, config.k_folds)
    if prompt_ids is not None:
        prompt_ids = _listed("prompt_ids", prompt_ids)
        if len(prompt_ids) != n:
            raise CJEError(f"{n} judge scores but {len(prompt_ids)} prompt_ids")
    folds = (
        _content_folds(config, scores, labelled, labels, weights)
        if prompt_ids is None
        else get_folds(prompt_ids, config.k_folds, config.random_state)
    )
    fresh_given = _by_policy("fresh_judge_scores", fresh_judge_scores, names)
    fresh = None if fresh_given is None else _fresh(fresh_given)
    fresh_ids = _by_policy("fresh_prompt_ids", fresh_prompt_ids, names)
    codes, fresh_clusters, n_clusters = _clusters(n, prompt_ids, fresh, fresh_ids)
    return Inputs(
        scores=scores,
        labelled=labelled,
        labels=labels,
        propensity=_propensity(label_propensity, labelled, n),
        row_folds=folds,
        n_folds=config.k_folds,
        weights=weights,
        names=names,
        covariates=_covariates(covariates, n, fresh),
        fresh=fresh,
        clusters=codes,
        fresh_clusters=fresh_clusters,
        n_clusters=n_clusters,
    )


def _weights(given: ArrayLike, n: int) -> FloatArray:
    w = float_array("importance_weights", given)
    if w.ndim == 1:
        w = w[:, None]
    if w.ndim != 2 or w.shape[0] != n or w.shape[1] == 0:
        raise CJEError(
            f"importance_weights must be ({n},) or ({n}, policies)", value=np.shape(given),
            hint="one row a logged response, one column a policy",
        )  # fmt: skip
    low, high = w.min(axis=0), w.max(axis=0)  # NaN, where there is one, passes through both
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise CJEError(
            "importance_weights must be finite", value=float(w[~np.isfinite(w)][0]),
            hint="drop rows whose log-probs could not be had, and clip log-ratios",
        )  # fmt: skip
    if low.min() < 0.0:
        raise CJEError("importance_weights cannot be negative", value=float(low.min()))
    if high.min() <= 0.0:
        raise CJEError(
            "all importance_weights of a policy are zero", where=f"column {int(np.argmin(high))}",
            hint="the target never writes what was logged: use fresh draws from it",
        )  # fmt: skip
    return w


def _names(given: Sequence[str] | None, k: int) -> tuple[str, ...]:
    names = tuple(f"policy_{i}" for i in range(k))
    if given is not None:
        names = tuple(map(str, _listed("policy_names", given)))
    if len(names) != k:
        raise CJEError(f"{len(names)} policy_names for {k} columns of weights", value=names)
    if len(set(names)) != k:
        raise CJEError("policy_names must be distinct", value=names)
    return names


def _labels(given: ArrayLike, n: int, k_folds: int) -> tuple[IntArray, FloatArray]:
    labels = float_array("oracle_rewards", given)
    if labels.shape != (n,):
        raise CJEError(f"oracle_rewards must be ({n},), NaN where unlabelled", value=labels.shape)
    labelled = np.flatnonzero(~np.isnan(labels))
    if len(labelled) < k_folds:
        raise CJEError(
            f"{len(labelled)} labels are fewer than the {k_folds} folds",
            hint="label more rows, or lower k_folds",
        )
    return labelled, check_labels(labels[labelled])


def _content_folds(
    config: UncertaintyEstimatorConfig,
    scores: JudgeScores,
    labelled: IntArray,
    labels: FloatArray,
    weights: FloatArray,
) -> IntArray:
    """Folds of rows without ids, from what they hold; equal rows are counted by their weights."""
    outcome = np.full(len(scores), np.nan)
    outcome[labelled] = labels
    order = np.argsort(weights.sum(axis=1), kind="stable")
    columns = [column[order] for column in (scores.mean, scores.variance, outcome)]
    folds = np.empty(len(scores), dtype=np.int64)
    folds[order] = get_content_folds(columns, config.k_folds, config.random_state)
    return folds


def _propensity(given: ArrayLike | None, labelled: IntArray, n: int) -> FloatArray:
    if given is None:
        return np.full(len(labelled), len(labelled) / n)
    chance = float_array("label_propensity", given)
    if chance.shape not in ((), (n,)):
        raise CJEError(f"label_propensity must be one number or ({n},)", value=chance.shape)
    p = np.broadcast_to(chance, (n,))[labelled]
    if not ((p > 0.0) & (p <= 1.0)).all():
        raise CJEError(
            "label_propensity must be in (0, 1] on labelled rows", value=float(np.min(p))
        )
    return p


def _covariates(
    given: ArrayLike | None, n: int, fresh: tuple[JudgeScores, ...] | None
) -> FloatArray | None:
    if given is None:
        return None
    x = float_array("X", given)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[0] != n or not np.isfinite(x).all():
        raise CJEError(f"X must be a finite ({n}, columns) array", value=x.shape)
    if fresh is not None and any(len(scores) != n for scores in fresh):
        raise CJEError(
            "X with fresh draws needs one fresh draw a logged row, in the same order",
            hint="X describes the prompt; leave it out otherwise",
        )
    centred: FloatArray = x - x.mean(axis=0)
    return centred


def _by_policy(
    what: str, given: Mapping[str, Any] | Sequence[Any] | None, names: tuple[str, ...]
) -> list[Any] | None:
    """One entry a policy, in the policies' order, from a mapping or a sequence."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing:
            raise CJEError(f"{what} lacks {missing}", hint="give one set a policy")
        return [given[name] for name in names]
    sets = [given] if isinstance(given, JudgeScores) else _listed(what, given)
    if len(sets) != len(names):
        raise CJEError(f"{len(sets)} sets of {what} for {len(names)} policies")
    return sets


def _listed(what: str, given: Iterable[Any]) -> list[Any]:
    try:
        return list(given)
    except TypeError as error:
        raise CJEError(f"{what} must be a list", value=given) from error


def _fresh(given: list[Any]) -> tuple[JudgeScores, ...]:
    sets = tuple(as_judge_scores(scores) for scores in given)
    if any(len(scores) < 2 for scores in sets):
        raise CJEError("each policy needs at least two fresh draws")
    return sets


def _clusters(
    n: int,
    prompt_ids: Sequence[str] | None,
    fresh: tuple[JudgeScores, ...] | None,
    fresh_ids: list[Any] | None,
) -> tuple[IntArray | None, tuple[IntArray, ...] | None, int]:
    """Codes of the logged rows' prompts, of each policy's fresh draws, and how many there are.

    Fresh draws meet the logged rows by id where both have one; without any ids a set of n draws
    answers the logged prompts in order; any other draw is a prompt of its own.
    """
    if fresh is None:
        if prompt_ids is None:
            return None, None, n
        codes = np.unique(np.asarray(prompt_ids), return_inverse=True)[1]
        return codes, None, int(codes.max()) + 1
    rows: list[Any] = list(range(n)) if prompt_ids is None else list(prompt_ids)
    named = [_fresh_names(k, s, n, rows, prompt_ids, fresh_ids) for k, s in enumerate(fresh)]
    number: dict[Any, int] = {}
    coded = [
        np.array([number.setdefault(name, len(number)) for name in names], dtype=np.int64)
        for names in (rows, *named)
    ]
    return coded[0], tuple(coded[1:]), len(number)


def _fresh_names(
    k: int,
    scores: JudgeScores,
    n: int,
    rows: list[Any],
    prompt_ids: Sequence[str] | None,
    fresh_ids: list[Any] | None,
) -> Sequence[Any]:
    if prompt_ids is None:
        return rows if len(scores) == n else [(k, j) for j in range(len(scores))]
    if fresh_ids is None:
        return [(k, j) for j in range(len(scores))]
    ids = _listed("fresh_prompt_ids", fresh_ids[k])
    if len(ids) != len(scores):
        raise CJEError(f"{len(scores)} fresh draws but {len(ids)} fresh_prompt_ids")
    return ids
