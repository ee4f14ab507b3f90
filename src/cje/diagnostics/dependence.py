"""Are label errors correlated within conversations, users or documents that are not clusters?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cje.findings import Finding
from cje.findings.labels import CLUSTER_NOT_USED
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_means

__all__ = ["ClusterDependence", "cluster_dependence"]


@dataclass(frozen=True)
class ClusterDependence:
    """Intraclass correlation of prompts' mean errors within the groups of a column.

    Attributes
    ----------
    column : str
    icc : float
        From a one-way analysis of variance (Fisher 1925).
    p_value : float
        Of its F test.
    factor : float
        How much wider intervals of the label part would be: the root of the design effect
        :math:`1 + (\\sum n_i^2 / \\sum n_i - 1)\\, icc` (Kish 1965).
    """

    column: str
    icc: float
    p_value: float
    factor: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    def findings(self) -> list[Finding]:
        """A warning where the dependence is beyond chance and noticeable."""
        limits = CLUSTER_NOT_USED
        if self.p_value >= limits["p_value"] or self.factor < limits["factor"]:
            return []
        return [limits.finding(details=self.to_dict(), **self.to_dict())]


def cluster_dependence(
    column: str, error: FloatArray, prompts: IntArray, groups: IntArray
) -> ClusterDependence | None:
    """Test whether errors depend on `groups` beyond prompts; None where nothing can be tested.

    Parameters
    ----------
    column : str
        Name of the column.
    error : array (n,)
        Residuals of labels, out of fold.
    prompts, groups : int array (n,)
        Each label's prompt, and the value of the column.

    Examples
    --------
    >>> error = np.repeat([-1.0, 1.0, 0.0, 2.0], 3) + np.tile([-0.1, 0.0, 0.1], 4)
    >>> found = cluster_dependence("user", error, np.arange(12), np.repeat(np.arange(4), 3))
    >>> round(found.icc, 3), found.p_value < 0.001
    (0.994, True)
    """
    from scipy.special import fdtrc

    _, first, prompt = np.unique(prompts, return_index=True, return_inverse=True)
    mean = cluster_means(error, prompt, len(first))
    _, group = np.unique(groups[first], return_inverse=True)
    n, sizes = len(mean), np.bincount(group).astype(np.float64)
    k = len(sizes)
    if k < 2 or n <= k:
        return None
    centre = cluster_means(mean, group, k)
    between = float(sizes @ (centre - mean.mean()) ** 2) / (k - 1.0)
    within = float(((mean - centre[group]) ** 2).sum()) / (n - k)
    if within <= 0.0:
        return None
    typical = (n - float(sizes @ sizes) / n) / (k - 1.0)
    icc = (between - within) / (between + (typical - 1.0) * within)
    effect = 1.0 + (float(sizes @ sizes) / n - 1.0) * max(icc, 0.0)
    p = float(fdtrc(k - 1.0, n - k, between / within))
    return ClusterDependence(column, float(icc), p, float(np.sqrt(effect)))
