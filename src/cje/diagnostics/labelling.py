"""Were the labelled rows chosen at random? Association of labelling with what is known of a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cje.findings import Finding
from cje.findings.labels import LABELS_DEPEND_ON
from cje.inference import holm
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.clusters import cluster_sums, count_distinct, renumbered
from cje.kernels.ranks import mid_ranks

__all__ = [
    "ChanceGap",
    "GapSums",
    "LabelDraw",
    "LabellingTest",
    "chance_gap",
    "labelling_findings",
    "labelling_tests",
    "mid_rank",
    "number_tests",
    "rank_test",
]

_ROUNDING = 1e-14


@dataclass(frozen=True)
class LabellingTest:
    """Association of being labelled with one factor.

    `effect` is, for a number, the chance that a labelled row exceeds an unlabelled one, minus 1/2;
    for a category, the largest difference of a level's labelled share from the overall share.
    """

    factor: str
    effect: float
    p_value: float
    p_adjusted: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class ChanceGap:
    """How far the labelled rows are from all rows, and how far chance would take them.

    Attributes
    ----------
    gap : float
        Mean of the labelled rows minus the mean of all, each prompt counted once.
    sd : float
        Standard deviation of the gap where labels are chosen at random.
    n_prompts : int
        Prompts with a labelled row.
    """

    gap: float
    sd: float
    n_prompts: int

    @property
    def z(self) -> float:
        """The gap in standard deviations; zero where nothing can vary."""
        return self.gap / self.sd if self.sd > 0 else 0.0


@dataclass(frozen=True)
class GapSums:
    r"""Sums over prompts from which a `ChanceGap` follows; those of other prompts add to them.

    With :math:`a_g = n_g / m_g` the labelled share of prompt g's rows, values v less a `pivot` near
    their mean (so that squares lose no digits), :math:`\bar v_g` their mean over the rows of g.

    Attributes
    ----------
    pivot : float
    prompts, labelled_prompts : int
    share, share_squares : float
        Sums of :math:`a_g` and :math:`a_g^2`.
    means, mean_squares : float
        Sums of :math:`\bar v_g` and :math:`\bar v_g^2`.
    chosen : float
        Sum over the labelled rows of :math:`v / m_g`.
    within : float
        :math:`\sum_g a_g^2 (1/n_g - 1/m_g) S_g^2` over prompts with labelled and other rows.
    """

    pivot: float
    prompts: int
    labelled_prompts: int
    share: float
    share_squares: float
    means: float
    mean_squares: float
    chosen: float
    within: float

    def __add__(self, other: GapSums) -> GapSums:
        sums = {
            name: value + getattr(other, name)
            for name, value in vars(self).items()
            if name != "pivot"
        }
        return GapSums(self.pivot, **sums)

    def chance_gap(self) -> ChanceGap:
        """The gap, and its standard deviation under chance."""
        centre = self.means / self.prompts
        gap = (self.chosen - centre * self.share) / self.share
        spread = self.mean_squares - self.prompts * centre**2
        uneven = self.share_squares - self.share**2 / self.prompts
        # differences of sums: what is left of equal means, or equal shares, is rounding
        spread = spread if spread > _ROUNDING * self.mean_squares else 0.0
        uneven = uneven if uneven > _ROUNDING * self.share_squares else 0.0
        variance = uneven * spread / max(self.prompts - 1.0, 1.0) + self.within
        return ChanceGap(gap, float(np.sqrt(variance) / self.share), self.labelled_prompts)


class LabelDraw:
    r"""Which rows are labelled, as rows or whole prompts drawn at random would be.

    With :math:`a_g = n_g / m_g` the labelled share of prompt g's rows, the gap of a column is
    :math:`\sum_g a_g (\bar v_{g,L} - \bar v) / \sum_g a_g`. Under chance the shares are assigned to
    the prompts at random, and within a prompt :math:`n_g` of its :math:`m_g` rows are drawn without
    replacement:

    .. math:: Var = \frac1{(\sum a_g)^2} \Bigl[\sum_g (a_g - \bar a)^2
              \frac{\sum_g (\bar v_g - \bar v)^2}{G - 1}
              + \sum_g a_g^2 \Bigl(\frac1{n_g} - \frac1{m_g}\Bigr) S_g^2\Bigr]

    With one row per prompt this is a simple random sample without replacement.

    Parameters
    ----------
    labelled : bool array (n,)
    prompts : int array (n,)
    """

    def __init__(self, labelled: BoolArray, prompts: IntArray) -> None:
        self.labelled = labelled
        self.chosen = np.flatnonzero(labelled)
        self.prompt, self.n_prompts = renumbered(prompts)
        if self.n_prompts == len(labelled):
            self.size = np.ones(self.n_prompts)
        else:
            self.size = np.bincount(self.prompt, minlength=self.n_prompts).astype(np.float64)
        own = self.prompt[self.chosen]
        self.n_labelled = np.bincount(own, minlength=self.n_prompts).astype(np.float64)
        self.share = self.n_labelled / self.size
        self.total = float(self.share.sum())
        self.share_squares = float(self.share @ self.share)
        self.rows_of_chosen = self.size[own]
        self.some = np.flatnonzero((self.n_labelled > 0) & (self.n_labelled < self.size))

    def gap(self, values: FloatArray) -> ChanceGap:
        """How far the labelled rows' mean is from that of all rows."""
        return self.sums(values, float(values.mean())).chance_gap()

    def sums(self, values: FloatArray, pivot: float) -> GapSums:
        """What the gap follows from, for prompts that may be some of many."""
        size, centred = self.size, values - pivot
        mean = cluster_sums(centred, self.prompt, self.n_prompts) / size
        within = 0.0
        if len(self.some):
            squares = cluster_sums((centred - mean[self.prompt]) ** 2, self.prompt, self.n_prompts)
            n, m, share = self.n_labelled[self.some], size[self.some], self.share[self.some]
            within = float(share**2 * (1.0 / n - 1.0 / m) @ (squares[self.some] / (m - 1.0)))
        return GapSums(
            pivot,
            self.n_prompts,
            int(np.count_nonzero(self.n_labelled)),
            self.total,
            self.share_squares,
            float(mean.sum()),
            float(mean @ mean),
            float((centred[self.chosen] / self.rows_of_chosen).sum()),
            within,
        )


