"""`stacked-dr`: the convex combination of doubly robust estimators with the least variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cje.calibration.rewards.reward_model import CrossFittedRewardModel
from cje.data import Dataset, PrecomputedSampler
from cje.errors import CJEError
from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.offpolicy.doubly_robust import DRCPOEstimator
from cje.estimators.offpolicy.findings import label_gate
from cje.estimators.offpolicy.mrdr import MRDREstimator
from cje.estimators.offpolicy.problem import Fit, Problem
from cje.estimators.offpolicy.tmle import TMLEEstimator
from cje.estimators.offpolicy.triply_robust import TRCPOEstimator
from cje.inference import Finding
from cje.inference.components import unified, weighted_sum
from cje.kernels.arrays import FloatArray
from cje.kernels.simplex import simplex_qp

__all__ = ["StackedDREstimator"]


_COMPONENTS: dict[str, type[OffPolicyEstimator]] = {
    cls.name: cls for cls in (DRCPOEstimator, MRDREstimator, TMLEEstimator, TRCPOEstimator)
}


class StackedDREstimator(OffPolicyEstimator):
    r"""Weights :math:`\alpha` on the simplex that minimise :math:`\alpha^\top (\Sigma +
    \lambda I) \alpha` for each target, with :math:`\Sigma` the components' covariance (influence
    plus label jackknife). The components' nuisances are shared and nothing is refitted.

    Least variance is a fair criterion only among estimators that make the same assumption. With
    labels weighted by W `tr-cpo` is `dr-cpo`; with ``label_weight="projected"`` the components rest
    on the calibration carrying over, and `tr-cpo`, which does not, would hardly ever be chosen.

    Parameters
    ----------
    components : sequence of str
        Of ``dr-cpo``, ``mrdr``, ``tmle``, ``tr-cpo``.
    ridge : float
        :math:`\lambda` relative to the mean diagonal of :math:`\Sigma`; pulls near-identical
        components to equal weights.

    Notes
    -----
    Other parameters as in `OffPolicyEstimator`.
    """

    name: ClassVar[str] = "stacked-dr"
    needs_fresh: ClassVar[bool] = True
    heavy_tail_refuses: bool = False

    def __init__(
        self,
        sampler: PrecomputedSampler,
        fresh_draws: Dataset | None = None,
        *,
        components: Sequence[str] = ("dr-cpo", "mrdr", "tmle"),
        ridge: float = 0.1,
        **options: Any,
    ) -> None:
        unknown = [name for name in components if name not in _COMPONENTS]
        if unknown or not components:
            raise CJEError(
                "unknown component of the stack", value=unknown, hint=f"use {list(_COMPONENTS)}"
            )
        if ridge < 0:
            raise CJEError("ridge must not be negative", value=ridge)
        super().__init__(sampler, fresh_draws, **options)
        self.components = tuple(components)
        self.ridge = ridge
        self._options = options
        made = [_COMPONENTS[name] for name in components]
        self.heavy_tail_refuses = any(cls.heavy_tail_refuses for cls in made)

    def fit(self, problem: Problem) -> Fit:
        fits = [component.fit(problem) for component in self._made()]
        parts = unified([fit.components for fit in fits])
        values = np.stack([fit.values for fit in fits])
        whole = np.stack([sum(part.matrix for part in group) for group in parts])
        alphas = np.stack([self._weights(whole[:, :, k]) for k in range(values.shape[1])])
        named = {
            name: dict(zip(self.components, alpha.tolist(), strict=True))
            for name, alpha in zip(problem.logged.policies, alphas, strict=True)
        }
        return Fit(
            np.einsum("ck,kc->k", values, alphas),
            weighted_sum(parts, alphas),
            {"stack_weights": named, "component_estimates": _table(self, problem, values)},
        )

    def fit_target_models(self, problem: Problem) -> dict[str, CrossFittedRewardModel]:
        found: dict[str, CrossFittedRewardModel] = {}
        for component in self._made():
            found |= component.fit_target_models(problem)
        return found

    def _made(self) -> list[OffPolicyEstimator]:
        """The components, with the options of the stack."""
        return [
            _COMPONENTS[name](self.sampler, self.fresh_draws, **self._options_of(name))
            for name in self.components
        ]

    def _options_of(self, name: str) -> dict[str, Any]:
        """The stack's options; the labels of `tr-cpo` are weighted by W always."""
        if name == TRCPOEstimator.name:
            return {**self._options, "label_weight": "raw"}
        return self._options

    def _findings(self, problem: Problem, fit: Fit) -> tuple[dict[str, Any], list[Finding]]:
        """Findings; labels weighted by W in any component must suffice for it."""
        diagnostics, findings = super()._findings(problem, fit)
        if TRCPOEstimator.name in self.components:
            known = {(f.code, f.subject) for f in findings}
            more = label_gate(problem, problem.logged.weights, self.thresholds)
            findings += [f for f in more if (f.code, f.subject) not in known]
        return diagnostics, findings

    def _weights(self, influence: FloatArray) -> FloatArray:
        sigma = influence @ influence.T
        ridge = self.ridge * max(float(np.trace(sigma)) / len(sigma), 1e-300)
        return np.asarray(simplex_qp(sigma + ridge * np.eye(len(sigma))))


def _table(
    estimator: StackedDREstimator, problem: Problem, values: FloatArray
) -> dict[str, dict[str, float]]:
    return {
        component: dict(zip(problem.logged.policies, row.tolist(), strict=True))
        for component, row in zip(estimator.components, values, strict=True)
    }
