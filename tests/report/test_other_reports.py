"""Survival and classification results on the same parts."""

from __future__ import annotations

import numpy as np

from cje.classification import (
    assess,
    classification_report,
    confidence_ece,
    expected_calibration_error,
    top_label_curves,
)
from cje.report import CurvePart, Forest
from cje.survival import (
    calibration_in_the_large,
    calibration_slope,
    harrell_c,
    integrated_calibration_index,
    survival_report,
)


def test_a_survival_report_says_what_is_off() -> None:
    rng = np.random.default_rng(3)
    n, risk = 800, rng.normal(size=800)
    time = rng.exponential(np.exp(-risk))
    event = np.ones(n, dtype=bool)
    survival = np.exp(-0.5 * time * np.exp(risk))  # half the true hazard
    at = float(np.median(time))
    index = integrated_calibration_index(np.exp(-0.5 * at * np.exp(risk)), time, event, at)
    metrics = [
        calibration_in_the_large(survival, event),
        calibration_slope(risk, time, event),
        index,
        harrell_c(risk, time, event),
    ]
    report = survival_report(metrics)
    answer = report.answer
    assert answer is not None
    assert any("more events happen than are predicted" in line for line in answer.can)
    assert any("miscalibrated" in line for line in answer.can)
    forest, curve = report.parts[0], report.parts[1]
    assert isinstance(forest, Forest)
    assert [row.value for row in forest.rows] == [float(metrics[0]), float(metrics[1])]
    assert isinstance(curve, CurvePart)
    assert curve.curve is index.curve
    assert "Harrell C" in report.to_html()


def test_a_classification_report_sets_the_null_beside_the_value() -> None:
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(3), size=1500)
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(3, p=row) for row in p])
    binary = p[:, 0]
    good = assess(expected_calibration_error, y == 0, binary, n_draws=100)
    bad = assess(confidence_ece, y, sharp, n_draws=100)
    report = classification_report([good, bad], top_label_curves(y, sharp))
    answer = report.answer
    assert answer is not None
    assert [line.split(":")[0] for line in answer.can] == ["The model is miscalibrated"]
    assert "confidence ece" in answer.can[0]
    assert "expected calibration error" in answer.cannot[0]
    page = report.to_html()
    assert page.count('class="chart"') == 3
    assert f"{bad.value:.4f}"[:5] in page
