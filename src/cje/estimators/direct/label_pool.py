"""The labels a calibration learns from: the data set's own, then those of other data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.data.folds import get_folds
from cje.errors import CJEError
from cje.estimators.rows import check_propensities, require_same_judge_scale, require_scores
from cje.hints import option_hint
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["MIN_CLUSTERS", "LabelPool", "gather_labels", "inverse_propensity"]


_MIN_LABELS = 10  # in all, to fit a calibration
# Labelled clusters in all. With four, a variance has three degrees of freedom, its t quantile is
# 3.2 and the interval covers 91% (binary: less); halved, coverage falls to .75; doubled, studies of
# eight prompts would be refused whose intervals cover.
MIN_CLUSTERS = 5


@dataclass(frozen=True)
class LabelPool:
    """Every label the calibration learnt from; the data set's own come first, in row order.

    Attributes
    ----------
    scores, labels, folds : array (m,)
    weights : array (m,), optional
        1 / propensity.
    covariates : array (m, p), optional
    clusters : array (m,)
        Cluster of each label (its prompt, or what contains it): the data set's clusters by their
        code, then those it does not have.
    names : Codes
        The same with their names.
    n_own : int
        Labels of the data set itself.
    n_copies : int
        Labels of the other data sets left out as copies.
    """

    scores: FloatArray
    labels: FloatArray
    folds: IntArray
    weights: FloatArray | None
    covariates: FloatArray | None
    clusters: IntArray
    names: Codes
    n_own: int
    n_copies: int


@dataclass(frozen=True)
class _Part:
    """The labelled rows of one data set that count."""

    data: Dataset
    rows: IntArray
    prompts: IntArray  # over the prompts of all parts
    units: Codes  # of the rows, over the clusters of all parts


def gather_labels(
    data: Dataset,
    tables: Sequence[FloatArray | None],
    others: Sequence[Dataset],
    *,
    n_folds: int,
    seed: int,
) -> LabelPool:
    """The labels of `data` and of `others`, each counted once, in folds of prompts.

    `tables` holds the covariates of the rows of each data set, or None each.
    """
    for other in others:
        require_scores(other, "calibration data")
        require_same_judge_scale(data.judge_scale, other, "the calibration data", "the fresh draws")
    parts, n_copies = _distinct_parts([data, *others])
    units = _all_units(parts)
    labels = np.concatenate([part.data.oracle_label[part.rows] for part in parts])
    own_units = units.compact()
    _check_enough(data, len(labels), own_units.n_names)
    return LabelPool(
        scores=np.concatenate([part.data.judge_score[part.rows] for part in parts]),
        labels=labels,
        folds=_label_folds(own_units, n_folds, seed),
        weights=_weights(parts),
        covariates=_covariates(parts, tables),
        clusters=units.codes,
        names=units,
        n_own=len(parts[0].rows),
        n_copies=n_copies,
    )


def _check_enough(data: Dataset, n_labels: int, n_units: int) -> None:
    """Raise where labels are too few for a calibration, or their clusters for a variance."""
    if n_labels < _MIN_LABELS:
        raise CJEError(
            f"direct needs at least {_MIN_LABELS} oracle labels in all",
            value=n_labels,
            hint="label more rows at random "
            f"({option_hint('estimator', 'naive')} runs without labels)",
        )
    unit = "prompts" if data.cluster is None else "clusters"
    if n_units < MIN_CLUSTERS:
        raise CJEError(
            f"the {n_labels} labels are on {n_units} {unit}; direct needs labels on at least "
            f"{MIN_CLUSTERS} {unit}, because labels of one {unit[:-1]} are not independent",
            value=n_units,
            hint=f"label responses to more {unit}, fewer of each",
        )


def _covariates(parts: Sequence[_Part], tables: Sequence[FloatArray | None]) -> FloatArray | None:
    known = [
        table[part.rows] for table, part in zip(tables, parts, strict=True) if table is not None
    ]
    return np.concatenate(known) if known else None


def inverse_propensity(data: Dataset, rows: IntArray) -> FloatArray:
    """1 / propensity of the labelled `rows`; one where the data set has none."""
    if data.label_propensity is None:
        return np.ones(len(rows))
    pi = data.label_propensity[rows]
    check_propensities(pi)
    return np.asarray(1.0 / pi)


def _weights(parts: Sequence[_Part]) -> FloatArray | None:
    """1 / propensity of every label, or None where no data set gives any."""
    if all(part.data.label_propensity is None for part in parts):
        return None
    return np.concatenate([inverse_propensity(part.data, part.rows) for part in parts])


def _label_folds(prompts: Codes, n_folds: int, seed: int) -> IntArray:
    """Folds of the labelled prompts; another seed where all would fall into one."""
    for start in range(seed, seed + 64):
        folds = get_folds(prompts, n_folds, start)
        if folds.min() < folds.max():
            return folds
    raise CJEError("all labels fall into one fold", value=n_folds, hint="use more folds")


# ---- the same label twice -----------------------------------------------------------------------


def _distinct_parts(sets: Sequence[Dataset]) -> tuple[list[_Part], int]:
    """The labelled rows of each data set, without copies, and how many copies there were."""
    rows = [np.flatnonzero(data.is_labelled) for data in sets]
    first = sets[0].prompt_id.compact().take(rows[0])
    units = sets[0].units.compact().take(rows[0])
    if len(sets) == 1:
        return [_Part(sets[0], rows[0], first.codes, units)], 0
    rest = [d.prompt_id.take(r).compact() for d, r in zip(sets[1:], rows[1:], strict=True)]
    prompts = first.concat(*rest)
    whole = units.concat(*(_units_like(sets[0], d, r) for d, r in zip(sets[1:], rows[1:],
                                                                      strict=True)))  # fmt: skip
    ends = np.cumsum([len(r) for r in rows])[:-1]
    parts: list[_Part] = []
    for data, own, codes, at in zip(
        sets, rows, np.split(prompts.codes, ends), np.split(whole.codes, ends), strict=True
    ):
        part = _Part(data, own, codes, Codes(at, whole.vocabulary))
        new = np.flatnonzero(~_copies(part, parts))
        parts.append(_Part(data, own[new], codes[new], part.units.take(new)))
    return parts, sum(map(len, rows)) - sum(len(part.rows) for part in parts)


def _all_units(parts: Sequence[_Part]) -> Codes:
    """Cluster of each label of all parts, over their common vocabulary."""
    if len(parts) == 1:
        return parts[0].units
    codes = np.concatenate([part.units.codes for part in parts])
    return Codes(codes, parts[0].units.vocabulary)


def _units_like(data: Dataset, other: Dataset, rows: IntArray) -> Codes:
    """Clusters of rows of `other`; where it names none, those `data` has its prompts in."""
    if data.cluster is None or other.cluster is not None:
        return other.units.take(rows).compact()
    known = dict(zip(data.prompt_id.decode(), data.cluster.decode(), strict=True))
    return Codes.encode([known.get(p, p) for p in other.prompt_id.take(rows).decode()])


def _copies(part: _Part, earlier: Sequence[_Part]) -> BoolArray:
    """Which labels of `part` an earlier part already holds, whatever the policy's name.

    Logged rows are often the fresh draws of the policy that wrote them: the same responses, scores
    and labels. Counted twice, they would make the calibration look more certain than it is. On a
    coarse scale one agreement may be chance, so a policy's rows are copies of another's only where
    score and label agree on every response (prompt and draw) that both have labelled.
    """
    copy = np.zeros(len(part.rows), dtype=bool)
    for mine in _by_policy(part):
        for other in earlier:
            for theirs in _by_policy(other):
                shared, at = _shared_responses(part, mine, other, theirs)
                if len(shared) and _same_labels(part, shared, other, at):
                    copy[shared] = True
    return copy


def _by_policy(part: _Part) -> list[IntArray]:
    """Positions in the part's labelled rows of each policy that has any."""
    policy = part.data.policy.codes[part.rows]
    return [np.flatnonzero(policy == code) for code in np.unique(policy)]


def _shared_responses(
    part: _Part, mine: IntArray, other: _Part, theirs: IntArray
) -> tuple[IntArray, IntArray]:
    """Positions in both parts of the (prompt, draw) pairs that two policies have labelled."""
    draws = part.data.draw_idx[part.rows[mine]], other.data.draw_idx[other.rows[theirs]]
    width = 1 + max(int(draw.max(initial=0)) for draw in draws)
    _, left, right = np.intersect1d(
        part.prompts[mine] * width + draws[0],
        other.prompts[theirs] * width + draws[1],
        return_indices=True,
    )
    return mine[left], theirs[right]


def _same_labels(part: _Part, at: IntArray, other: _Part, other_at: IntArray) -> bool:
    """Scores and labels agree; the tolerance is for scales mapped to [0, 1] separately."""
    mine, theirs = part.rows[at], other.rows[other_at]
    return np.allclose(
        part.data.judge_score[mine], other.data.judge_score[theirs], rtol=0.0, atol=1e-9
    ) and np.allclose(
        part.data.oracle_label[mine], other.data.oracle_label[theirs], rtol=0.0, atol=1e-9
    )
