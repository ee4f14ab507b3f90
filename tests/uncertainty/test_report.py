"""The report finds concentrated variance and poor gamma, and names a remedy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cje.errors import CJEError
from cje.uncertainty import Gamma, UncertaintyReport, create_uncertainty_report

RNG = np.random.default_rng(0)
N = 1000


def _report(**change: Any) -> UncertaintyReport:
    given: dict[str, Any] = {
        "weights": np.ones(N), "rewards": RNG.random(N), "variances": np.full(N, 0.01),
        "estimate": 0.5, "se_with_uncertainty": 0.02, "se_without_uncertainty": 0.016,
        "gamma": 1.1, "shrinkage_applied": False, "shrinkage_lambda": 0.0,
    }  # fmt: skip
    return create_uncertainty_report(**(given | change))


def test_an_unremarkable_estimate_has_numbers_and_no_warnings() -> None:
    report = _report()
    assert report.summary["se_increase_pct"] == pytest.approx(25.0)
    assert report.variance_decomposition["eif_pct"] == pytest.approx(64.0)
    assert report.variance_decomposition["judge_pct"] == pytest.approx(36.0)
    assert report.variance_statistics["mean"] == pytest.approx(0.01)
    assert report.concentration["top_10_pct_share"] == pytest.approx(0.1)
    assert report.calibration["well_calibrated"]
    assert report.warnings == []
    assert report["summary"] is report.summary
    json.dumps(report.to_dict())


def test_variance_in_few_rows_is_found_and_explained() -> None:
    variances = np.where(np.arange(N) < 20, 0.25, 1e-4)
    report = _report(variances=variances)
    assert report.concentration["top_10_pct_share"] > 0.9
    assert report.concentration["effective_rows"] < 30
    assert any("concentrated" in warning for warning in report.warnings)
    assert any("label the rows" in text for text in report.recommendations)
    assert "concentrated" in str(report)


def test_a_judge_that_is_too_sure_is_reported_and_explained() -> None:
    report = _report(gamma=6.0)
    assert any("too sure, or labels are noisy" in warning for warning in report.warnings)
    assert not report.calibration["well_calibrated"]
    known = _report(gamma=Gamma(6.0, label_noise=0.01))
    assert any("the judge is too sure: errors" in warning for warning in known.warnings)


def test_stated_variances_above_the_errors_are_explained_and_are_not_a_fault() -> None:
    report = _report(gamma=0.1)
    assert report.warnings == []
    assert any("not a fault" in text for text in report.recommendations)


def test_a_gamma_that_is_not_identified_raises_no_warning() -> None:
    report = _report(gamma=Gamma(1.0, identified=False), variances=np.zeros(N))
    assert not report.calibration["identified"]
    assert report.warnings == []
    assert report.variance_statistics["share_zero"] == 1.0


def test_few_effective_rows_and_a_dominant_judge_lead_to_advice() -> None:
    weights = np.where(np.arange(N) < 5, 100.0, 0.01)
    report = _report(weights=weights, se_without_uncertainty=0.005, shrinkage_applied=True)
    assert any("effective sample size" in warning for warning in report.warnings)
    assert any("more labels" in text for text in report.recommendations)
    assert report.shrinkage["applied"]


def test_numbers_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(CJEError, match="estimate must be finite"):
        _report(estimate=float("nan"))
    with pytest.raises(CJEError, match="se_with_uncertainty must be"):
        _report(se_with_uncertainty=-0.1)
    with pytest.raises(CJEError, match="gamma must be"):
        _report(gamma="high")
    with pytest.raises(CJEError, match="se_with_uncertainty is too large"):
        _report(se_with_uncertainty=1e200)  # its square overflows
    with pytest.raises(CJEError, match="se_without_uncertainty is too small"):
        _report(se_without_uncertainty=5e-324)
    with pytest.raises(CJEError, match="too large"):
        _report(variances=np.full(N, 1e308))
    with pytest.raises(CJEError, match="one length"):
        _report(weights=np.ones(3))
    with pytest.raises(CJEError, match="cannot be negative"):
        _report(variances=np.full(N, -0.1))
    with pytest.raises(CJEError, match="must be finite"):
        _report(variances=np.full(N, np.nan))
