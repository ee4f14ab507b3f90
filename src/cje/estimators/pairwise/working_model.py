r"""The human verdict predicted from the judge's, the two policies, the order and the style.

.. math:: h_u = \alpha_{a} - \alpha_{b} + b\, j_u + \delta\, s_u + x_u^\top \kappa + e_u

with h and j the human's and the judge's verdict minus one half, s = +1 where a was shown first and
-1 where b was, x the difference in style. Least squares on the comparisons with a human verdict,
weighted by 1 / propensity. The model need not be right: what it misses is added back from the
labelled comparisons. Its order term is the human's position bias; with order +-1 on both sides of
a pair it is estimated from them, otherwise from the other pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cje.estimators.pairwise.units import Units, order_is_free
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["Slope", "WorkingModel", "fit_working_model", "judge_position"]

_RIDGE = 0.5  # ridge on each policy effect, in comparisons, for policies without labels
_TINY = 1e-9
_MAX_LEVERAGE = 0.9


@dataclass(frozen=True)
class Slope:
    """A coefficient with the influence of each unit on it (zeros where it was not estimated)."""

    value: float
    influence: FloatArray


@dataclass(frozen=True)
class WorkingModel:
    """A fitted working model.

    Attributes
    ----------
    features : array (n, m)
        Of every unit, the order column that of its human verdict (0 without one).
    coefficients : array (m,)
    labelled : int array (l,)
        Units with a human verdict; what follows is per labelled unit.
    weight : array (l,)
        1 / propensity, mean one.
    residual : array (l,)
        Human verdict minus one half minus prediction.
    pull : array (l, m)
        Change of the coefficients per unit of residual.
    leverage : array (l,)
    judge_slope : Slope
        The judge's position bias, which has been taken out of its verdicts.
    judge_pull : array (m,)
        Change of the coefficients with that bias.
    judge_side : array (n,)
    position : int, optional
        Column of the order term; None where it is collinear with the policies.
    judge_column : int, optional
    style_columns : slice
    """

    features: FloatArray
    coefficients: FloatArray
    labelled: IntArray
    weight: FloatArray
    residual: FloatArray
    pull: FloatArray
    leverage: FloatArray
    judge_slope: Slope
    judge_pull: FloatArray
    judge_side: FloatArray
    position: int | None
    judge_column: int | None
    style_columns: slice

    @property
    def judge_weight(self) -> float:
        """Slope of the humans' verdict on the judge's; 0 without a judge."""
        return 0.0 if self.judge_column is None else float(self.coefficients[self.judge_column])

    @property
    def sigma(self) -> float:
        """Standard deviation of the residuals."""
        return float(np.sqrt(np.mean(self.residual**2))) if len(self.residual) else 0.0

    @property
    def inflation(self) -> FloatArray:
        """HC2: factors that make the squares of residuals unbiased (MacKinnon & White 1985)."""
        return np.asarray(1.0 / np.sqrt(1.0 - np.minimum(self.leverage, _MAX_LEVERAGE)))

    def targets(self, *, equal_style: bool) -> FloatArray:
        """(n, m) features to predict at: no order, and no difference in style where wanted."""
        found = self.features.copy()
        if self.position is not None:
            found[:, self.position] = 0.0
        if equal_style:
            found[:, self.style_columns] = 0.0
        return found

    def coefficient(self, column: int) -> tuple[float, FloatArray]:
        """A coefficient and the influence of each labelled unit on it."""
        return float(self.coefficients[column]), self.pull[:, column] * (
            self.residual * self.inflation
        )


def judge_position(units: Units) -> Slope:
    r"""The judge's position bias where each comparison was judged in one order.

    The slope of its verdict on the order, given the two policies; zero where the order is collinear
    with the policies.
    """
    n = len(units)
    rows = np.flatnonzero(~np.isnan(units.judge) & (units.judge_side != 0.0))
    if not order_is_free(units, np.where(np.isnan(units.judge), 0.0, units.judge_side)):
        return Slope(0.0, np.zeros(n))
    design, side = units.design[rows], units.judge_side[rows]
    own = _apart_from(design, side)
    size = float(own @ own)
    if size <= 1e-6 * len(rows):
        return Slope(0.0, np.zeros(n))
    verdict = units.judge[rows] - 0.5
    value = float(own @ verdict) / size
    residual = _apart_from(design, verdict) - value * own
    influence = np.zeros(n)
    influence[rows] = own * residual / size
    return Slope(value, influence)


def fit_working_model(units: Units, *, position: bool) -> WorkingModel:
    """Fit by weighted least squares; without labels the judge's verdict is taken as it is."""
    labelled = np.flatnonzero(units.labelled)
    slope = judge_position(units) if position else Slope(0.0, np.zeros(len(units)))
    has_judge = bool((~np.isnan(units.judge)).any())
    columns = [units.design]
    judge_side = np.where(np.isnan(units.judge), 0.0, units.judge_side)
    judge_column = order = None
    if has_judge:
        judge_column = units.design.shape[1]
        seen = np.where(np.isnan(units.judge), 0.5, units.judge) - 0.5 - slope.value * judge_side
        columns.append(seen[:, None])
    first_style = sum(part.shape[1] for part in columns)
    columns.append(units.style)
    after = first_style + units.style.shape[1]
    side = np.where(units.labelled, units.human_side, 0.0)
    if position and order_is_free(units, side) and _varies(units.design[labelled], side[labelled]):
        order = after
        columns.append(side[:, None])
    features = np.hstack(columns)
    weight = np.ones(len(labelled))
    if units.propensity is not None:
        weight = 1.0 / units.propensity[labelled]
        weight = weight / weight.mean()
    own = features[labelled]
    penalty = np.full(features.shape[1], _TINY * max(len(labelled), 1))
    penalty[: units.design.shape[1]] = _RIDGE
    gram = (own * weight[:, None]).T @ own + np.diag(penalty)
    pull = np.asarray(np.linalg.solve(gram, (own * weight[:, None]).T).T, np.float64)
    verdict = units.human[labelled] - 0.5
    coefficients = pull.T @ verdict
    if not len(labelled) and judge_column is not None:
        coefficients[judge_column] = 1.0
    judge_pull = np.zeros(features.shape[1])
    if judge_column is not None:
        judge_pull = pull.T @ (judge_side[labelled] * coefficients[judge_column])
    return WorkingModel(
        features=features,
        coefficients=coefficients,
        labelled=labelled,
        weight=weight,
        residual=verdict - own @ coefficients,
        pull=pull,
        leverage=np.einsum("im,im->i", own, pull),
        judge_slope=slope,
        judge_pull=judge_pull,
        judge_side=judge_side,
        position=order,
        judge_column=judge_column,
        style_columns=slice(first_style, after),
    )


def _varies(design: FloatArray, side: FloatArray) -> bool:
    """Whether the order varies beyond what the policies explain."""
    own = _apart_from(design, side)
    return bool(float(own @ own) > 1e-6 * max(len(side), 1))


def _apart_from(design: FloatArray, values: FloatArray) -> FloatArray:
    """Residuals of a regression on the policies."""
    if not len(values):
        return values
    fitted = np.linalg.lstsq(design, values, rcond=None)[0]
    return np.asarray(values - design @ fitted)
