r"""Rectified win rates: of one policy against others, or of one pair.

.. math:: \hat\theta = \tfrac12 + \sum_u \omega_u o_u \hat f_u
          + \sum_{u \in L} w_u o_u (h_u - \hat f_u)

over the comparisons the policy takes part in: o = +1 or -1 is its side, :math:`\omega` weights
every opponent (and every prompt) equally, w is :math:`\propto \omega / \pi` on the comparisons with
a human verdict, both sum to one. The prediction of the first sum is made at no order (and at equal
style, where style is controlled), that of the second at the order and style the humans saw, so the
difference removes the position bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cje.estimators.identical_labels import unseen_variance
from cje.estimators.pairwise.units import Units
from cje.estimators.pairwise.working_model import WorkingModel
from cje.inference import SAMPLE_LABELS, SAMPLING, Component, InfluenceEstimate
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["Cell", "join_cells", "pair_cell", "policy_cell", "win_rate"]

_NO_SPREAD = 1e-9
_NO_SHIFT = 1e-14


@dataclass(frozen=True)
class Cell:
    """A win rate with its influence.

    Attributes
    ----------
    value : float
        Within [0, 1].
    rows, labels, prompts : int
        Comparisons, those with a human verdict, and the prompts of these.
    by_unit : array (n,)
        Influence of the judged comparisons.
    by_label : array (l,)
        Influence of each human verdict.
    label_weight : array (l,)
        Change of the value per unit of a verdict's residual.
    unseen : float
        Variance assumed where the verdicts show none.
    identical : bool
        Whether all human verdicts are the same.
    """

    value: float
    rows: int
    labels: int
    prompts: int
    by_unit: FloatArray
    by_label: FloatArray
    label_weight: FloatArray
    unseen: float
    identical: bool


def policy_cell(units: Units, policy: int, among: FloatArray) -> FloatArray:
    """(n,) signed weights of a policy's comparisons: equal over opponents, and over prompts in
    each.

    `among` is 1 for the comparisons that count, 0 for the others.
    """
    sign = units.sign(policy) * among
    opponent = np.where(sign > 0, units.high, units.low)
    return _alike(sign, opponent, units)


def pair_cell(units: Units, a: int, b: int) -> FloatArray:
    """(n,) signed weights of the comparisons of two policies, for `a`."""
    both = (units.low == min(a, b)) & (units.high == max(a, b))
    return _alike(units.sign(a) * both, np.zeros(len(units), dtype=np.int64), units)


def _alike(sign: FloatArray, opponent: IntArray, units: Units) -> FloatArray:
    """Weights of sum one over opponents of equal weight, over prompts of equal weight in each."""
    rows = np.flatnonzero(sign)
    signed = np.zeros(len(sign))
    if not len(rows):
        return signed
    key = opponent[rows] * (int(units.prompt.max()) + 1) + units.prompt[rows]
    _, place, repeats = np.unique(key, return_inverse=True, return_counts=True)
    weight = 1.0 / repeats[place]
    total = np.bincount(opponent[rows], weight)
    signed[rows] = sign[rows] * weight / total[opponent[rows]] / np.count_nonzero(total)
    return signed


def win_rate(units: Units, model: WorkingModel, signed: FloatArray, targets: FloatArray) -> Cell:
    """The win rate over the comparisons of nonzero signed weight."""
    beta, own = model.coefficients, model.labelled
    rows = np.flatnonzero(signed)  # one pair of many: few of all comparisons
    centre = signed[rows] @ targets[rows]
    predicted = float(centre @ beta)
    by_unit = np.zeros(len(units))
    by_unit[rows] = signed[rows] * (targets[rows] @ beta) - np.abs(signed[rows]) * predicted
    side = np.sign(signed[own])
    raw = np.abs(signed[own]) * model.weight
    mine = np.flatnonzero(raw)
    n_labels = len(mine)
    if not n_labels:
        nothing = np.zeros(len(own))
        return Cell(
            _within(0.5 + predicted), len(rows), 0, 0, by_unit, nothing, nothing,
            0.0, False,
        )  # fmt: skip
    w = raw / raw.sum()
    seen = (w * side)[mine] @ model.features[own[mine]]
    oriented = side * model.residual
    mean = float(w @ oriented)
    shift = centre - seen
    moved = np.flatnonzero(np.abs(shift) > _NO_SHIFT)
    through = model.pull[:, moved] @ shift[moved]
    leverage = np.maximum(w + model.leverage - 1.0 / len(own), 0.0)
    inflation = 1.0 / np.sqrt(1.0 - np.minimum(leverage, 0.9))
    by_label = (w * (oriented - mean) + through * model.residual) * inflation
    judge = -model.judge_weight * float(
        signed @ model.judge_side - (w * side) @ model.judge_side[own]
    )
    by_unit += (judge + float(shift @ model.judge_pull)) * model.judge_slope.influence
    verdicts = (side * (units.human[own] - 0.5))[raw > 0]
    flat = float(np.ptp(oriented[raw > 0])) < _NO_SPREAD
    return Cell(
        _within(0.5 + predicted + mean),
        len(rows),
        n_labels,
        len(np.unique(units.prompt[own[mine]])),
        by_unit,
        by_label,
        w * side + through,
        unseen_variance(1.0 / float(w @ w)) if flat else 0.0,
        float(np.ptp(verdicts)) == 0.0,
    )


def join_cells(
    names: list[str], cells: list[Cell], units: Units, model: WorkingModel
) -> InfluenceEstimate:
    """The win rates as one estimate, clustered by prompt."""
    n_prompts = len(units.prompts)
    of_label = units.prompt[model.labelled]
    by_unit = np.column_stack([cell.by_unit for cell in cells])
    by_label = np.column_stack([cell.by_label for cell in cells])
    weight = np.column_stack([cell.label_weight for cell in cells])
    return InfluenceEstimate(
        tuple(names),
        np.array([cell.value for cell in cells]),
        tuple(
            components(
                cluster_sums(by_unit, units.prompt, n_prompts),
                cluster_sums(by_label, of_label, n_prompts),
                spread_of(weight, model.sigma, of_label, n_prompts),
                np.array([cell.unseen for cell in cells]),
            )
        ),
        units.prompts,
        (0.0, 1.0),
    )


def components(
    by_unit: FloatArray, by_label: FloatArray, spread: FloatArray, unseen: FloatArray
) -> list[Component]:
    """Sampling of the comparisons, and of the human verdicts among them."""
    found = [Component(SAMPLING, by_unit)]
    if by_label.any() or spread.any():
        found.append(Component(SAMPLE_LABELS, by_label, spread=spread))
    if unseen.any():
        found.append(Component(SAMPLE_LABELS, covariance=np.diag(unseen)))
    return found


def spread_of(weight: FloatArray, sigma: float, prompt: IntArray, n_prompts: int) -> FloatArray:
    """(G, K) size of each prompt's label part: root of the sum of squared weights, times sigma."""
    total = cluster_sums(weight, prompt, n_prompts)
    size = np.sqrt(cluster_sums(weight**2, prompt, n_prompts))
    return np.asarray(np.where(total < 0, -size, size) * sigma)


def _within(value: float) -> float:
    return float(np.clip(value, 0.0, 1.0))
