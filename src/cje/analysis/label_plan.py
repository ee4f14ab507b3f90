r"""How many prompts, judge calls and labels a study needs, from judge quality and unit costs.

The direct estimator of one policy's value with n judged prompts and L labels among them has

.. math:: Var \approx \frac{\sigma^2 (1 - R^2)}{L} \Bigl(1 + \frac{2}{L}\Bigr) + \frac{\sigma^2 R^2}{n},

:math:`\sigma` the labels' standard deviation and :math:`R^2` the share the calibrated judge explains (the
efficiency bound; the factor 1 + 2/L, an assumed cost of fitting the judge on the same labels). A paired
difference of two policies on shared prompts has twice that, times one minus the correlation of each
part between the policies. Cost is linear; the cheapest design for a given variance is in closed form.
"""  # noqa: E501

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from cje.checks import LARGEST, SMALLEST, is_number
from cje.diagnostics.judge_quality import FIT_COST
from cje.errors import CJEError
from cje.inference.proportion import proportion_limits

__all__ = ["Design", "Goal", "JudgeQuality", "UnitCosts", "achieved", "plan_study"]


_SURE = 16.0  # standard errors beyond the critical value, where the power is 1 in double precision
MIN_LABELS = 20
# Sizes are squared and divided, so their range is limited.
_SMALLEST, _LARGEST = SMALLEST**0.5, LARGEST**0.5


def _check_size(what: str, value: float) -> None:
    """Check that a number is positive and of a size that a study can have."""
    if not is_number(value) or value <= 0.0:
        raise CJEError(f"{what} must be positive", value=value)
    if not _SMALLEST <= value <= _LARGEST:
        raise CJEError(
            f"{what} must lie between {_SMALLEST:g} and {_LARGEST:g}", value=value,
            hint="give it in another unit",
        )  # fmt: skip


@dataclass(frozen=True)
class JudgeQuality:
    """How much the judge explains of the label.

    Parameters
    ----------
    sd : float
        Standard deviation of the labels within a policy, on the label's own scale.
    r2 : float
        Share of the labels' variance that the calibrated judge explains, out of fold.
    reward_correlation : float
        Correlation between two policies of the calibrated score on one prompt.
    residual_correlation : float
        The same for the part of the label that the judge misses. It helps a difference only if both
        responses of a prompt are labelled, so such a plan labels the same prompts of every policy.
    kurtosis : float
        Fourth standardised moment of that part: 3 for a normal distribution, more with rare large
        errors, which make the variance less certain and intervals wider.
    rate : float, optional
        Mean of labels that are 0 or 1 (the share of the upper value): intervals of values are then
        binomial.
    """

    sd: float
    r2: float
    reward_correlation: float = 0.0
    residual_correlation: float = 0.0
    kurtosis: float = 3.0
    rate: float | None = None

    def __post_init__(self) -> None:
        _check_size("sd", self.sd)
        if not (is_number(self.r2) and 0.0 <= self.r2 <= 1.0):
            raise CJEError("r2 must lie in [0, 1]", value=self.r2)
        for name in ("reward_correlation", "residual_correlation"):
            value = getattr(self, name)
            if not (is_number(value) and -1.0 <= value <= 1.0):
                raise CJEError(f"{name} must lie in [-1, 1]", value=value)
        if not (is_number(self.kurtosis) and self.kurtosis >= 1.0):
            raise CJEError("kurtosis must be at least 1", value=self.kurtosis)
        if self.rate is not None and not (is_number(self.rate) and 0.0 < self.rate < 1.0):
            raise CJEError("rate must lie between 0 and 1", value=self.rate)

    @classmethod
    def of_rate(cls, rate: float, r2: float, **correlations: float) -> JudgeQuality:
        """Quality for labels of 0 and 1 with mean `rate`.

        The part that the judge misses is assumed to have the kurtosis of the labels,
        :math:`(1 - 3 p (1 - p)) / (p (1 - p))`.

        Examples
        --------
        >>> JudgeQuality.of_rate(0.5, 0.3).sd, JudgeQuality.of_rate(0.1, 0.3).kurtosis
        (0.5, 8.11111111111111)
        """
        if not (is_number(rate) and 0.0 < rate < 1.0):
            raise CJEError("rate must lie between 0 and 1", value=rate)
        spread = rate * (1.0 - rate)
        kurtosis = max((1.0 - 3.0 * spread) / spread, 1.0)
        return cls(math.sqrt(spread), r2, **correlations, kurtosis=kurtosis, rate=rate)


