r"""Raters as a sample of raters: the variance of a value from their choice.

Rater j gave label :math:`y_{ij} = \bar y_i + d_{ij}` to row i, one of :math:`m_i` raters. With the
weights :math:`w_i` of the value and residuals :math:`r_i` of the rows' mean labels, rater j's share
of the error is

.. math:: \psi_j = \sum_i \frac{w_i}{m_i} (r_i + d_{ij}).

Without effects of raters the sum of its squares is about
:math:`E_0 = \sum_i w_i^2 r_i^2 (1/m_i - 1/J) + \sum_{ij} (w_i/m_i)^2 d_{ij}^2`, with the raters'
mean errors taken out of r and d (times n / (n - J) for that). The sum, each square divided by one
minus the rater's share :math:`c_j` (HC2), less :math:`(1 - 1/(J-1)) E_0`, is the variance from the
choice of J raters (two-way clustering by rows and raters; Cameron, Gelbach & Miller 2011), known to
:math:`d = (1 - 1/J) (\sum c_j^2)^2 / \sum c_j^4` degrees of freedom. Three raters estimate it so
imprecisely that subtracting all of :math:`E_0` away, and Satterthwaite's formula with an estimated
share s of the variance, leave coverage at 91%: hence the factor, and d s degrees of freedom, which
turn :math:`s^2/d` into :math:`s/d` there. Policies that the same raters labelled share it, so most
of it cancels in a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cje.checks import check_choice
from cje.data import RaterLabels
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.hints import field_hint, option_hint
from cje.inference import Component
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_means, cluster_sums

__all__ = ["MODES", "RaterShare", "rater_component", "rater_role"]

MODES = ("auto", "random", "fixed")
_MAX_SHARE = 0.9
_SAMPLE_FROM = 3  # raters: two leave one degree of freedom and useless intervals


@dataclass(frozen=True)
class RaterShare:
    """The labelled rows a value rests on: weights (summing to one) and residuals."""

    rows: IntArray
    weight: FloatArray
    residual: FloatArray


@dataclass(frozen=True)
class RaterRole:
    """Whether raters are a sample of raters, and what the values then mean."""

    role: str  # random, fixed, one or unknown
    n_raters: int

    @property
    def quantity(self) -> str:
        """What is estimated."""
        return {
            "random": f"mean label by raters like these {self.n_raters}",
            "fixed": f"mean label by these {self.n_raters} raters",
            "one": "mean label by one rater",
        }.get(self.role, "mean label")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"role": self.role, "n_raters": self.n_raters}


def rater_role(data: Dataset, mode: str) -> RaterRole:
    """What `mode` means for the raters of the data: with three or more they are a sample.

    Raises
    ------
    CJEError
        For another mode than `MODES`, and for ``"random"`` where no raters are known.
    """
    check_choice("raters", mode, MODES)
    if data.rater_labels is None or not len(data.rater_labels):
        if mode == "random":
            raise CJEError(
                f"{option_hint('raters', 'random')} needs the rater of each label",
                hint=f"name the column of the raters: {field_hint('rater', 'your_column')}",
            )
        return RaterRole("unknown", 0)
    n = len(np.unique(data.rater_labels.rater.codes))
    if n == 1:
        return RaterRole("one", 1)
    if mode == "auto":
        mode = "random" if n >= _SAMPLE_FROM else "fixed"
    return RaterRole(mode, n)


def rater_component(data: Dataset, shares: list[RaterShare]) -> Component | None:
    """The variance of every value from the choice of raters; None where they show none."""
    assert data.rater_labels is not None
    kept = np.flatnonzero(data.is_labelled[data.rater_labels.row])
    labels = data.rater_labels
    labels = RaterLabels(labels.row[kept], labels.rater.take(kept), labels.value[kept])
    _, rater = np.unique(labels.rater.codes, return_inverse=True)
    n_raters = int(rater.max()) + 1
    if n_raters < 2:
        return None
    own = labels.value - data.oracle_label[labels.row]  # d_ij
    per_row = np.bincount(labels.row, minlength=len(data)).astype(np.float64)
    by_rater = np.empty((n_raters, len(shares)))
    chance, rest = np.empty(len(shares)), np.empty(len(shares))
    df = n_raters - 1.0
    for k, share in enumerate(shares):
        weight, residual = np.zeros(len(data)), np.zeros(len(data))
        weight[share.rows], residual[share.rows] = share.weight, share.residual
        each = weight[labels.row] / per_row[labels.row]
        by_rater[:, k] = cluster_sums(each * (residual[labels.row] + own), rater, n_raters)
        total = cluster_sums(each, rater, n_raters)
        effect = (by_rater[:, k] / np.where(total > 0, total, 1.0))[rater]
        shared = cluster_means(effect, labels.row, len(data))  # NaN without labels
        rows = share.rows[per_row[share.rows] > 0]
        spread = (weight[rows] * (residual[rows] - shared[rows])) ** 2
        chance[k] = float(spread @ (1.0 / per_row[rows] - 1.0 / n_raters))
        alone = each * (own - effect + shared[labels.row])
        chance[k] += float(alone @ alone)
        chance[k] *= len(rows) / max(len(rows) - n_raters, 1.0)
        # HC2: a rater with a large share pulls the mean towards their own labels.
        inflation = 1.0 / (1.0 - np.minimum(total, _MAX_SHARE))
        by_rater[:, k] *= np.sqrt(inflation)
        chance[k] *= float(total @ inflation)
        if total.any():
            even = float(total @ total) ** 2 / float(total**2 @ total**2)
            df = min(df, (1.0 - 1.0 / n_raters) * even)
        rest[k] = float(spread.sum())
    taken = 1.0 - 1.0 / (n_raters - 1.0)
    values, vectors = np.linalg.eigh(by_rater.T @ by_rater - taken * np.diag(chance))
    values = np.maximum(values, 0.0)
    if not values.any():
        return None
    between = (vectors * values) @ vectors.T
    part = np.diag(between) / np.maximum(np.diag(between) + rest, 1e-300)
    return Component("raters", covariance=between, df=max(df * float(part.min()), 1.0))
