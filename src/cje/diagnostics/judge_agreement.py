"""Agreement of a judge with its labels, of the raters with one another, and with itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cje.diagnostics.agreement import (
    KappaWeights,
    alpha_of,
    alpha_sums,
    disagreement,
    kappa_cells,
    kappa_of,
    rank_influence,
)
from cje.diagnostics.clustered import Clustered, LeftOut
from cje.diagnostics.judge_card import Measure
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["AgreementRows", "agreement_measures", "consistency_measure"]

_MOST_RATINGS = 20  # different ones; more are measured by ranks alone
_RANKS, _ALPHA = "rank correlation", "agreement of the raters (alpha)"
_KAPPAS: tuple[tuple[str, KappaWeights], ...] = (
    ("kappa", "none"),
    ("weighted kappa (linear)", "linear"),
    ("weighted kappa (quadratic)", "quadratic"),
)
_SHARES = ("sensitivity", "specificity")


@dataclass(frozen=True, eq=False)
class AgreementRows:
    """Pairs of score and label; a response that several raters labelled has a pair for each.

    `binary`: whether a label is the higher one of two values; scores at or above `cut` are the
    judge's higher label. `comparable`: the scores are ratings on the labels' scale.
    """

    score: FloatArray
    label: FloatArray
    weight: FloatArray
    prompt: IntArray
    binary: float | None
    cut: float
    comparable: bool
    rater_item: IntArray
    rater_value: FloatArray

    @classmethod
    def of(
        cls,
        score: FloatArray,
        label: FloatArray,
        weight: FloatArray,
        prompt: IntArray,
        ratings: FloatArray | None,
        threshold: float | None,
    ) -> AgreementRows:
        """From the labelled rows; `ratings` (n, raters) where single labels are known."""
        item, value = np.arange(len(label)), label
        if ratings is not None and np.isfinite(ratings).any():
            item, _ = np.nonzero(np.isfinite(ratings))
            value = ratings[np.isfinite(ratings)]
        levels, said = np.unique(value), np.unique(score)
        binary = float(levels[-1]) if len(levels) == 2 else None
        middle = 0.5 * (float(said[0]) + float(said[-1]))
        same = len(levels) <= _MOST_RATINGS and len(said) <= _MOST_RATINGS
        same = same and float(np.isin(score, levels).mean()) >= 0.5
        return cls(
            score[item], value, weight[item], prompt[item], binary,
            middle if threshold is None else threshold, same, item, value,
        )  # fmt: skip


def agreement_measures(rows: AgreementRows, level: float) -> tuple[list[Measure], dict[str, str]]:
    """Every statistic that these rows have, and why the others are absent."""
    clusters = Clustered.of(rows.prompt)
    found: list[Measure] = []
    absent: dict[str, str] = {}

    def add(name: str, one: LeftOut | None, scale: str, n: int, says: str, why: str) -> None:
        if one is None or not np.isfinite(one.value):
            absent[name] = why
            return
        low, high = one.interval(scale, level) or (None, None)  # type: ignore[arg-type]
        found.append(Measure(name, one.value, low, high, n, says))

    n = len(rows.label)
    ranks = rank_influence(rows.score, rows.label, rows.weight)
    one = None if ranks is None else clusters.influenced(*ranks)
    why = "all scores, or all labels, are equal"
    add(_RANKS, one, "fisher", n, "Spearman's, of score and label", why)
    _add_kappas(rows, clusters, add)
    _add_shares(rows, clusters, add)
    alpha = _alpha(rows.rater_item, rows.rater_value, rows.prompt)
    says = "Krippendorff's alpha, interval scale: what agreement any judge can reach"
    pairs = len(np.unique(rows.rater_item[_repeated(rows.rater_item)]))
    add(_ALPHA, alpha, "fisher", pairs, says, "no response has labels of two raters")
    return found, absent


Add = Callable[[str, LeftOut | None, str, int, str, str], None]


def _add_kappas(rows: AgreementRows, clusters: Clustered, add: Add) -> None:
    """Kappa of the verdicts where labels are two, of the ratings where they share a scale."""
    first, why = rows.score, "scores and labels are not ratings on one scale"
    if rows.binary is not None:
        first = np.where(rows.score >= rows.cut, rows.binary, rows.label.min())
    elif not rows.comparable:
        for name, _ in _KAPPAS:
            add(name, None, "fisher", 0, "", why)
        return
    cells, levels = kappa_cells(first, rows.label)
    columns = np.zeros((len(cells), levels**2))
    columns[np.arange(len(cells)), cells] = rows.weight
    for name, weights in _KAPPAS[: 1 if rows.binary is not None else 3]:
        cost = disagreement(levels, weights)
        one = clusters.function(columns, lambda totals, cost=cost: kappa_of(totals, cost))  # type: ignore[misc]
        says = "agreement of judge and label beyond chance"
        add(name, one, "fisher", len(cells), says, "judge and labels have one value only")


def _add_shares(rows: AgreementRows, clusters: Clustered, add: Add) -> None:
    """Sensitivity and specificity where the labels have two values."""
    if rows.binary is None:
        for name in _SHARES:
            add(name, None, "share", 0, "", "the labels have more than two values")
        return
    positive = rows.label == rows.binary
    said = rows.score >= rows.cut
    for name, among, hit in (
        ("sensitivity", positive, said),
        ("specificity", ~positive, ~said),
    ):
        own = Clustered.of(rows.prompt[among])
        weight = rows.weight[among]
        columns = np.column_stack([weight, weight * hit[among]])
        one = own.function(columns, _ratio) if own.n_prompts > 1 else None
        kind, scored = ("higher", "at least") if hit is said else ("lower", "below")
        says = f"share of the responses with the {kind} label that score {scored} {rows.cut:.4g}"
        add(name, one, "share", int(among.sum()), says, f"too few {kind} labels")


def _ratio(totals: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[..., 1] / totals[..., 0])


def _repeated(item: IntArray) -> IntArray:
    counts = np.bincount(item) if len(item) else np.zeros(1, dtype=np.int64)
    return np.flatnonzero(counts[item] >= 2)


def _alpha(item: IntArray, value: FloatArray, prompt: IntArray) -> LeftOut | None:
    """Alpha of ratings in long form; `prompt` is that of each rating."""
    sums = alpha_sums(item, value)
    if sums is None:
        return None
    items, columns = sums
    first = np.zeros(int(item.max()) + 1, dtype=np.int64)
    first[item] = prompt
    return Clustered.of(first[items]).function(columns, alpha_of)


def consistency_measure(
    repeats: FloatArray | None, prompt: IntArray, level: float
) -> Measure | None:
    """Alpha of the judge's repeated scores of one response: 1 where it always says the same."""
    if repeats is None:
        return None
    known = np.isfinite(repeats)
    item, _ = np.nonzero(known)
    value = repeats[known]
    found = _alpha(item, value, prompt[item])
    if found is None or not np.isfinite(found.value):
        return None
    low, high = found.interval("fisher", level) or (None, None)
    says = "Krippendorff's alpha of the judge's repeated scores of one response"
    return Measure("self-consistency", found.value, low, high, len(np.unique(item)), says)
