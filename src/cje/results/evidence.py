"""The rows behind a result, for its report.

These are references to existing arrays, so they cost nothing. Nothing is computed before a report
or a picture needs it, and nothing of it is written to JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cje.data.dataset import Dataset
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["Evidence"]


def _no_rows() -> IntArray:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows, predictions and weights behind a result.

    Parameters
    ----------
    dataset : Dataset
        Fresh draws, or the logged rows of an off-policy estimate.
    labelled : int array (m,)
        Labelled rows that have a prediction.
    predicted : array (m,)
        Their labels predicted out of fold, on [0, 1].
    weights : array (n, K), optional
        Importance weights with mean one, one column per target policy.
    projected : array (n, K), optional
        The same weights after the projection on the judge score.
    predict : function, optional
        The labels predicted for the rows of an index, on [0, 1].
    """

    dataset: Dataset
    labelled: IntArray = field(default_factory=_no_rows)
    predicted: FloatArray = field(default_factory=lambda: np.zeros(0))
    weights: FloatArray | None = None
    projected: FloatArray | None = None
    predict: Callable[[IntArray], FloatArray] | None = None