@dataclass(frozen=True)
class UnitCosts:
    """Cost of one label, and of one response generated and judged; any currency."""

    label: float = 1.0
    response: float = 0.01

    def __post_init__(self) -> None:
        for name in ("label", "response"):
            _check_size(f"the cost of a {name}", getattr(self, name))


@dataclass(frozen=True)
class Goal:
    """Goal of a study.

    ``kind="value"``: the interval of each policy's value has at most full width `size`.
    ``kind="difference"``: the interval of a paired difference has at most full width `size`.
    ``kind="power"``: a two-sided test at `level` detects a true difference of `size` with
    probability `power`.
    """

    kind: Literal["value", "difference", "power"]
    size: float
    level: float = 0.95
    power: float = 0.8

    def __post_init__(self) -> None:
        if self.kind not in ("value", "difference", "power"):
            raise CJEError("a goal must be 'value', 'difference' or 'power'", value=self.kind)
        _check_size("the goal's size", self.size)
        for name in ("level", "power"):
            value = getattr(self, name)
            if not (is_number(value) and 0.0 < value < 1.0):
                raise CJEError(f"{name} must lie between 0 and 1", value=value)


@dataclass(frozen=True)
class Design:
    """A design of a study: prompts and labels per policy, their cost, and the precision they give.

    Attributes
    ----------
    n_prompts, n_labels : int
        Judged responses and labels of each policy.
    n_policies : int
    judge_calls, total_labels : int
        Over all policies.
    cost : float
    width : float
        Expected full width of the goal's interval (for a power goal: of the difference's).
    power : float or None
        Of the two-sided test, for a power goal.
    """

    n_prompts: int
    n_labels: int
    n_policies: int
    judge_calls: int
    total_labels: int
    cost: float
    width: float
    power: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def plan_study(
    quality: JudgeQuality,
    goal: Goal,
    costs: UnitCosts | None = None,
    *,
    n_policies: int = 2,
    max_prompts: int | None = None,
) -> Design:
    """The cheapest design that meets the goal.

    Minimising ``c_r n + c_l L`` subject to ``a / L + b / n = v`` gives ``L = (a + sqrt(a b c_r /
    c_l)) / v`` and ``n = (b + sqrt(a b c_l / c_r)) / v``; labels cannot outnumber prompts, and
    `max_prompts` may bind. The t quantile and the cost of fitting depend on the design, so the
    variance is refined until the goal is just met.

    Examples
    --------
    >>> design = plan_study(JudgeQuality(sd=0.25, r2=0.5), Goal("value", 0.05))
    >>> design.n_labels < 400 < design.n_prompts  # without a judge: about 400 labels
    True
    """
    _check_parts(quality, goal)
    fewest = 1 if goal.kind == "value" else 2
    if not is_number(n_policies) or n_policies < fewest:
        least = "one policy" if goal.kind == "value" else "two policies: it plans a difference"
        raise CJEError(f"the study needs at least {least}", value=n_policies)
    if max_prompts is not None and not (is_number(max_prompts) and max_prompts >= MIN_LABELS):
        raise CJEError(f"a study needs at least {MIN_LABELS} prompts", value=max_prompts)
    prices = costs or UnitCosts()
    low, high = 1e-12 * quality.sd**2, 4.0 * quality.sd**2
    for _ in range(200):  # bisection on the variance of the design
        middle = math.sqrt(low * high)
        design = _cheapest(quality, goal, prices, middle, max_prompts)
        if _meets(quality, goal, *design):
            low = middle
        else:
            high = middle
    n, labels = _cheapest(quality, goal, prices, low, max_prompts)
    if not _meets(quality, goal, n, labels):
        few = "" if max_prompts is None else f" with at most {max_prompts:,} prompts"
        raise CJEError(
            f"no number of labels reaches this goal{few}",
            value=goal.size,
            hint="allow more prompts, or ask for a wider interval or a larger difference",
        )
    return _describe(quality, goal, prices, n, labels, n_policies)


def achieved(
    quality: JudgeQuality,
    goal: Goal,
    n_prompts: int,
    n_labels: int,
    costs: UnitCosts | None = None,
    *,
    n_policies: int = 2,
) -> Design:
    """Width, power and cost of a given number of prompts and labels."""
    _check_parts(quality, goal)
    if not (is_number(n_labels) and is_number(n_prompts) and 2 <= n_labels <= n_prompts):
        raise CJEError("labels must be at least 2 and at most the prompts", value=n_labels)
    return _describe(quality, goal, costs or UnitCosts(), n_prompts, n_labels, n_policies)


def _check_parts(quality: JudgeQuality, goal: Goal) -> None:
    for value, kind in ((quality, JudgeQuality), (goal, Goal)):
        if not isinstance(value, kind):
            raise CJEError(f"a plan needs a {kind.__name__}", value=value)


