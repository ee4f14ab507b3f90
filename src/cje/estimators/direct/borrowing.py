"""The value of a policy by the calibration of all labels, and each label's influence on it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from cje.calibration.rewards.reward_model import RewardModel
from cje.data.folds import get_folds
from cje.estimators.direct.label_pool import LabelPool
from cje.estimators.direct.label_predictor import LabelPredictor
from cje.estimators.plug_in import label_influence, sized_by_jackknife
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import renumbered

__all__ = ["Borrowed", "Borrowing"]

# Clusters are left out one by one up to 200, in 200 groups above: the size of a standard error then
# varies by 1 / sqrt(2 * 199) = 5% with the grouping. With 100 groups it varies by 7%, with 400 by
# 3.5% at twice the time. Fits on many labels are costly, and 50 groups vary by 10%.
_GROUPS, _GROUPS_OF_MANY, _MANY_LABELS = 200, 50, 20_000


class Borrowed(NamedTuple):
    """A borrowed value: influence of its rows per unit of weight, and of every pooled label."""

    value: float
    by_score: FloatArray
    by_label: FloatArray


class Borrowing:
    """Means of calibrated rewards, with a jackknife over labelled clusters.

    Which clusters share a group does not depend on the seed of the cross-fitting folds.
    """

    def __init__(self, predictor: LabelPredictor, pool: LabelPool) -> None:
        self.predictor = predictor
        self.pool = pool

    @property
    def degrees_of_freedom(self) -> float:
        """Groups of labelled clusters, less one."""
        return float(self._groups.max())

    def value(self, scores: FloatArray, x: FloatArray | None, u: FloatArray) -> Borrowed:
        """The mean reward of rows with weights `u`."""
        pool, predictor = self.pool, self.predictor
        reward = predictor.reward(scores, x)
        value = float(u @ reward)
        fitted = predictor.reward(pool.scores, pool.covariates)
        moved = label_influence(reward, u, fitted, pool.labels, pool.weights)
        index = predictor.index(scores)
        without = np.array([u @ fit.predict(index, x) for fit in self._without])
        moved = sized_by_jackknife(moved, without, self._groups, pool.clusters)
        return Borrowed(value, reward - value, moved)

    @cached_property
    def _groups(self) -> IntArray:
        """Group of each label: its cluster, or a group of clusters by their names' hash."""
        cluster, n = renumbered(self.pool.clusters)
        most = _GROUPS if len(cluster) <= _MANY_LABELS else _GROUPS_OF_MANY
        if n <= most:
            return cluster
        return renumbered(get_folds(self.pool.names, most, 0))[0]

    @cached_property
    def _without(self) -> list[RewardModel]:
        groups = self._groups
        order = np.argsort(groups, kind="stable")
        ends = np.cumsum(np.bincount(groups))[:-1]
        return [self.predictor.fitted.leave_out(rows) for rows in np.split(order, ends)]
