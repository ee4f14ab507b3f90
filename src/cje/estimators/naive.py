"""`naive`: the judge's mean, for comparison, marked as uncalibrated."""

from __future__ import annotations

from typing import Any

import numpy as np

from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.estimators.rows import cells_of, draw_weights, require_scores
from cje.findings import Finding
from cje.findings.labels import UNCALIBRATED
from cje.inference import InfluenceEstimate
from cje.kernels.clusters import cluster_sums
from cje.results.evidence import Evidence
from cje.results.result import EstimationResult

__all__ = ["NaiveEstimator"]


class NaiveEstimator:
    r"""Mean judge score of each policy: :math:`\frac1N \sum_i S_i`, clustered by prompt.

    Its interval covers the mean *score*. It covers the mean *label* only for a judge without bias,
    which is not checked here; the result therefore has a refusing finding.
    """

    def __init__(self, dataset: Dataset, *, level: float = 0.95) -> None:
        self.dataset = dataset
        self.level = level

    def fit_and_estimate(self) -> EstimationResult:
        """The mean judge score of every policy, on the judge's own scale."""
        return self._estimate(self.dataset.policy.compact()).with_(evidence=Evidence(self.dataset))

    def audit(self) -> tuple[dict[str, Any], list[Finding]]:
        """No diagnostics, and the one finding: nothing is calibrated."""
        return {}, [UNCALIBRATED.finding()]

    def estimate_by(self, column: str) -> EstimationResult:
        """The same within each level of a subgroup column."""
        return self._estimate(cells_of(self.dataset, column))

    def _estimate(self, cells: Codes) -> EstimationResult:
        data = self.dataset
        require_scores(data, "naive")
        prompts = data.units.compact()
        counts = cells.counts()
        weights = draw_weights(data, cells)
        u = 1.0 / counts[cells.codes] if weights is None else weights
        values = cluster_sums(u * data.judge_score, cells.codes, cells.n_names)
        row = u * (data.judge_score - values[cells.codes])
        influence = np.zeros((prompts.n_names, cells.n_names))
        for k in range(cells.n_names):
            rows = np.flatnonzero(cells.codes == k)
            influence[:, k] = cluster_sums(row[rows], prompts.codes[rows], prompts.n_names)
        scale = data.judge_scale
        estimate = InfluenceEstimate.from_influence(
            cells.names,
            np.clip(values, 0.0, 1.0),
            influence,
            clusters=prompts.vocabulary,
            bounds=(0.0, 1.0),
        ).rescaled(scale.width, scale.low)
        return EstimationResult(
            "naive",
            estimate,
            metadata={
                "n_rows": dict(zip(cells.names, counts.tolist(), strict=True)),
                "n_labels": dict.fromkeys(cells.names, 0),
                "level": self.level,
                "quantity": "mean judge score (uncalibrated)",
                "scale": [scale.low, scale.high],
            },
            findings=tuple(self.audit()[1]),
        )
