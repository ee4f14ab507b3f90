"""What every off-policy estimator starts from: logged rows, weights, labels, fresh draws, clusters.

Everything is an array here, checked once; the estimators below add formulas only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cje.data import Codes, Dataset, PrecomputedSampler
from cje.data.folds import get_folds
from cje.data.scale import Scale
from cje.diagnostics import check_weights_vary
from cje.errors import CJEError
from cje.estimators.rows import check_propensities, covariate_matrix, require_same_judge_scale
from cje.hints import field_hint
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["FreshDraws", "LoggedRows", "prepare_fresh", "prepare_logged"]


@dataclass(frozen=True)
class LoggedRows:
    """Logged responses as arrays.

    Attributes
    ----------
    policies : tuple of str
        K target policies.
    scores, labels : array (n,)
        Judge score and label on [0, 1]; NaN = no label.
    labelled : bool array (n,)
    propensity : array (n,)
        Probability with which each row was labelled.
    raw, weights : array (n, K)
        Importance weights unnormalised, and divided by their mean (Hajek). A prompt with several
        logged rows counts once: its rows share its weight.
    clusters : int array (n,)
        Cluster of each row (its prompt, or what contains it), into `cluster_names`.
    cluster_of : mapping prompt -> cluster
        Empty where prompts are the clusters.
    folds : int array (n,)
        Cross-fitting fold of the row's cluster.
    covariates : array (n, p), optional
    judge_scale : Scale
        Range the scores were on before.
    """

    policies: tuple[str, ...]
    scores: FloatArray
    labels: FloatArray
    labelled: BoolArray
    propensity: FloatArray
    raw: FloatArray
    weights: FloatArray
    clusters: IntArray
    cluster_names: Sequence[str]
    cluster_of: Mapping[str, str]
    folds: IntArray
    n_folds: int
    covariates: FloatArray | None
    judge_scale: Scale

    def __len__(self) -> int:
        return len(self.scores)

    def cluster_influence(self, rows: FloatArray, n_clusters: int) -> FloatArray:
        """Per-row influence (n, K), summed within prompts."""
        return cluster_sums(rows, self.clusters, n_clusters)


@dataclass(frozen=True)
class FreshDraws:
    """Fresh draws of one target policy; `weight` makes every prompt count the same."""

    scores: FloatArray
    clusters: IntArray
    weight: FloatArray  # sums to one
    folds: IntArray
    covariates: FloatArray | None
    draws_per_prompt: float

    def cluster_influence(self, values: FloatArray, n_clusters: int) -> FloatArray:
        """Influence (G,) of the weighted mean of `values`."""
        centred = self.weight * (values - float(self.weight @ values))
        return cluster_sums(centred, self.clusters, n_clusters)


def prepare_logged(
    sampler: PrecomputedSampler,
    *,
    n_folds: int,
    seed: int,
    covariates: Sequence[str] = (),
    same_as_logging: Sequence[str] = (),
    use_mar: bool = False,
    min_pi: float | None = None,
    logprob_noise: float = 0.0,
) -> LoggedRows:
    """Check and collect the logged side of an off-policy problem.

    `min_pi` is the least estimated labelling probability; by default a tenth of the labelled share.
    Noise of sd s in each of two log-probs multiplies the weights by exp(s^2) on average, which
    `logprob_noise` takes out.
    """
    data = sampler.dataset
    # Of the clipped ratios: weights that all sit at the clip are as uninformative as equal ones.
    check_weights_vary(
        sampler.log_ratios(),
        sampler.target_policies,
        same_as_logging,
        unclipped=sampler.log_ratios(clipped=False),
    )
    # Means over rows are then means over prompts; one where every prompt has as many rows.
    rows = np.bincount(data.prompt_id.codes, minlength=data.prompt_id.n_names)
    once = len(data) / (np.count_nonzero(rows) * rows[data.prompt_id.codes])[:, None]
    raw = sampler.weight_matrix(normalised=False) * once * np.exp(-(logprob_noise**2))
    labels = sampler.oracle_labels()
    labelled = np.isfinite(labels)
    scores = sampler.judge_scores()
    return LoggedRows(
        policies=sampler.target_policies,
        scores=scores,
        labels=labels,
        labelled=labelled,
        propensity=_propensity(data, labelled, scores if use_mar else None, min_pi),
        raw=raw,
        weights=raw / raw.mean(axis=0),
        clusters=data.units.codes,
        cluster_names=data.units.names,
        cluster_of=_cluster_of(data),
        folds=get_folds(data.units, n_folds, seed),
        n_folds=n_folds,
        covariates=covariate_matrix(data, covariates),
        judge_scale=data.judge_scale,
    )


def prepare_fresh(
    logged: LoggedRows,
    fresh: Dataset,
    *,
    seed: int,
    covariates: Sequence[str] = (),
) -> tuple[list[FreshDraws], tuple[str, ...]]:
    """Fresh draws of every target, and the names of all clusters (logged ones first)."""
    missing = [
        n for n in logged.policies if n not in fresh.policy.names or not fresh.policy.mask(n).any()
    ]
    if missing:
        raise CJEError(
            f"no fresh draws of {', '.join(missing)}, which doubly robust estimators need",
            hint="add draws of every target policy, or use calibrated-ips, which needs none",
        )
    if np.isnan(fresh.judge_score).any():
        row = int(np.argmax(np.isnan(fresh.judge_score)))
        raise CJEError("a fresh draw has no judge score", where=f"row {row} of the fresh draws")
    require_same_judge_scale(logged.judge_scale, fresh, "the fresh draws", "the logged rows")
    units = _units_like(logged, fresh)
    codes, names = _align(units, logged.cluster_names)
    folds = get_folds(units, logged.n_folds, seed)
    matrix = covariate_matrix(fresh, covariates)
    parts = []
    for name in logged.policies:
        rows = np.flatnonzero(fresh.policy.mask(name))
        prompt = fresh.prompt_id.codes[rows]
        counts = np.bincount(prompt, minlength=fresh.prompt_id.n_names)
        n_prompts = int(np.count_nonzero(counts))
        parts.append(
            FreshDraws(
                scores=fresh.judge_score[rows],
                clusters=codes[rows],
                weight=1.0 / (counts[prompt] * n_prompts),
                folds=folds[rows],
                covariates=None if matrix is None else matrix[rows],
                draws_per_prompt=len(rows) / n_prompts,
            )
        )
    return parts, names


def _cluster_of(data: Dataset) -> Mapping[str, str]:
    """The cluster of each prompt, where clusters are named."""
    if data.cluster is None:
        return {}
    return dict(zip(data.prompt_id.decode(), data.cluster.decode(), strict=True))


def _units_like(logged: LoggedRows, fresh: Dataset) -> Codes:
    """Clusters of the fresh draws; where they name none, those of the logged prompts."""
    if fresh.cluster is not None and not logged.cluster_of:
        raise CJEError(
            "the fresh draws name clusters and the logged rows do not",
            hint="give the logged rows the same column "
            f"({field_hint('cluster', 'your_column')}), or read the fresh draws without it",
        )
    if fresh.cluster is not None or not logged.cluster_of:
        return fresh.units
    return Codes.encode([logged.cluster_of.get(p, p) for p in fresh.prompt_id.decode()])


def _align(prompts: Codes, known: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Codes of `prompts` in a vocabulary that starts with `known`."""
    names = tuple(known)
    if prompts.names == names:
        return prompts.codes, names
    table = {name: code for code, name in enumerate(names)}
    lookup = np.fromiter(
        (table.setdefault(name, len(table)) for name in prompts.names), np.int64, prompts.n_names
    )
    return lookup[prompts.codes], tuple(table)


def _propensity(
    data: Dataset, labelled: BoolArray, scores: FloatArray | None, min_pi: float | None
) -> FloatArray:
    """Labelling probability of each row: as recorded, or estimated (given `scores`: MAR)."""
    from cje.calibration.weights.oracle_slice import labelling_propensity

    known = data.label_propensity
    if known is not None:
        # Recorded probabilities are used as they are: a floor would undo the design where few rows
        # are labelled.
        check_propensities(known[labelled])
        return known
    if not labelled.any():
        return np.ones(len(labelled))
    floor = 0.1 * float(labelled.mean()) if min_pi is None else min_pi
    return labelling_propensity(labelled, scores, min_pi=floor)
