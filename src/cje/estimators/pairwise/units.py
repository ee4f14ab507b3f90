"""Rows of presentations -> one unit per comparison, seen from the policy with the lower code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cje.data.codes import Codes, Strings
from cje.data.comparisons import Comparisons
from cje.errors import CJEError
from cje.estimators.rows import check_covariates
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.clusters import cluster_means, cluster_sums

__all__ = ["Units", "make_units", "order_is_free"]


@dataclass(frozen=True)
class Units:
    """One row per comparison of two policies on one prompt.

    Attributes
    ----------
    prompt : int array
        Cluster of each unit.
    low, high : int array
        Codes of the two policies, ``low < high``. Verdicts are those for `low`.
    judge, human : array
        Mean verdict, with equal weight for both orders; NaN where there is none.
    judge_side, human_side : array
        Mean of +1 (`low` shown first) and -1 (`high` first) over the orders seen; 0 where both
        were, or where nothing was shown side by side.
    swing : array
        Half the gap between the judge's verdicts for `low` in the two orders; NaN unless both were
        asked. Its mean is the advantage of being shown first.
    propensity : array, optional
    style : array (n, p)
        Covariates, `low` minus `high`.
    groups : mapping name -> Codes
    policies, prompts : names, in the order of their codes
    """

    prompt: IntArray
    low: IntArray
    high: IntArray
    judge: FloatArray
    judge_side: FloatArray
    swing: FloatArray
    human: FloatArray
    human_side: FloatArray
    propensity: FloatArray | None
    style: FloatArray
    groups: Mapping[str, Codes]
    policies: tuple[str, ...]
    prompts: Strings

    def __len__(self) -> int:
        return len(self.prompt)

    @property
    def labelled(self) -> BoolArray:
        """Units with a human verdict."""
        return ~np.isnan(self.human)

    @property
    def design(self) -> FloatArray:
        """(n, K): +1 for `low`, -1 for `high`."""
        rows = np.arange(len(self))
        found = np.zeros((len(self), len(self.policies)))
        found[rows, self.low] = 1.0
        found[rows, self.high] = -1.0
        return found

    def sign(self, policy: int) -> FloatArray:
        """+1 where the policy is `low`, -1 where it is `high`, 0 where it takes no part."""
        return np.asarray((self.low == policy).astype(float) - (self.high == policy))


def order_is_free(units: Units, side: FloatArray) -> bool:
    """Whether the order varies beyond what the policies explain.

    Where one does, the advantage of being shown first cannot be distinguished from the policies.
    """
    turned = side < 0.0
    ahead = np.where(turned, units.high, units.low), np.where(turned, units.low, units.high)
    shown = {(int(a), int(b)) for a, b in np.unique(np.stack(ahead)[:, side != 0.0], axis=1).T}
    left = {policy for pair in shown for policy in pair}
    while left:
        last = {k for k in left if not any(a == k and b in left for a, b in shown)}
        if not last:
            return True
        left -= last
    return False


def make_units(data: Comparisons, style: Sequence[str]) -> Units:
    """Fold rows of one prompt, pair and item into one unit.

    Raises
    ------
    CJEError
        An unknown or incomplete covariate; a labelled comparison without a propensity where others
        have one.
    """
    if not len(data):
        raise CJEError("there are no comparisons")
    prompts = data.prompt_id.compact()
    used, codes = np.unique(np.stack([data.first.codes, data.second.codes]), return_inverse=True)
    first, second = codes.reshape(2, -1)
    low, high = np.minimum(first, second), np.maximum(first, second)
    keys = np.column_stack([prompts.codes, low, high, data.item])
    found, row, unit = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    unit = unit.reshape(-1)
    n = len(found)
    sign = np.where(first == low, 1.0, -1.0)
    side = np.where(data.shown, sign, 0.0)
    judge, judge_side, swing = _over_orders(data.judge, sign, side, unit, n)
    human, human_side, _ = _over_orders(data.human, sign, side, unit, n)
    matrix = _style(data, style)
    return Units(
        prompt=found[:, 0],
        low=found[:, 1],
        high=found[:, 2],
        judge=judge,
        judge_side=judge_side,
        swing=swing,
        human=human,
        human_side=human_side,
        propensity=_propensity(data, unit, n, human),
        style=cluster_sums(matrix * sign[:, None], unit, n) / np.bincount(unit)[:, None],
        groups={name: codes.take(row) for name, codes in data.groups.items()},
        policies=tuple(data.policies[code] for code in used.tolist()),
        prompts=prompts.vocabulary,
    )


def _over_orders(
    verdict: FloatArray, sign: FloatArray, side: FloatArray, unit: IntArray, n: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Verdict for `low`, side and swing of each unit: the mean of the orders' means."""
    given = ~np.isnan(verdict)
    for_low = np.where(sign > 0, verdict, 1.0 - verdict)
    means = np.full((3, n), np.nan)
    for k, where in enumerate((-1.0, 0.0, 1.0)):
        rows = given & (side == where)
        means[k] = cluster_means(for_low[rows], unit[rows], n)
    known = ~np.isnan(means)
    count = np.maximum(known.sum(axis=0), 1)
    value = np.where(known.any(axis=0), np.nansum(means, axis=0) / count, np.nan)
    mean_side = (known[2].astype(float) - known[0]) / count
    return value, mean_side, 0.5 * (means[2] - means[0])


def _style(data: Comparisons, names: Sequence[str]) -> FloatArray:
    check_covariates(data.covariates, names)
    if not names:
        return np.zeros((len(data), 0))
    return np.column_stack([data.covariates[name] for name in names])


def _propensity(data: Comparisons, unit: IntArray, n: int, human: FloatArray) -> FloatArray | None:
    """Each labelled unit's propensity; None where none is recorded."""
    if data.label_propensity is None:
        return None
    known = data.is_labelled & ~np.isnan(data.label_propensity)
    if not known.any():
        return None
    found = cluster_means(data.label_propensity[known], unit[known], n)
    lacking = ~np.isnan(human) & np.isnan(found)
    if lacking.any():
        raise CJEError(
            f"{int(lacking.sum())} comparisons with a human verdict have no label_propensity and "
            "others have one",
            hint="record it on all of them, or leave the column out",
        )
    return found
