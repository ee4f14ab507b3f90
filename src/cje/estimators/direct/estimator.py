"""`direct`: policy values from fresh draws, a calibrated judge and labels on a slice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.estimators.direct.audit import audit_labels
from cje.estimators.direct.auto_covariates import covariate_finding
from cje.estimators.direct.borrowing import Borrowing
from cje.estimators.direct.cells import (
    Cell,
    Labels,
    few_label_component,
    label_components,
    sampling_component,
    to_bound,
)
from cje.estimators.direct.findings import cell_findings, copy_findings, weighting_findings
from cje.estimators.direct.fitting import fit_automatically, fit_with
from cje.estimators.direct.label_pool import MIN_CLUSTERS
from cje.estimators.direct.own_labels import ENTER_FROM
from cje.estimators.direct.raters import rater_component, rater_role
from cje.estimators.direct.rectifier import (
    Slope,
    own_slope,
    shrunken_slopes,
)
from cje.estimators.direct.sample import sample_of
from cje.estimators.direct.selection import selection_findings, with_labelling_model
from cje.estimators.direct.valuation import Valuation
from cje.estimators.judge_curve import judge_curve
from cje.estimators.rows import cells_of, covariate_matrix
from cje.findings import Finding
from cje.hints import by_interface
from cje.inference import Component, InfluenceEstimate
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_means, count_distinct
from cje.results.evidence import Evidence
from cje.results.result import EstimationResult

if TYPE_CHECKING:
    from cje.data.streaming import StreamedRows

__all__ = ["DirectEstimator"]


class DirectEstimator:
    r"""Calibrated mean of fresh draws, corrected by each policy's own labels.

    For policy p with N responses, :math:`f` a prediction of the label cross-fitted on the labels of
    all policies, and n labels of its own with weights :math:`w_i \propto 1/\pi_i` (summing to one):

    .. math:: \hat V_p = \frac1N \sum_i \lambda_p f(S_i)
              + \sum_{i \in L_p} w_i \left(Y_i - \lambda_p f(S_i)\right)

    The slope :math:`\lambda_p` minimises the variance (least squares), shrunk to the slope all
    policies share. :math:`\lambda = 1` is AIPW, the raw score in place of f is PPI++. The estimate
    is consistent whatever f is, as long as labels were chosen at random (or with the given
    `label_propensity`); a good f makes its interval short.

    A policy with labels on fewer than `min_labels` clusters (prompts, or what contains them) is
    **borrowed**: its value is the mean calibrated reward, right only if the judge -> label relation
    is the same as for the labelled policies; the uncertainty of the labels enters by a jackknife
    over labelled clusters, and every number that depends on it is marked. From three labels of
    its own, the value moves to the rectified mean as far as those labels show an offset, and the
    interval is that of the rectified mean.

    Parameters
    ----------
    dataset : Dataset or StreamedRows
        Fresh draws, in memory or read in parts; each prompt counts once per policy, however many
        draws it has.
    calibration_data : sequence of Dataset
        Further labelled rows to learn f from; they correct no policy's value. Rows that
        repeat fresh draws (the same responses, scores and labels) count once.
    covariates : sequence of str, or "auto"
        Columns of `dataset.covariates` for the prediction, such as ``("response_length",)``.
        ``"auto"``: length and format of the responses (from their text, or a column of lengths),
        and with `text_model` what they say, where that lowers the out-of-fold error by more than
        a standard error.
    text_model : path, optional
        A folder with a model2vec model, which embeds the text of the responses for ``"auto"``
        (extra ``text``). Nothing is ever downloaded.
    n_folds, seed : int
        Folds of clusters for cross-fitting.
    mode : {"auto", "monotone", "two_stage"}
        Calibration mode. If requested, ``"monotone"`` predicts from the ranks of the scores: values
        do not change under an increasing transformation of the judge's score.
    min_labels : int
        Labelled clusters a policy needs for a rectifier of its own.
    level : float
        Confidence level the result reports.
    raters : {"auto", "random", "fixed"}
        Whether the raters of the labels are a sample of the raters the value is about (by default
        where there are three or more), so that their choice adds variance, or are those raters.
    transport_margin : float, optional
        Largest difference that does not matter, on the label's scale, between a policy's labels and
        a calibration learnt from the others; without one the audits are not graded.

    Attributes
    ----------
    selection_ : mapping policy -> SelectionCheck
        What labelling was found to depend on, where no propensities are recorded.
    predictor_ : LabelPredictor
        The cross-fitted prediction of the label, after `fit_and_estimate`.
    pool_ : LabelPool
        The labels it was fitted on.

    References
    ----------
    Angelopoulos, Duchi & Zrnic (2023), "PPI++"; Zrnic & Candes (2024), "Cross-prediction-powered
    inference"; Robins, Rotnitzky & Zhao (1994).
    """

    def __init__(
        self,
        dataset: Dataset | StreamedRows,
        *,
        calibration_data: Sequence[Dataset] = (),
        covariates: Sequence[str] | Literal["auto"] = (),
        text_model: str | Path | None = None,
        n_folds: int = 10,
        seed: int = 42,
        mode: str = "auto",
        min_labels: int = 8,
        level: float = 0.95,
        raters: str = "auto",
        transport_margin: float | None = None,
    ) -> None:
        self.dataset = dataset
        self.calibration_data = tuple(calibration_data)
        self.covariates: tuple[str, ...] | Literal["auto"] = (
            "auto" if covariates == "auto" else tuple(covariates)
        )
        if text_model is not None and self.covariates != "auto":
            raise CJEError(
                "text_model is for automatic covariates",
                value=str(text_model),
                hint="add "
                + by_interface("covariates='auto'", "--covariate auto")
                + ", or leave the model out",
            )
        self.text_model = text_model
        self.n_folds = n_folds
        self.seed = seed
        self.mode = mode
        self.min_labels = min_labels
        self.level = level
        self.raters = raters
        self.transport_margin = transport_margin

    def fit_and_estimate(self) -> EstimationResult:
        """The value of every policy."""
        self._fit()
        result = self._estimate(self._policies)
        occupied = np.flatnonzero(self.predictor_.shares > 0)
        pool = self.pool_
        curve = judge_curve(
            self.predictor_.model, pool.scores, pool.covariates, occupied,
            self.dataset.judge_scale, self.dataset.oracle_scale,
        )  # fmt: skip
        details, findings = self._audit_labels(self._policies)
        result = with_labelling_model(result, self.selection_, self)
        return result.with_(
            diagnostics=details, curves={"judge": curve}, evidence=self._evidence(),
            findings=findings,
        )  # fmt: skip

    def _evidence(self) -> Evidence | None:
        """The rows behind the result, where all of them are in memory."""
        if not isinstance(self.dataset, Dataset):
            return None
        labels = self._labels
        return Evidence(self.dataset, labels.rows, labels.prediction, predict=self._predicted)

    def _predicted(self, rows: IntArray) -> FloatArray:
        """Labels predicted from the score (and covariates), labelled or not."""
        x = None if self._x is None else self._x[rows]
        predicted = self.predictor_.average(self._sample.data.judge_score[rows], x)
        offset = self._fitted.offset
        return predicted if offset is None else predicted + offset[rows]

    def audit(self) -> tuple[dict[str, Any], list[Finding]]:
        """Diagnostics and findings, without a result."""
        self._fit()
        details, findings = self._audit_labels(self._policies)
        return details, [*self._cell_findings(self._policies), *findings]

    def estimate_by(self, column: str) -> EstimationResult:
        """The value of every policy within each level of a subgroup column, f shared by all."""
        if not hasattr(self, "predictor_"):
            self._fit()
        return self._estimate(cells_of(self._sample.data, column))

    # ---- fitting --------------------------------------------------------------------------------

    def _fit(self) -> None:
        if not hasattr(self, "selection_"):
            self._sample, self.selection_ = sample_of(
                self.dataset, self.calibration_data
            ).check_labelling()
            if isinstance(self.dataset, Dataset):
                self.dataset = self._sample.data
        data = self._sample.data
        self._policies = self._sample.policies
        self._raters = rater_role(data, self.raters)
        self._sample.check_mode(self.mode)
        parts, how = [data, *self.calibration_data], (self.n_folds, self.seed, self.mode)
        if self.covariates == "auto":
            fitted = fit_automatically(parts, *how, text_model=self.text_model)
        else:
            tables = [covariate_matrix(part, self.covariates) for part in parts]
            fitted = fit_with(parts, tables, *how)
        self._fitted, self._x = fitted, fitted.x
        self.pool_, self.predictor_ = fitted.pool, fitted.predictor
        pool = fitted.pool
        rows, n = np.flatnonzero(data.is_labelled), pool.n_own
        propensity = None if data.label_propensity is None else data.label_propensity[rows]
        prediction = self.predictor_.at_labels[:n]
        units = self._sample.units.codes[rows]
        self._labels = Labels(rows, units, prediction, pool.labels[:n], propensity)
        self._valuation = Valuation(
            self._labels, pool, self.predictor_, Borrowing(self.predictor_, pool), self.min_labels
        )

    def _pool_units(self) -> IntArray:
        """Place of each pooled label's cluster in the influence; foreign clusters come after."""
        return np.concatenate([self._labels.units, self.pool_.clusters[self.pool_.n_own :]])

    def _own_labels(self, cells: Codes) -> list[IntArray]:
        """Positions of the labels of each cell."""
        label_cell = cells.codes[self._labels.rows]
        return [np.flatnonzero(label_cell == k) for k in range(cells.n_names)]

    def _n_clusters(self, own: IntArray) -> int:
        """Labelled clusters of a cell: the number of its independent labels."""
        return count_distinct(self._labels.units[own])

    def _enough(self, n_clusters: Sequence[int]) -> list[bool]:
        """Whether each cell rests on its own labels: it has enough, or no cell has more."""
        most = count_distinct(self.pool_.clusters)
        return [
            n >= self.min_labels or (n >= MIN_CLUSTERS and most < self.min_labels)
            for n in n_clusters
        ]

    def _borrowed_names(self, own: Sequence[IntArray], names: Sequence[str]) -> list[str]:
        enough = self._enough([self._n_clusters(rows) for rows in own])
        return [name for name, rests in zip(names, enough, strict=True) if not rests]

    def _cell_findings(self, cells: Codes) -> tuple[Finding, ...]:
        own, names = self._own_labels(cells), cells.names
        borrowed = self._borrowed_names(own, names)
        all_same = float(np.ptp(self.pool_.labels)) == 0.0
        constant = [
            all_same if name in borrowed else float(np.ptp(self._labels.label[rows])) == 0.0
            for name, rows in zip(names, own, strict=True)
        ]
        counts = {
            name: (len(rows), self._n_clusters(rows)) for name, rows in zip(names, own, strict=True)
        }
        unit = "prompt" if self._sample.data.cluster is None else "cluster"
        return (
            *cell_findings(
                names, counts, unit, borrowed, self.min_labels, constant, self._skewness()
            ),
            *weighting_findings(self._sample.data, self.calibration_data, cells, borrowed),
        )

    def _skewness(self) -> float:
        """Skewness of the residuals of the labels around their policy's mean; binary: zero."""
        labels = self._labels
        if ((labels.label == 0.0) | (labels.label == 1.0)).all():
            return 0.0  # binomial limits need no symmetry
        policy = self._policies.codes[labels.rows]
        error = labels.label - labels.prediction
        error -= cluster_means(error, policy, self._policies.n_names)[policy]
        spread = float(error @ error) / len(error)
        return float((error**3).mean() / spread**1.5) if spread > 0 else 0.0

    def _audit_labels(self, cells: Codes) -> tuple[dict[str, Any], list[Finding]]:
        borrowed = self._borrowed_names(self._own_labels(cells), cells.names)
        details, findings = audit_labels(
            self._sample, self.pool_, self.predictor_, borrowed,
            transport_margin=self.transport_margin, level=self.level,
        )  # fmt: skip
        if self._fitted.tried:
            details["covariates"] = [found.to_dict() for found in self._fitted.tried]
            findings = [covariate_finding(self._fitted.tried, self._fitted.used), *findings]
        if self.selection_:
            details["labelling"] = {name: c.to_dict() for name, c in self.selection_.items()}
        findings = selection_findings(self.selection_, findings)
        findings += self._sample.label_order(self.selection_)
        return details, [*copy_findings(self.pool_.n_copies), *findings]

    # ---- estimating -----------------------------------------------------------------------------

    def _estimate(self, cells: Codes) -> EstimationResult:
        own = self._own_labels(cells)
        counts = [self._n_clusters(rows) for rows in own]
        enough = self._enough(counts)
        tuned = [k for k, rests in enumerate(enough) if rests]
        few = [k for k, n in enumerate(counts) if n >= ENTER_FROM and not enough[k]]
        rows, value = self._sample.cells(cells, self._x, self._fitted.offset), self._valuation
        labelled = {k: value.labelled_cell(own[k], rows[k]) for k in (*tuned, *few)}
        fitted = [own_slope(labelled[k]) for k in tuned]
        # Few labels cannot estimate a slope: they use the common one.
        shrunken = shrunken_slopes([*fitted, *(Slope(0.0, np.inf, 0.0, 0.0) for _ in few)])
        slopes = dict(zip((*tuned, *few), shrunken.tolist() if tuned else [1.0] * len(few),
                          strict=True))  # fmt: skip
        done = [
            value.rectified(rows[k], own[k], labelled[k], slopes[k], enough[k])
            if k in slopes
            else value.borrowed(rows[k], counts[k])
            for k in range(cells.n_names)
        ]
        return self._result(cells, done)

    def _result(self, cells: Codes, done: list[Cell]) -> EstimationResult:
        scale, names = self.dataset.oracle_scale, cells.names
        influence, folded = self._sample.influence(done, cells)
        estimate = InfluenceEstimate(
            names,
            np.array([cell.value for cell in done]),
            (
                sampling_component(done, influence, folded),
                *self._other_components(done, len(influence)),
            ),
            self._sample.unit_names,
            (0.0, 1.0),
            np.array([cell.trials for cell in done]),
            np.array([cell.shrinkage for cell in done]),
        ).rescaled(scale.width, scale.low)
        borrowed = [name for name, cell in zip(names, done, strict=True) if cell.slope is None]
        n_rows = {name: cell.rows.n_rows for name, cell in zip(names, done, strict=True)}
        n_labels = {name: cell.n_labels for name, cell in zip(names, done, strict=True)}
        n_clusters = {name: cell.n_clusters for name, cell in zip(names, done, strict=True)}
        return EstimationResult(
            "direct",
            estimate,
            diagnostics=self._diagnostics(names, done, estimate),
            metadata={
                "n_rows": n_rows,
                "n_labels": n_labels,
                "n_labelled_clusters": n_clusters,
                "borrowed": borrowed,
                "level": self.level,
                "quantity": self._raters.quantity,
                "raters": self._raters.to_dict(),
                "scale": [scale.low, scale.high],
            },
            findings=self._cell_findings(cells),
        )

    def _other_components(self, done: Sequence[Cell], n_units: int) -> list[Component]:
        """The raters' choice, and the labels behind borrowed values."""
        found = few_label_component(done, n_units)
        if self._raters.role == "random":
            between = rater_component(self._sample.data, [cell.share for cell in done])
            found += [] if between is None else [between]
        borrowing = any(cell.by_label is not None for cell in done)
        df = self._valuation.borrowing.degrees_of_freedom if borrowing else np.inf
        found += label_components(done, self._pool_units(), n_units, df)
        return found

    def _diagnostics(
        self, names: Sequence[str], done: list[Cell], estimate: InfluenceEstimate
    ) -> dict[str, Any]:
        se = estimate.standard_errors() / self.dataset.oracle_scale.width
        return {
            "calibration_mode": self.predictor_.model.mode,
            "blend": self.predictor_.blend,
            "n_labels_total": len(self._labels.rows),
            "policies": {
                name: {
                    "slope": cell.slope,
                    "r2": cell.r2,
                    "to_efficiency_bound": to_bound(cell, float(error)),
                }
                for name, cell, error in zip(names, done, se, strict=True)
            },
        }
