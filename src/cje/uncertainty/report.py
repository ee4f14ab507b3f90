"""`create_uncertainty_report`: the sources of uncertainty, and what to do next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import is_number
from cje.diagnostics.judge_variance import Gamma
from cje.diagnostics.overlap import effective_sample_size
from cje.errors import CJEError
from cje.estimators.offpolicy.shrinkage import checked_columns
from cje.kernels.arrays import FloatArray

__all__ = ["UncertaintyReport", "create_uncertainty_report"]

_LARGEST = 1e100  # largest number that is squared; the smallest is one over it
_TOP_SHARES = (0.01, 0.05, 0.10)


@dataclass(frozen=True)
class UncertaintyReport:
    """Numbers by topic, warnings and recommendations. Also a mapping."""

    summary: dict[str, Any]
    variance_decomposition: dict[str, float]
    variance_statistics: dict[str, float]
    calibration: dict[str, Any]
    shrinkage: dict[str, Any]
    concentration: dict[str, float]
    recommendations: list[str]
    warnings: list[str]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    def __str__(self) -> str:
        s = self.summary
        lines = [
            f"value {s['estimate']:.4f}, standard error {s['se_with_uncertainty']:.4f} "
            f"({s['se_increase_pct']:+.1f}% over the judge taken as exact)",
            f"calibration: {self.calibration['verdict']}",
            f"the top 10% of rows hold {100 * self.concentration['top_10_pct_share']:.0f}% of the "
            "judge's variance",
            *(f"warning: {text}" for text in self.warnings),
            *(f"next: {text}" for text in self.recommendations),
        ]
        return "\n".join(lines)


def create_uncertainty_report(
    *,
    weights: ArrayLike,
    rewards: ArrayLike,
    variances: ArrayLike,
    estimate: float,
    se_with_uncertainty: float,
    se_without_uncertainty: float,
    gamma: float = 1.0,
    shrinkage_applied: bool = False,
    shrinkage_lambda: float = 0.0,
) -> UncertaintyReport:
    """Explain an estimate's uncertainty.

    Parameters
    ----------
    weights, rewards, variances : array (n,)
        Importance weights (as used), calibrated rewards, scaled judge variances.
    estimate : float
    se_with_uncertainty, se_without_uncertainty : float
        Standard errors with the judge's uncertainty and with the judge taken as exact.
    gamma : float
    shrinkage_applied : bool
    shrinkage_lambda : float
    """
    w, _, v = checked_columns(weights, rewards, variances)
    if not is_number(estimate):
        raise CJEError("estimate must be finite", value=estimate)
    sizes = {
        "se_with_uncertainty": se_with_uncertainty,
        "se_without_uncertainty": se_without_uncertainty,
        "gamma": gamma,
        "shrinkage_lambda": shrinkage_lambda,
    }
    for name, number in sizes.items():
        if not is_number(number) or number < 0.0:
            raise CJEError(f"{name} must be finite and not negative", value=number)
        if number and not 1.0 / _LARGEST <= number <= _LARGEST:
            raise CJEError(f"{name} is too {'large' if number > 1 else 'small'}", value=number)
    top = float(v.max())
    # its shares have no scale
    concentration = _concentration((w / w.max()) ** 2 * (v / top if top > 0.0 else v))
    calibration = _calibration(gamma)
    ess = effective_sample_size(w)
    summary = _summary(estimate, se_with_uncertainty, se_without_uncertainty, len(w), ess)
    report = UncertaintyReport(
        summary=summary,
        variance_decomposition=_decomposition(se_with_uncertainty, se_without_uncertainty),
        variance_statistics=_statistics(v),
        calibration=calibration,
        shrinkage={
            "applied": bool(shrinkage_applied),
            "lambda": float(shrinkage_lambda),
            "effective_sample_size": ess,
            "ess_percentage": 100.0 * ess / len(w),
        },
        concentration=concentration,
        recommendations=[],
        warnings=[],
    )
    _advise(report)
    return report


def _summary(value: float, se: float, without: float, n: int, ess: float) -> dict[str, Any]:
    increase = 100.0 * (se / without - 1.0) if without > 0.0 else 0.0
    return {
        "estimate": float(value),
        "se_with_uncertainty": float(se),
        "se_without_uncertainty": float(without),
        "se_increase_pct": increase,
        "n_samples": n,
        "effective_sample_size": ess,
    }


def _decomposition(se: float, without: float) -> dict[str, float]:
    total, eif = se**2, min(without**2, se**2)
    share = 100.0 * eif / total if total > 0.0 else 100.0
    return {
        "eif_variance": eif,
        "judge_variance": total - eif,
        "total_variance": total,
        "eif_pct": share,
        "judge_pct": 100.0 - share,
    }


def _statistics(v: FloatArray) -> dict[str, float]:
    return {
        "mean": float(v.mean()),
        "std": float(v.std()),
        "min": float(v.min()),
        "max": float(v.max()),
        "share_zero": float((v == 0.0).mean()),
    }


def _concentration(contribution: FloatArray) -> dict[str, float]:
    """Share of sum w^2 v in the largest contributions, and the effective number of rows."""
    n, total = len(contribution), float(contribution.sum())
    out = {}
    counts = [max(1, round(share * n)) for share in _TOP_SHARES]
    ordered = np.partition(contribution, [n - count for count in counts])
    for share, count in zip(_TOP_SHARES, counts, strict=True):
        held = float(ordered[n - count :].sum()) / total if total > 0.0 else 0.0
        out[f"top_{round(100 * share)}_pct_share"] = held
    square = float(contribution @ contribution)
    out["effective_rows"] = total**2 / square if square > 0.0 else float(n)
    return out


def _calibration(gamma: float) -> dict[str, Any]:
    known = gamma if isinstance(gamma, Gamma) else Gamma(gamma)
    return {
        "gamma": float(known),
        "identified": known.identified,
        "verdict": known.verdict,
        "well_calibrated": known.identified and known.believable,
        "exceeding": known.exceeding,
    }


def _advise(report: UncertaintyReport) -> None:
    """Turn the numbers into warnings and next steps."""
    held = report.concentration["top_10_pct_share"]
    effective, n = report.concentration["effective_rows"], report.summary["n_samples"]
    if held > 0.5:
        report.warnings.append(
            f"the judge's variance is concentrated: 10% of the rows hold {100 * held:.0f}% of it "
            f"(as if it sat in {effective:.0f} of {n} rows)"
        )
        report.recommendations.append(
            "label the rows with the largest w^2 v, or judge them again with more repeats"
        )
    if report.calibration["identified"] and not report.calibration["well_calibrated"]:
        report.warnings.append(
            f"poor calibration of the variances: {report.calibration['verdict']}"
        )
        report.recommendations.append(
            "use the scaled variances, and ask for more repeats per response"
        )
    if report.calibration["exceeding"]:
        report.recommendations.append(f"use the scaled variances: {report.calibration['verdict']}")
    if report.variance_decomposition["judge_pct"] > 50.0:
        report.recommendations.append(
            "most of the variance comes from the judge: more labels or a better judge help more "
            "than more prompts"
        )
    if report.shrinkage["ess_percentage"] < 10.0:
        report.warnings.append(
            f"the effective sample size is {report.shrinkage['ess_percentage']:.1f}% of the rows"
        )
        report.recommendations.append("use fresh draws from the target policy")
