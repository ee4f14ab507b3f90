"""`pairwise`: win rates and a ranking from side-by-side verdicts of a judge and of humans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cje.checks import check_level
from cje.data.comparisons import Comparisons
from cje.errors import CJEError
from cje.estimators.pairwise.audit import audit_comparisons, cell_findings
from cje.estimators.pairwise.bradley_terry import (
    BradleyTerry,
    fit_bradley_terry,
    style_is_free,
    unconnected,
)
from cje.estimators.pairwise.summary import head_to_head, ranking_rows
from cje.estimators.pairwise.units import Units, make_units
from cje.estimators.pairwise.win_rates import Cell, join_cells, pair_cell, policy_cell, win_rate
from cje.estimators.pairwise.working_model import WorkingModel, fit_working_model
from cje.estimators.rows import check_subgroup
from cje.findings import Finding
from cje.findings.pairwise import NO_RANKING
from cje.inference import InfluenceEstimate
from cje.kernels.arrays import FloatArray
from cje.results.result import EstimationResult

__all__ = ["PairwiseEstimator"]

_NO_FINITE = "a version wins or loses nearly every comparison, so its strength has no finite value"


class PairwiseEstimator:
    r"""Win rates of policies from a judge's comparisons, rectified by human ones.

    With h and j the human's and the judge's verdict on a comparison minus one half (a tie, or both
    bad, is 0), :math:`\hat f` a linear prediction of h (see `working_model`), o the policy's side,
    and :math:`w \propto 1/\pi` on the comparisons with a human verdict:

    .. math:: \hat\theta = \tfrac12 + \sum_u \omega_u o_u \hat f_u
              + \sum_{u \in L} w_u o_u (h_u - \hat f_u)

    A policy's value is its win rate against the policies it was compared with, with equal weights;
    with two policies the two values sum to one and their difference is wins minus losses. The
    estimate is consistent whatever the judge prefers, as long as the comparisons with a human
    verdict were chosen at random (or with the given `label_propensity`). The advantage of being
    shown first is removed: by averaging both orders where a pair was judged in both, by a
    regression term where it was not; so is that of style where `covariates` are named.

    Parameters
    ----------
    data : Comparisons
    covariates : sequence of str
        Differences in style (``"length"``, ``"markdown"``) to control for: win rates and strengths
        are then those at equal style.
    position : bool
        Remove the position bias.
    min_labels : int
        Prompts with human verdicts that a policy needs for a value; human verdicts for a pair.
    level : float
        Confidence level the result reports.
    seed : int
        Not used: nothing here is random.

    Attributes
    ----------
    units_ : Units
    model_ : WorkingModel
    ranking_ : BradleyTerry or None
        The ranking; None where there is no finite one.

    Raises
    ------
    CJEError
        No comparisons, a single policy, or an unknown covariate.

    References
    ----------
    Angelopoulos, Duchi & Zrnic (2023), "PPI++"; Robins, Rotnitzky & Zhao (1994); Bradley & Terry
    (1952); Chiang et al. (2024), "Chatbot Arena" (style as covariates of the ranking).
    """

    def __init__(
        self,
        data: Comparisons,
        *,
        covariates: Sequence[str] = (),
        position: bool = True,
        min_labels: int = 8,
        level: float = 0.95,
        seed: int = 42,
    ) -> None:
        self.data = data
        self.covariates = tuple(covariates)
        self.position = position
        self.min_labels = min_labels
        self.level = check_level(level)
        self.seed = seed

    def fit_and_estimate(self) -> EstimationResult:
        """Win rates of every policy, of every pair, and the ranking."""
        self._fit()
        units = self.units_
        every = np.ones(len(units))
        result = self._values(
            units.policies, [policy_cell(units, k, every) for k in range(len(units.policies))]
        )
        details, findings = self._audit()
        reason = self._no_ranking() or ("" if self.ranking_ is not None else _NO_FINITE)
        asked = len(units.policies) > 2 or self.covariates
        if self.ranking_ is None and asked and len(self.model_.labelled):
            findings.append(NO_RANKING.finding(reason=reason))
        result = result.with_(findings=findings)
        details |= head_to_head(result, self.pair_estimate, self._pair_counts(), self.min_labels)
        details |= ranking_rows(result, self.ranking_, reason)
        return result.with_(diagnostics={"pairwise": details})

    def audit(self) -> tuple[dict[str, Any], list[Finding]]:
        """Diagnostics and findings, without a result."""
        self._fit()
        units = self.units_
        own = self.model_.labelled
        labels = {}
        for k, name in enumerate(units.policies):
            mine = own[units.sign(k)[own] != 0.0]
            labels[name] = (len(mine), len(np.unique(units.prompt[mine])))
        details, findings = self._audit()
        return details, [*cell_findings(labels, (), self.min_labels), *findings]

    def pair_estimate(self, a: str, b: str) -> InfluenceEstimate:
        """The share of their comparisons that `a` wins against `b`."""
        self._fit()
        units = self.units_
        for name in (a, b):
            if name not in units.policies:
                known = ", ".join(units.policies)
                raise CJEError("no such version", value=name, hint=f"the versions are {known}")
        signed = pair_cell(units, units.policies.index(a), units.policies.index(b))
        if not signed.any():
            raise CJEError("these two were never compared", value=(a, b))
        cell = win_rate(units, self.model_, signed, self._targets)
        return join_cells([f"{a} over {b}"], [cell], units, self.model_)

    def estimate_by(self, column: str) -> EstimationResult:
        """Win rates within each level of a subgroup column, the working model shared by all."""
        self._fit()
        units = self.units_
        check_subgroup(units.groups, column)
        group = units.groups[column]
        names, signed, cells = [], [], []
        for k, policy in enumerate(units.policies):
            for code, level in enumerate(group.names):
                weights = policy_cell(units, k, (group.codes == code).astype(float))
                if weights.any():
                    names.append(f"{policy} | {level}")
                    signed.append(weights)
                    cells.append({"policy": policy, "column": column, "level": level})
        return self._values(names, signed).with_(metadata={"cells": cells})

    # ---- fitting --------------------------------------------------------------------------------

    def _fit(self) -> None:
        if hasattr(self, "units_"):
            return
        self.units_: Units = make_units(self.data, self.covariates)
        if len(self.units_.policies) < 2:
            raise CJEError("a comparison needs two policies", value=self.units_.policies)
        self.model_: WorkingModel = fit_working_model(self.units_, position=self.position)
        self._targets = self.model_.targets(equal_style=True)
        self.ranking_: BradleyTerry | None = None
        if not self._no_ranking():
            self.ranking_ = fit_bradley_terry(self.units_, self.model_, self.covariates)

    def _pair_counts(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Comparisons and human verdicts of each pair that was compared."""
        units = self.units_
        pairs = np.column_stack([units.low, units.high])
        seen, at, counts = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
        labels = np.bincount(at.reshape(-1)[self.model_.labelled], minlength=len(seen))
        return {
            (units.policies[a], units.policies[b]): (n, m)
            for (a, b), n, m in zip(seen.tolist(), counts.tolist(), labels.tolist(), strict=True)
        }

    def _no_ranking(self) -> str:
        """Why there can be no ranking; empty where one can be fitted."""
        if not len(self.model_.labelled):
            return "there are no human verdicts"
        if len(unconnected(self.units_)) > 1:
            return "some policies were never compared, not even through others"
        if not style_is_free(self.units_):
            return "the style covariates do not vary beyond what the versions explain"
        return ""

    def _audit(self) -> tuple[dict[str, Any], list[Finding]]:
        return audit_comparisons(self.units_, self.model_, self.position)

    # ---- estimating -----------------------------------------------------------------------------

    def _values(self, names: Sequence[str], signed: list[FloatArray]) -> EstimationResult:
        units = self.units_
        cells: list[Cell] = [win_rate(units, self.model_, s, self._targets) for s in signed]
        estimate = join_cells(list(names), cells, units, self.model_)
        known = dict(zip(names, cells, strict=True))
        labels = {name: (cell.labels, cell.prompts) for name, cell in known.items()}
        identical = [name for name, cell in known.items() if cell.identical]
        return EstimationResult(
            "pairwise",
            estimate,
            metadata={
                "n_rows": {name: cell.rows for name, cell in known.items()},
                "n_labels": {name: cell.labels for name, cell in known.items()},
                "comparisons": {
                    "rows": len(units), "labels": len(self.model_.labelled),
                },
                "level": self.level,
                "quantity": self._quantity(),
                "scale": [0.0, 1.0],
            },
            findings=tuple(cell_findings(labels, identical, self.min_labels)),
        )  # fmt: skip

    def _quantity(self) -> str:
        who = "" if len(self.units_.policies) == 2 else " against the others"
        style = f" at equal {' and '.join(self.covariates)}" if self.covariates else ""
        return f"win rate{who}{style}"
