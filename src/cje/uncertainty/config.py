"""Settings of `UncertaintyAwareDRCPO`, checked on creation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cje.checks import is_number
from cje.diagnostics.judge_variance import check_label_noise
from cje.errors import CJEError

__all__ = ["UncertaintyEstimatorConfig"]

_CHOICES = {
    "shrinkage_method": ("optimal", "adaptive", "fixed", "covariance"),
    "outcome_model": ("calibrated", "linear", "constant"),
    "standard_error": ("once", "twice"),
}


@dataclass(frozen=True)
class UncertaintyEstimatorConfig:
    """Settings of the estimator.

    Parameters
    ----------
    k_folds : int
        Folds of the cross-fitted calibration.
    use_variance_shrinkage : bool
        Divide weights by ``1 + lambda v``.
    shrinkage_method : {"optimal", "adaptive", "fixed", "covariance"}
        ``optimal`` minimises variance plus squared bias; ``adaptive`` increases until the effective
        sample size reaches `min_ess_ratio`; ``fixed`` takes `fixed_shrinkage_lambda`;
        ``covariance`` is the formula as published, which is not optimal (see the docs).
    fixed_shrinkage_lambda : float
    min_ess_ratio : float
        Effective sample size wanted by ``adaptive``, as a share of the rows.
    calibrate_variance : bool
        Scale the judge's variances by gamma.
    outcome_model : {"calibrated", "linear", "constant"}
        q in ``g + w (R - q)``, used with fresh draws: the calibrated reward itself, a straight line
        in the score, or a constant.
    standard_error : {"once", "twice"}
        ``once``: the influence function, which contains the judge's noise. ``twice``: the published
        form, which adds ``E[w^2 v] / n`` to it and is too wide if the influence already has it.
    compute_diagnostics : bool
        Attach an `UncertaintyReport` to every policy.
    confidence_level : float
    random_state : int
        Seed of the folds.
    label_noise : float, optional
        Variance of a label around the mean label of its response, on [0, 1]; gamma leaves it out.
    """

    k_folds: int = 5
    use_variance_shrinkage: bool = True
    shrinkage_method: Literal["optimal", "adaptive", "fixed", "covariance"] = "optimal"
    fixed_shrinkage_lambda: float = 1.0
    min_ess_ratio: float = 0.1
    calibrate_variance: bool = True
    outcome_model: Literal["calibrated", "linear", "constant"] = "calibrated"
    standard_error: Literal["once", "twice"] = "once"
    compute_diagnostics: bool = True
    confidence_level: float = 0.95
    random_state: int = 42
    label_noise: float | None = None

    def __post_init__(self) -> None:
        check_label_noise(self.label_noise)
        for field, allowed in _CHOICES.items():
            given = getattr(self, field)
            if not isinstance(given, str) or given not in allowed:
                raise CJEError(
                    f"{field} is unknown", value=given,
                    hint=f"use one of {', '.join(allowed)}",
                )  # fmt: skip
        for name in ("k_folds", "random_state"):
            if not isinstance(getattr(self, name), int | np.integer):
                raise CJEError(f"{name} must be a whole number", value=getattr(self, name))
        for name in ("fixed_shrinkage_lambda", "min_ess_ratio", "confidence_level"):
            if not is_number(getattr(self, name)):
                raise CJEError(f"{name} must be a finite number", value=getattr(self, name))
        checks = {
            "k_folds must be at least 2": self.k_folds >= 2,
            "fixed_shrinkage_lambda must not be negative": self.fixed_shrinkage_lambda >= 0.0,
            "min_ess_ratio must be in (0, 1]": 0.0 < self.min_ess_ratio <= 1.0,
            "confidence_level must be in (0, 1)": 0.0 < self.confidence_level < 1.0,
        }
        for message, fine in checks.items():
            if not fine:
                raise CJEError(message, value=getattr(self, message.split()[0]))
