"""The arguments of `UncertaintyAwareDRCPO.fit`, checked and read into data sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import float_array
from cje.data import Dataset
from cje.data.judge_score import JudgeScore, JudgeScores
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray
from cje.uncertainty.calibration import as_judge_scores, check_labels
from cje.uncertainty.config import UncertaintyEstimatorConfig

__all__ = ["Inputs", "check_inputs"]

_LARGEST_LOG = 230.0  # e^230 = 1e100: squares of larger weights overflow; only ratios matter

FreshIds = Mapping[str, Sequence[str]] | Sequence[Sequence[str]]
FreshScores = Mapping[str, JudgeScores] | Sequence[JudgeScores | Sequence[JudgeScore]]


@dataclass(frozen=True)
class Inputs:
    """The data sets of one fit, and the weights as given.

    Attributes
    ----------
    logged : Dataset
        Scores, variances, labels and log-ratios; a row without an id is a separate prompt.
    fresh : Dataset or None
    scores : JudgeScores
    weights : array (n, K)
    """

    logged: Dataset
    fresh: Dataset | None
    scores: JudgeScores
    weights: FloatArray

    @property
    def names(self) -> tuple[str, ...]:
        """The policies."""
        return self.logged.target_policies

    @property
    def unweighted(self) -> tuple[str, ...]:
        """Policies whose weights are all equal: the logging policy itself."""
        spread = np.ptp(self.weights, axis=0) / self.weights.max(axis=0)
        return tuple(n for n, s in zip(self.names, spread, strict=True) if s < 1e-9)

    def __len__(self) -> int:
        return len(self.scores)


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
    """Check shapes and values, and build the data sets."""
    scores = as_judge_scores(judge_scores)
    n = len(scores)
    if n < 2:
        raise CJEError("at least two rows are needed", value=n)
    weights = _weights(importance_weights, n)
    names = _names(policy_names, weights.shape[1])
    labels = _labels(oracle_rewards, n, config.k_folds)
    ids = _row_names(scores, labels, weights) if prompt_ids is None else _ids(prompt_ids, n)
    given = _by_policy("fresh_judge_scores", fresh_judge_scores, names)
    fresh = None if given is None else _fresh(given)
    x = _covariates(covariates, n, fresh)
    logged = Dataset.from_arrays(
        prompt_id=ids,
        policy="logging",
        judge_score=scores.mean,
        judge_variance=scores.variance,
        oracle_label=labels,
        label_propensity=_propensity(label_propensity, labels),
        base_policy_logprob=np.zeros(n),
        target_policy_logprobs=_log_ratios(weights),
        target_policies=names,
        covariates=x,
    )
    if fresh is None:
        return Inputs(logged, None, scores, weights)
    fresh_ids = _by_policy("fresh_prompt_ids", fresh_prompt_ids, names)
    named = [
        _fresh_names(k, len(part), ids, prompt_ids is not None, fresh_ids)
        for k, part in enumerate(fresh)
    ]
    drawn = Dataset.from_arrays(
        prompt_id=[name for part in named for name in part],
        policy=[name for name, part in zip(names, fresh, strict=True) for _ in range(len(part))],
        judge_score=np.concatenate([part.mean for part in fresh]),
        judge_variance=np.concatenate([part.variance for part in fresh]),
        covariates={key: np.tile(column, len(fresh)) for key, column in (x or {}).items()},
    )
    return Inputs(logged, drawn, scores, weights)


def _weights(given: ArrayLike, n: int) -> FloatArray:
    w = float_array("importance_weights", given)
    if w.ndim == 1:
        w = w[:, None]
    if w.ndim != 2 or w.shape[0] != n or w.shape[1] == 0:
        raise CJEError(
            f"importance_weights must be ({n},) or ({n}, policies)", value=np.shape(given),
            hint="one row per logged response, one column per policy",
        )  # fmt: skip
    low, high = w.min(axis=0), w.max(axis=0)  # NaN passes through both
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise CJEError(
            "importance_weights must be finite", value=float(w[~np.isfinite(w)][0]),
            hint="drop rows without log-probs, and clip log-ratios",
        )  # fmt: skip
    if low.min() < 0.0:
        raise CJEError("importance_weights cannot be negative", value=float(low.min()))
    if high.min() <= 0.0:
        raise CJEError(
            "all importance_weights of a policy are zero", where=f"column {int(np.argmin(high))}",
            hint="the target never produces what was logged: use fresh draws from it",
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


def _labels(given: ArrayLike, n: int, k_folds: int) -> FloatArray:
    labels = float_array("oracle_rewards", given)
    if labels.shape != (n,):
        raise CJEError(f"oracle_rewards must be ({n},), NaN where unlabelled", value=labels.shape)
    known = labels[~np.isnan(labels)]
    check_labels(known, k_folds)
    return labels


def _ids(given: Sequence[str], n: int) -> list[str]:
    ids = [str(name) for name in _listed("prompt_ids", given)]
    if len(ids) != n:
        raise CJEError(f"{n} judge scores but {len(ids)} prompt_ids")
    return ids


def _row_names(scores: JudgeScores, labels: FloatArray, weights: FloatArray) -> list[str]:
    """Names of rows without ids, from their content, so that folds do not follow their order."""
    keys = (*weights.T, np.nan_to_num(labels, nan=-1.0), scores.variance, scores.mean)
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.lexsort(keys)] = np.arange(len(scores))
    return [f"row {k}" for k in rank.tolist()]


def _log_ratios(weights: FloatArray) -> FloatArray:
    """Logarithms of the weights; a weight of zero becomes one that is negligible."""
    positive = weights > 0.0
    logs = np.log(np.where(positive, weights, 1.0))
    logs -= np.maximum(logs.max(axis=0) - _LARGEST_LOG, 0.0)
    return np.where(positive, logs, logs.min(axis=0) - 800.0)


def _propensity(given: ArrayLike | None, labels: FloatArray) -> FloatArray | None:
    """Probability of a label, on labelled rows; None if not given."""
    if given is None:
        return None
    n, labelled = len(labels), ~np.isnan(labels)
    chance = float_array("label_propensity", given)
    if chance.shape not in ((), (n,)):
        raise CJEError(f"label_propensity must be one number or ({n},)", value=chance.shape)
    p = np.broadcast_to(chance, (n,))
    if not ((p[labelled] > 0.0) & (p[labelled] <= 1.0)).all():
        raise CJEError(
            "label_propensity must be in (0, 1] on labelled rows", value=float(np.min(p[labelled]))
        )
    return np.where((p > 0.0) & (p <= 1.0), p, np.nan)


def _covariates(
    given: ArrayLike | None, n: int, fresh: tuple[JudgeScores, ...] | None
) -> dict[str, FloatArray] | None:
    if given is None:
        return None
    x = float_array("X", given)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[0] != n or not np.isfinite(x).all():
        raise CJEError(f"X must be a finite ({n}, columns) array", value=x.shape)
    if fresh is not None and any(len(scores) != n for scores in fresh):
        raise CJEError(
            "X with fresh draws needs one fresh draw per logged row, in the same order",
            hint="X describes the prompt; leave it out otherwise",
        )
    return {f"x{i}": column for i, column in enumerate(x.T)}


def _by_policy(
    what: str, given: Mapping[str, Any] | Sequence[Any] | None, names: tuple[str, ...]
) -> list[Any] | None:
    """One entry per policy, in the policies' order, from a mapping or a sequence."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing:
            raise CJEError(f"{what} lacks {missing}", hint="give one set per policy")
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


def _fresh_names(
    k: int, n_fresh: int, ids: list[str], named: bool, fresh_ids: list[Any] | None
) -> list[str]:
    """Prompts of one policy's fresh draws.

    They are matched with the logged rows by id if both have ids. Without ids, a set of n draws
    answers the logged prompts in order. Any other draw is a separate prompt.
    """
    if not named and n_fresh == len(ids):
        return ids
    if not named or fresh_ids is None:
        return [f"fresh {k} {j}" for j in range(n_fresh)]
    found = [str(name) for name in _listed("fresh_prompt_ids", fresh_ids[k])]
    if len(found) != n_fresh:
        raise CJEError(f"{n_fresh} fresh draws but {len(found)} fresh_prompt_ids")
    return found
