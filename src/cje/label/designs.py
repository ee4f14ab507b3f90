"""Which rows to label: random, stratified or paired, each row with its exact probability.

All rows of a design are drawn at once, in random order. Labelling may stop anywhere in that order:
the rows labelled by then are a random part of the drawn rows, and all probabilities shrink alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["ALLOCATIONS", "DESIGNS", "DrawnRows", "draw_rows"]

DESIGNS = ("random", "stratified", "paired", "active")
ALLOCATIONS = ("proportional", "neyman")
_SCORE_BINS = 5
_FEWEST_PER_STRATUM = 2
_PILOT_LABELS = 5  # of a stratum, for a standard deviation of its own


@dataclass(frozen=True)
class DrawnRows:
    """The rows to label, in the order to label them.

    Attributes
    ----------
    rows : int array (m,)
        Rows of the data set.
    propensity : array (m,)
        Probability with which each of them was drawn.
    unit : int array (m,)
        Rows of one unit (a prompt of a paired design) are labelled together.
    notes : tuple of str
        Remarks about the design for its user.
    """

    rows: IntArray
    propensity: FloatArray
    unit: IntArray
    notes: tuple[str, ...] = ()


def draw_rows(
    data: Dataset,
    kind: str,
    count: int,
    *,
    seed: int,
    policies: Sequence[str] = (),
    by: Sequence[str] = ("judge_score",),
    allocation: str = "proportional",
) -> DrawnRows:
    """Draw about `count` rows for labelling.

    Parameters
    ----------
    data : Dataset
    kind : {"random", "stratified", "paired"}
        ``"random"``: each row alike. ``"stratified"``: within strata of `by`. ``"paired"``: random
        prompts, all of `policies` on each, the best design for a difference.
    count : int
        Labels in all.
    seed : int
    policies : sequence of str
        The policies to label; all by default.
    by : sequence of str
        Strata: ``"judge_score"`` (five bins of equal count), ``"policy"``, or a subgroup column.
    allocation : {"proportional", "neyman"}
        ``"neyman"``: in proportion to rows times the standard deviation of the labels a stratum
        already has.

    Raises
    ------
    CJEError
        An unknown design, policy or column; more labels than rows; Neyman without labels.

    Examples
    --------
    >>> from cje import simulate
    >>> data = simulate.policies_on_shared_prompts(200, 2, 20, seed=1).dataset
    >>> drawn = draw_rows(data, "paired", 60, seed=7)
    >>> len(drawn.rows), float(drawn.propensity[0])
    (60, 0.15)
    """
    chosen = tuple(policies) or data.policies
    frame = np.flatnonzero(np.any([data.policy.mask(name) for name in chosen], axis=0))
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= len(frame):
        raise CJEError(
            f"the number of labels must be between 1 and the {len(frame):,} rows", value=count
        )
    rng = np.random.default_rng(seed)
    if kind == "random":
        rows = rng.permutation(frame)[:count]
        return _single_rows(rows, np.full(count, count / len(frame)))
    if kind == "stratified":
        return _stratified(data, frame, count, by, allocation, rng)
    if kind == "paired":
        return _paired(data, frame, chosen, count, rng)
    raise CJEError("unknown design", value=kind, hint=f"choose from {', '.join(DESIGNS)}")


def _single_rows(rows: IntArray, propensity: FloatArray, notes: tuple[str, ...] = ()) -> DrawnRows:
    return DrawnRows(rows, propensity, np.arange(len(rows)), notes)


def common_prompts(data: Dataset, frame: IntArray, policies: Sequence[str]) -> list[IntArray]:
    """The first row of each of `policies` for each prompt that all of them have answered."""
    if len(policies) < 2:
        raise CJEError(
            "a paired design needs at least two policies", value=list(policies),
            hint="name a baseline and a candidate, or use another design",
        )  # fmt: skip
    order = frame[np.lexsort((data.draw_idx[frame], data.policy.codes[frame],
                              data.prompt_id.codes[frame]))]  # fmt: skip
    _, first = np.unique(
        np.column_stack([data.prompt_id.codes[order], data.policy.codes[order]]),
        axis=0, return_index=True,
    )  # fmt: skip
    order = order[first]
    _, start, size = np.unique(data.prompt_id.codes[order], return_index=True, return_counts=True)
    found = [order[a : a + k] for a, k in zip(start, size, strict=True) if k == len(policies)]
    if not found:
        raise CJEError(
            "no prompt was answered by all of the policies", value=list(policies),
            hint="a paired design needs the same prompt_id for each policy",
        )  # fmt: skip
    return found


def _paired(
    data: Dataset, frame: IntArray, policies: Sequence[str], count: int, rng: np.random.Generator
) -> DrawnRows:
    prompts = common_prompts(data, frame, policies)
    n = max(1, round(count / len(policies)))
    if n > len(prompts):
        raise CJEError(
            f"only {len(prompts):,} prompts were answered by all policies",
            value=count, hint=f"ask for at most {len(prompts) * len(policies):,} labels",
        )  # fmt: skip
    chosen = [prompts[i] for i in rng.permutation(len(prompts))[:n]]
    rows = np.concatenate([rng.permutation(unit) for unit in chosen])
    every = len(np.unique(data.prompt_id.codes[frame]))
    notes: tuple[str, ...] = ()
    if every > len(prompts):
        notes = (
            f"{every - len(prompts):,} of {every:,} prompts were not answered by all policies "
            "and cannot be drawn",
        )
    propensity = np.full(len(rows), n / len(prompts))
    return DrawnRows(rows, propensity, np.repeat(np.arange(n), len(policies)), notes)


def _stratified(
    data: Dataset,
    frame: IntArray,
    count: int,
    by: Sequence[str],
    allocation: str,
    rng: np.random.Generator,
) -> DrawnRows:
    stratum = strata_of(data, frame, by)
    sizes = np.bincount(stratum)
    if allocation == "proportional":
        wanted = sizes.astype(float)
    elif allocation == "neyman":
        wanted = sizes * _label_spread(data.oracle_label[frame], stratum, len(sizes))
    else:
        raise CJEError("unknown allocation", value=allocation, hint=" or ".join(ALLOCATIONS))
    takes = _allocate(wanted, sizes, count)
    rows = [rng.permutation(frame[stratum == k])[: takes[k]] for k in range(len(sizes))]
    propensity = np.concatenate([np.full(t, t / n) for t, n in zip(takes, sizes, strict=True)])
    order = rng.permutation(len(propensity))
    return _single_rows(np.concatenate(rows)[order], propensity[order])


def strata_of(data: Dataset, frame: IntArray, by: Sequence[str]) -> IntArray:
    """Stratum of each row of the frame: the combinations of `by` that occur."""
    parts = []
    for name in by:
        if name == "judge_score":
            score = data.judge_score[frame]
            edges = np.unique(np.nanquantile(score, np.arange(1, _SCORE_BINS) / _SCORE_BINS))
            parts.append(np.searchsorted(edges, np.nan_to_num(score, nan=-1.0), side="right"))
        elif name == "policy":
            parts.append(data.policy.codes[frame])
        elif name in data.groups:
            parts.append(data.groups[name].codes[frame])
        else:
            known = ["judge_score", "policy", *data.groups]
            raise CJEError(
                "no such column to stratify by", value=name,
                hint=f"available columns: {', '.join(known)}",
            )  # fmt: skip
    if not parts:
        raise CJEError("a stratified design needs at least one column to stratify by")
    _, stratum = np.unique(np.column_stack(parts), axis=0, return_inverse=True)
    return np.asarray(stratum.ravel())


def _label_spread(labels: FloatArray, stratum: IntArray, n_strata: int) -> FloatArray:
    known = ~np.isnan(labels)
    if known.sum() < 2 * _PILOT_LABELS:
        raise CJEError(
            f"a Neyman allocation needs at least {2 * _PILOT_LABELS} labels to start from",
            value=int(known.sum()), hint="use the proportional allocation for the first labels",
        )  # fmt: skip
    overall = float(labels[known].std())
    if overall == 0.0:
        return np.ones(n_strata)
    spread = np.full(n_strata, overall)
    for k in range(n_strata):
        own = labels[known & (stratum == k)]
        if len(own) >= _PILOT_LABELS:
            # Five labels of the whole sample's spread keep a stratum of equal labels in the draw.
            squares = len(own) * own.var() + _PILOT_LABELS * overall**2
            spread[k] = np.sqrt(squares / (len(own) + _PILOT_LABELS))
    return spread


def _allocate(wanted: FloatArray, sizes: IntArray, count: int) -> IntArray:
    """Whole numbers in proportion to `wanted`, at most `sizes`, at least two where there are two.

    The excess of a full stratum goes to the others; rounding follows the largest remainder.
    """
    least = np.minimum(_FEWEST_PER_STRATUM, sizes)
    if count < least.sum():
        raise CJEError(
            f"{count:,} labels are too few for {len(sizes)} strata", value=count,
            hint=f"label at least {int(least.sum())} rows, or stratify by fewer columns",
        )  # fmt: skip
    share = np.zeros(len(sizes))
    open_ = np.ones(len(sizes), dtype=bool)
    while open_.any():
        left = count - share[~open_].sum()
        trial = left * wanted[open_] / wanted[open_].sum()
        low, high = least[open_], sizes[open_]
        out = (trial < low) | (trial > high)
        share[open_] = np.clip(trial, low, high)
        if not out.any():
            break
        over = share.sum() > count  # fix the violations on the side of the excess
        fix = (trial < low) if over else (trial > high)
        fix = fix if fix.any() else out
        open_[np.flatnonzero(open_)[fix]] = False
    takes = np.floor(share + 1e-9).astype(int)
    remainder = np.where(takes < sizes, share - takes, -1.0)
    for k in np.argsort(-remainder, kind="stable")[: count - int(takes.sum())]:
        takes[k] += 1
    return takes