def chance_gap(values: FloatArray, labelled: BoolArray, prompts: IntArray) -> ChanceGap:
    """Compare labelled rows with all rows, whether rows or whole prompts were chosen (`LabelDraw`).

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 3.0, 4.0])
    >>> found = chance_gap(values, values > 2, np.arange(4))
    >>> found.gap, round(found.sd, 4)
    (1.0, 0.6455)
    """
    return LabelDraw(labelled, prompts).gap(values)


def labelling_tests(
    labelled: BoolArray,
    numbers: Mapping[str, FloatArray],
    categories: Mapping[str, IntArray],
    *,
    prompts: IntArray | None = None,
) -> list[LabellingTest]:
    """Test labelling against numeric factors (rank sum) and categories (chi-square), Holm-adjusted.

    Nothing is tested where no row, or every row, is labelled. Rows with a missing number take no
    part in that factor's test. With `prompts`, the prompt of each row, several rows of one prompt
    are one cluster: labels are often taken prompt by prompt (see `LabelDraw`).
    """
    if not labelled.any() or labelled.all():
        return []
    rows = np.arange(len(labelled))
    draw = LabelDraw(labelled, rows if prompts is None else prompts)
    chance = None if prompts is None else draw
    categorical = [
        (name, *_shares(codes, labelled, chance))
        for name, codes in categories.items()
        if count_distinct(codes) > 1
    ]
    return _adjusted([*_rank_sums(draw, numbers), *categorical])


def number_tests(draw: LabelDraw, numbers: Mapping[str, FloatArray]) -> list[LabellingTest]:
    """`labelling_tests` of numbers, for a given draw."""
    return _adjusted(_rank_sums(draw, numbers))


def _adjusted(found: list[tuple[str, float, float]]) -> list[LabellingTest]:
    adjusted: Any = holm([p for _, _, p in found]) if found else []
    return [LabellingTest(*f, float(q)) for f, q in zip(found, adjusted, strict=True)]


def labelling_findings(tests: list[LabellingTest], *, has_propensity: bool) -> list[Finding]:
    """A warning per factor the labelling depends on, unless propensities are recorded."""
    if has_propensity:
        return []
    return [
        LABELS_DEPEND_ON.finding(**test.to_dict())
        for test in tests
        if test.p_adjusted < LABELS_DEPEND_ON["p_value"]
        and abs(test.effect) > LABELS_DEPEND_ON["effect"]
    ]


def _rank_sums(
    draw: LabelDraw, numbers: Mapping[str, FloatArray]
) -> list[tuple[str, float, float]]:
    """Name, effect and p of every number that can be tested."""
    found = []
    for name, values in numbers.items():
        known, own = np.isfinite(values), draw
        if not known.all():
            own, values = LabelDraw(draw.labelled[known], draw.prompt[known]), values[known]
        if 0 < len(own.chosen) < len(values) and float(np.ptp(values)) > 0:
            found.append((name, *_rank_sum(values, own)))
    return found


def _rank_sum(values: FloatArray, draw: LabelDraw) -> tuple[float, float]:
    """Mann-Whitney effect (minus 1/2) and two-sided p: t with the labelled prompts less one df."""
    rank = mid_ranks(values)
    return rank_test(draw.gap(rank), float(rank[draw.chosen].mean()), len(values), len(draw.chosen))


def mid_rank(counts: IntArray) -> FloatArray:
    """The mean rank, from 1, of the rows of each distinct value in increasing order."""
    return np.asarray(np.cumsum(counts) - (counts - 1) / 2.0)


def rank_test(found: ChanceGap, mean_rank: float, n: int, n_labelled: int) -> tuple[float, float]:
    """The test of labelled rows with a mean rank among n; `found` is the gap of the ranks.

    The mean rank of the labelled rows is equivalent to U, and has its variance under chance.
    """
    from scipy.special import stdtr

    df = max(found.n_prompts - 1.0, 1.0)
    effect = (mean_rank - (n + 1.0) / 2.0) / (n - n_labelled)
    return effect, float(2.0 * stdtr(df, -abs(found.z)))


def _shares(codes: IntArray, labelled: BoolArray, draw: LabelDraw | None) -> tuple[float, float]:
    """Largest deviation of a level's labelled share, and its p.

    Pearson's chi-square; with prompts, the level whose share of the labelled rows is furthest from
    its share of all, adjusted for the number of levels (Bonferroni).
    """
    from scipy.special import chdtrc, ndtr

    level, _ = renumbered(codes)
    total = np.bincount(level).astype(np.float64)
    hits = np.bincount(level, labelled)
    share = float(labelled.mean())
    deviation = hits / total - share
    effect = float(deviation[np.argmax(np.abs(deviation))])
    if draw is None:
        statistic = float(((hits - total * share) ** 2 / (total * share * (1.0 - share))).sum())
        return effect, float(chdtrc(len(total) - 1, statistic))
    z = max(abs(draw.gap((level == k).astype(float)).z) for k in range(len(total)))
    return effect, min(1.0, len(total) * float(2.0 * ndtr(-z)))
