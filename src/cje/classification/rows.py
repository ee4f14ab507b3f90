"""Input of a metric: scores, outcomes, weights and clusters, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cje.classification._arrays import check_binary, check_groups
from cje.classification._labels import TopLabels, check_multiclass, check_top
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["Kind", "Rows", "check_rows"]

Kind = Literal["binary", "top", "classes"]


@dataclass(frozen=True)
class Rows:
    """Checked rows.

    Attributes
    ----------
    kind : {"binary", "top", "classes"}
        Scores of a 0/1 outcome, of the announced label, or of every class.
    p : array (n,) or (n, K)
        Scores, or distributions.
    y : array (n,)
        Outcomes of 0 and 1; for ``"classes"`` the column of each row's class.
    w : array (n,), optional
    groups : array (n,) of int, optional
    label : array (n,) of int, optional
        For ``"top"``: position of the announced label in `names`.
    names : array (K,), optional
    """

    kind: Kind
    p: FloatArray
    y: NDArray[Any]
    w: FloatArray | None = None
    groups: IntArray | None = None
    label: IntArray | None = None
    names: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.p)

    @cached_property
    def residual(self) -> FloatArray:
        """Outcome less score."""
        return np.asarray(self.y - self.p)

    @property
    def top(self) -> TopLabels:
        """The announced labels with their confidences."""
        assert self.label is not None
        assert self.names is not None
        return TopLabels(self.label, self.p, self.y, self.names)

    def select(self, rows: Any) -> Rows:
        """Some of the rows, their clusters numbered anew."""
        groups = (
            None if self.groups is None else np.unique(self.groups[rows], return_inverse=True)[1]
        )
        return Rows(
            self.kind,
            self.p[rows],
            self.y[rows],
            None if self.w is None else self.w[rows],
            groups,
            None if self.label is None else self.label[rows],
            self.names,
        )


def check_rows(
    kind: Kind,
    y_true: ArrayLike,
    y_prob: Any,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    pos_label: Any = None,
    groups: ArrayLike | None = None,
) -> Rows:
    """Rows of one kind from what a metric of that kind is given, or an error."""
    if kind == "binary":
        if labels is not None:
            raise CJEError("labels belong to the metrics of many classes", value=labels)
        y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
        return Rows(kind, p, y, w, check_groups(groups, len(p)))
    if pos_label is not None:
        raise CJEError("pos_label belongs to the metrics of a 0/1 outcome", value=pos_label)
    if kind == "top":
        top, w = check_top(y_true, y_prob, sample_weight, labels)
        clusters = check_groups(groups, len(top.score))
        return Rows(kind, top.score, top.right, w, clusters, top.label, top.names)
    codes, matrix, w, names = check_multiclass(y_true, y_prob, sample_weight, labels)
    return Rows(kind, matrix, codes, w, check_groups(groups, len(matrix)), names=names)