def _parts(quality: JudgeQuality, goal: Goal) -> tuple[float, float]:
    """Coefficients (a, b) of 1 / L and 1 / n in the variance."""
    label = quality.sd**2 * (1.0 - quality.r2)
    reward = quality.sd**2 * quality.r2
    if goal.kind == "value":
        return label, reward
    return (
        2.0 * label * (1.0 - quality.residual_correlation),
        2.0 * reward * (1.0 - quality.reward_correlation),
    )


def _variance(quality: JudgeQuality, goal: Goal, n: int, labels: int) -> tuple[float, float]:
    """Variance and its Satterthwaite degrees of freedom: 3 L / kurtosis of the label part."""
    a, b = _parts(quality, goal)
    overhead = 1.0 + FIT_COST / labels if labels < n else 1.0
    label, reward = a * overhead / labels, b / n
    total = label + reward
    if total == 0.0:
        return 0.0, n - 1.0
    share = label / total
    both = labels if goal.kind == "value" else 2 * labels
    known = max(min(labels - 1.0, 3.0 * both / quality.kurtosis), 1.0)
    return total, 1.0 / (share**2 / known + (1.0 - share) ** 2 / (n - 1.0))


def _width(quality: JudgeQuality, goal: Goal, n: int, labels: int) -> float:
    from scipy.special import stdtrit

    variance, df = _variance(quality, goal, n, labels)
    if goal.kind == "value" and quality.rate is not None and variance > 0.0:
        return _binomial_width(quality, variance, goal.level)
    return 2.0 * float(stdtrit(df, 0.5 + goal.level / 2.0)) * math.sqrt(variance)


def _binomial_width(quality: JudgeQuality, variance: float, level: float) -> float:
    """Width of a rate's interval whose variance is that of `sd ** 2 / variance` binary labels."""
    rate = quality.rate
    assert rate is not None
    unit = quality.sd / math.sqrt(rate * (1.0 - rate))
    trials = np.array([quality.sd**2 / variance])
    low, high = proportion_limits(np.array([rate]), trials, 0.5 - level / 2.0)
    return unit * float(high[0] - low[0])


def _power(quality: JudgeQuality, goal: Goal, n: int, labels: int) -> float:
    """Probability that the two-sided t test detects a difference of the goal's size."""
    from scipy.special import nctdtr, stdtrit

    variance, df = _variance(quality, goal, n, labels)
    if variance == 0.0:
        return 1.0
    critical = float(stdtrit(df, 0.5 + goal.level / 2.0))
    shift = goal.size / math.sqrt(variance)
    if shift > critical + _SURE:
        return 1.0
    # SciPy's noncentral t is NaN in the tail far from its centre; that tail is zero there.
    wrong_side = float(nctdtr(df, shift, -critical)) if shift < _SURE / 2.0 else 0.0
    return float(1.0 - nctdtr(df, shift, critical)) + wrong_side


def _meets(quality: JudgeQuality, goal: Goal, n: int, labels: int) -> bool:
    if goal.kind == "power":
        return _power(quality, goal, n, labels) >= goal.power
    return _width(quality, goal, n, labels) <= goal.size


def _cheapest(
    quality: JudgeQuality, goal: Goal, costs: UnitCosts, variance: float, most: int | None
) -> tuple[int, int]:
    """Prompts and labels of least cost for a variance, before fitting overhead."""
    a, b = _parts(quality, goal)
    ratio = math.sqrt(a * b)
    n = (b + ratio * math.sqrt(costs.label / costs.response)) / variance
    if most is not None and n > most:
        n = float(most)
    left = variance - b / n if n > 0 else variance
    labels = 0.0 if a == 0.0 else (a / left if left > 0 else math.inf)
    if labels > n:  # everything labelled
        n = labels = (a + b) / variance
        if most is not None:
            n = labels = min(n, float(most))
    prompts = max(math.ceil(min(n, 1e12)), MIN_LABELS)
    return prompts, min(max(math.ceil(min(labels, 1e12)), MIN_LABELS), prompts)


def _describe(
    quality: JudgeQuality, goal: Goal, costs: UnitCosts, n: int, labels: int, n_policies: int
) -> Design:
    design = Design(
        n_prompts=n,
        n_labels=labels,
        n_policies=n_policies,
        judge_calls=n * n_policies,
        total_labels=labels * n_policies,
        cost=n_policies * (n * costs.response + labels * costs.label),
        width=_width(quality, goal, n, labels),
    )
    if goal.kind == "power":
        return replace(design, power=_power(quality, goal, n, labels))
    return design
