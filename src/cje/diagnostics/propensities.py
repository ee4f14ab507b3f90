"""Can the recorded labelling propensities be true, and do the labels suffice to estimate a
value?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, ndtr

from cje.data.dataset import Dataset
from cje.diagnostics.label_choice import weighted_balance
from cje.findings import Finding, Severity
from cje.findings.labels import (
    IMPOSSIBLE_PROPENSITIES,
    PROPENSITIES_MISS_ROWS,
    PROPENSITIES_PARTLY_KNOWN,
    PROPENSITIES_TOO_UNEQUAL,
    STRATUM_HARDLY_LABELLED,
)
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["LabelledRows", "propensity_findings", "weight_degrees_of_freedom"]

_BINS = 5


@dataclass(frozen=True)
class LabelledRows:
    """The rows that one value or calibration rests on.

    Attributes
    ----------
    score, propensity : array (n,)
        The propensity of an unlabelled row may be NaN (unknown).
    labelled : bool array (n,)
    prompts : int array (n,)
    own_design : bool
        Labels of `cje label`, whose designs give every row a chance.
    """

    score: FloatArray
    propensity: FloatArray
    labelled: BoolArray
    prompts: IntArray
    own_design: bool = False

    @classmethod
    def of(cls, data: Dataset, mine: BoolArray) -> LabelledRows | None:
        """The rows `mine` of a data set; None without recorded propensities or labels."""
        labelled = data.is_labelled[mine]
        if data.label_propensity is None or not labelled.any():
            return None
        pi = data.label_propensity[mine]
        own = "label_counts" in data.metadata  # written where cje label's file is joined
        return cls(data.judge_score[mine], pi, labelled, data.units.codes[mine], own)

    @property
    def all_known(self) -> bool:
        """Whether unlabelled rows have a propensity too."""
        return bool(np.isfinite(self.propensity).all())


def weight_degrees_of_freedom(rows: LabelledRows) -> float:
    r"""Degrees of freedom of the variance estimated from labels weighted by :math:`1/\pi`.

    The labels' part of the variance is estimated by :math:`\sum_L v_i e_i^2`,
    :math:`v_i = (1 - \pi_i)/\pi_i^2`. With equal residual variances, the effective number of its
    terms (Kish) is

    .. math:: \nu = \frac{(\sum_L v_i)^2}{\sum_L v_i^2} \approx
              \frac{\bigl(\sum_i (1 - \pi_i)/\pi_i\bigr)^2}{\sum_i (1 - \pi_i)^2/\pi_i^3}

    The second form is its value under the design. It includes unlabelled rows with small
    propensities, so it is used where the propensities of all rows are known. With equal
    propensities :math:`\nu` is the number of labels; rows that are certain to be labelled do not
    contribute.

    Examples
    --------
    >>> pi = np.full(100, 0.2)
    >>> rows = LabelledRows(np.zeros(100), pi, np.arange(100) < 20, np.arange(100))
    >>> round(weight_degrees_of_freedom(rows), 6)
    20.0
    """
    if rows.all_known:
        pi, chance = rows.propensity, rows.propensity
    else:
        pi, chance = rows.propensity[rows.labelled], np.ones(int(rows.labelled.sum()))
    least = float(pi.min())
    v = (1.0 - pi) * (least / pi) ** 2  # free of units: 1 / pi^4 may overflow
    total, squares = float(chance @ v), float(chance @ v**2)
    return total**2 / squares if squares > 0 else float("inf")


def propensity_findings(rows: LabelledRows, subject: str | None) -> list[Finding]:
    """Findings on the recorded propensities, and on a value that rests on them.

    Propensities so unequal that a few rows decide the value; labelled rows whose propensity is
    too small to be true; parts of the rows (by score, by propensity) with fewer or more labels
    than recorded; propensities that only labelled rows have.
    """
    found = [*_impossible(rows, subject), *_unequal(rows, subject), *_hardly(rows, subject)]
    found += _misses(rows, subject)
    if not rows.all_known and not rows.own_design:
        n_unknown = int(np.count_nonzero(~np.isfinite(rows.propensity)))
        found.append(PROPENSITIES_PARTLY_KNOWN.finding(subject, n_unknown=n_unknown))
    return found


def _unequal(rows: LabelledRows, subject: str | None) -> list[Finding]:
    df = weight_degrees_of_freedom(rows)
    n_labels = int(rows.labelled.sum())
    rule = PROPENSITIES_TOO_UNEQUAL
    # Few labels of nearly equal weight are few labels (`few-labels`), not unequal ones.
    refuse, warn = (min(rule[name], rule["label_share"] * n_labels) for name in ("refuse", "warn"))
    if df >= warn:
        return []
    known = rows.propensity[np.isfinite(rows.propensity)]
    return [
        rule.finding(
            subject,
            severity=Severity.REFUSE if df < refuse else Severity.WARNING,
            n_labels=n_labels,
            effective=df,
            least=float(known.min()),
            most=float(known.max()),
        )
    ]


def _hardly(rows: LabelledRows, subject: str | None) -> list[Finding]:
    r"""The stratum of propensities with the fewest expected labels, where they are too few.

    Sorted propensities are cut into strata where one exceeds the last by a factor of two. A stratum
    with m expected labels goes without any with probability :math:`e^{-m}`: at m = 4 in 1.8% of
    data sets, in which neither value nor interval shows it.
    """
    if not rows.all_known:
        return []
    rule, pi = STRATUM_HARDLY_LABELLED, np.sort(rows.propensity)
    cuts = np.flatnonzero(pi[1:] > rule["factor"] * pi[:-1]) + 1
    thin = [
        stratum
        for stratum in np.split(pi, cuts)
        if stratum.sum() < rule["expected_labels"] and len(stratum) > rule["share"] * len(pi)
        if stratum[0] < 1.0
    ]
    if not thin:
        return []
    worst = min(thin, key=lambda stratum: float(stratum.sum()))
    return [
        rule.finding(
            subject, n_rows=len(worst), share=len(worst) / len(pi), least=float(worst[0]),
            most=float(worst[-1]), expected=float(worst.sum()),
        )
    ]  # fmt: skip


def _impossible(rows: LabelledRows, subject: str | None) -> list[Finding]:
    r"""Labelled rows with propensities too small to be true.

    At most :math:`Bin(G, m t)` of G prompts with up to m rows have a labelled row of propensity
    <= t (the count is stochastically smaller, whatever the other propensities are). The k-th
    smallest propensity of a labelled prompt is tested by that tail, Bonferroni over k.
    """
    _, prompt, size = np.unique(rows.prompts, return_inverse=True, return_counts=True)
    smallest = np.full(len(size), np.inf)
    np.minimum.at(smallest, prompt[rows.labelled], rows.propensity[rows.labelled])
    ordered = np.sort(smallest[np.isfinite(smallest)])
    k = np.arange(1.0, len(ordered) + 1.0)
    chance = np.minimum(ordered * size.max(), 1.0)
    p = np.minimum(len(ordered) * betainc(k, len(size) - k + 1.0, chance), 1.0)
    worst = int(np.argmin(p))
    if p[worst] >= IMPOSSIBLE_PROPENSITIES["p_value"]:
        return []
    return [
        IMPOSSIBLE_PROPENSITIES.finding(
            subject, count=worst + 1, limit=float(ordered[worst]), n_rows=len(rows.labelled),
            p_value=float(p[worst]),
        )
    ]  # fmt: skip


# ---- labels against the count recorded ----------------------------------------------------------


def _misses(rows: LabelledRows, subject: str | None) -> list[Finding]:
    """Compare labels with the recorded propensities, over all rows and within parts of them."""
    if int(rows.labelled.sum()) < PROPENSITIES_MISS_ROWS["labels_needed"]:
        return []
    parts = _parts(rows)
    tests = (_counts if rows.all_known else _inverse_sums)(rows, parts)
    found = []
    for (name, ratio, p), relative in zip(tests, [False] + [True] * len(parts), strict=True):
        if p * len(tests) >= PROPENSITIES_MISS_ROWS["p_value"]:
            continue
        # An equal error everywhere cancels: weights are normalised. Where unlabelled rows have no
        # propensity, it cannot be distinguished from rows that had no chance, and tests of parts
        # are normal approximations: they warn.
        harmful = relative == rows.all_known
        large = abs(ratio - 1.0) > PROPENSITIES_MISS_ROWS["ratio"]
        large = large and p * len(tests) < PROPENSITIES_MISS_ROWS["refuse_p_value"]
        found.append(
            PROPENSITIES_MISS_ROWS.finding(
                subject,
                severity=Severity.REFUSE if harmful and large else Severity.WARNING,
                part=name,
                ratio=ratio,
                p_value=min(p * len(tests), 1.0),
            )
        )
    return sorted(found, key=lambda finding: finding.severity is Severity.WARNING)[:1]


def _parts(rows: LabelledRows) -> list[tuple[str, BoolArray]]:
    """Bins of the score, and of the propensity where it is known of every row."""
    found = _binned("judge scores", rows.score)
    return found + (_binned("propensities", rows.propensity) if rows.all_known else [])


def _binned(what: str, values: FloatArray) -> list[tuple[str, BoolArray]]:
    """Five bins of equal count, or the values themselves where there are no more than five."""
    distinct = np.unique(values)
    if len(distinct) == 1:
        return []
    edges = distinct if len(distinct) <= _BINS else np.quantile(values, np.arange(_BINS) / _BINS)
    code = np.searchsorted(edges, values, side="right") - 1
    masks = [code == k for k in np.unique(code)]
    return [
        (f"{what} {values[m].min():.3g} to {values[m].max():.3g}", np.asarray(m)) for m in masks
    ]


_Tested = tuple[str, float, float]  # part, labels over those recorded, p-value


def _counts(rows: LabelledRows, parts: list[tuple[str, BoolArray]]) -> list[_Tested]:
    r"""Labels of each part against the sum of its propensities; parts relative to the whole.

    A sum of independent labels is less spread than a binomial count of the same mean (Hoeffding
    1956), whose tails are used; where whole prompts are labelled, both are divided by the design
    effect.
    """
    pi, labelled = rows.propensity, rows.labelled.astype(np.float64)
    effect = _design_effect(rows)
    overall = float(labelled.sum() / pi.sum())
    everything = np.ones(len(pi), dtype=bool)
    tested = []
    for name, mask in [("all rows", everything), *parts]:
        factor = 1.0 if mask is everything else overall
        expected = float(np.minimum(pi[mask] * factor, 1.0).sum())
        seen, n = float(labelled[mask].sum()), float(mask.sum())
        p = _binomial_p(seen / effect, n / effect, expected / n)
        tested.append((name, seen / expected, p))
    return tested


def _design_effect(rows: LabelledRows) -> float:
    """How many times more the labels vary than independent ones; 1 with one row per prompt."""
    pi = rows.propensity
    model = float(pi @ (1.0 - pi))
    if model == 0.0 or len(np.unique(rows.prompts)) == len(pi):
        return 1.0
    excess = cluster_sums(rows.labelled - pi, rows.prompts, int(rows.prompts.max()) + 1)
    return max(1.0, float(excess @ excess) / model)


def _binomial_p(seen: float, n: float, chance: float) -> float:
    """Two-sided p-value of a binomial count (real-valued after a design effect)."""
    if chance >= 1.0:
        return 1.0 if seen >= n else 0.0
    upper = float(betainc(seen, n - seen + 1.0, chance)) if seen > 0 else 1.0
    lower = 1.0 - float(betainc(seen + 1.0, n - seen, chance)) if seen < n else 1.0
    return min(1.0, 2.0 * min(upper, lower))


def _inverse_sums(rows: LabelledRows, parts: list[tuple[str, BoolArray]]) -> list[_Tested]:
    r"""The sum of :math:`1/\pi` over the labels of each part against its number of rows.

    A part whose labels are missing does not show their variance: within parts it is at least that
    of rows which all have the smallest propensity seen.
    """
    pi = rows.propensity[rows.labelled]
    excess = np.full(len(rows.labelled), -1.0)
    excess[rows.labelled] += 1.0 / pi
    n = float(len(excess))
    _, p = weighted_balance(excess, np.full(len(excess), 1.0 / n), rows.prompts, rows.labelled)
    whole = float((excess + 1.0).sum()) / n
    tested = [("all rows", whole, p)]
    for name, mask in parts:
        size = float(mask.sum())
        ratio = float((excess[mask] + 1.0).sum()) / size / whole
        spread = np.sqrt((1.0 / float(pi.min()) - 1.0) / size)
        z = (ratio - 1.0) / spread if spread > 0 else 0.0
        tested.append((name, ratio, float(2.0 * ndtr(-abs(z)))))
    return tested
