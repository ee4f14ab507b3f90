"""One policy's value, its interval, and the sources of its variance."""

from __future__ import annotations

from dataclasses import dataclass

from cje.uncertainty.report import UncertaintyReport

__all__ = ["PolicyUncertaintyResult", "UncertaintyAwareEstimate", "VarianceDecomposition"]


@dataclass(frozen=True)
class VarianceDecomposition:
    """The sources of an estimate's variance. The two shares add up to 100.

    Attributes
    ----------
    eif : float
        Variance from the sampling of prompts and responses.
    judge : float
        Variance from the judge in place of the oracle (with ``standard_error="twice"``: the term
        that the published formula adds).
    reported : float
        ``E[w^2 v] / n``: the same from the judge's own (scaled) variances.
    """

    eif: float
    judge: float
    reported: float

    @property
    def total(self) -> float:
        return self.eif + self.judge

    @property
    def eif_pct(self) -> float:
        return 100.0 * self.eif / self.total if self.total > 0.0 else 100.0

    @property
    def judge_pct(self) -> float:
        return 100.0 - self.eif_pct


@dataclass(frozen=True)
class UncertaintyAwareEstimate:
    """One policy's value with its uncertainty.

    Attributes
    ----------
    shrinkage_bias : float
        Estimated change of the value by shrinkage, which raises `raw_effective_sample_size` to
        `effective_sample_size`.
    """

    value: float
    se: float
    ci_lower: float
    ci_upper: float
    confidence_level: float
    variance_decomposition: VarianceDecomposition
    effective_sample_size: float
    raw_effective_sample_size: float
    shrinkage_applied: bool
    shrinkage_lambda: float
    shrinkage_bias: float

    def summary(self) -> str:
        """One line."""
        parts = self.variance_decomposition
        text = (
            f"{self.value:.4f} ± {self.se:.4f} "
            f"({100 * self.confidence_level:g}% CI {self.ci_lower:.4f} to {self.ci_upper:.4f}; "
            f"variance {parts.eif_pct:.0f}% sampling, {parts.judge_pct:.0f}% judge; "
            f"ESS {self.effective_sample_size:.0f}"
        )
        if self.shrinkage_applied:
            text += (
                f" from {self.raw_effective_sample_size:.0f} by shrinkage "
                f"{self.shrinkage_lambda:.3g}, bias about {self.shrinkage_bias:+.4f}"
            )
        return text + ")"


@dataclass(frozen=True)
class PolicyUncertaintyResult:
    """A named policy's estimate."""

    name: str
    estimate: UncertaintyAwareEstimate
    report: UncertaintyReport | None = None

    @property
    def value(self) -> float:
        return self.estimate.value

    @property
    def se(self) -> float:
        return self.estimate.se
