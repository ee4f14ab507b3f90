"""Top-label calibration and calibration metrics under the fuzz rule.

scikit-learn's own checks may refuse an input with a ValueError, of which CJEError is one.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

from cje import classification as c
from tests.robustness.fuzzing import columns, fuzz, holds_rule, sizes, sound_columns

SKLEARN = (ValueError, TypeError)  # check_array raises TypeError for complex and None input
BINARY = [
    "brier_score", "corp_decomposition", "debiased_ece", "expected_calibration_error",
    "kolmogorov_smirnov_error", "kolmogorov_smirnov_test", "kuiper_error", "kuiper_test",
    "maximum_calibration_error", "smooth_ece", "spiegelhalter_test", "spiegelhalter_z",
    "calibration_curve", "corp_discrimination", "corp_miscalibration", "rms_calibration_error",
]  # fmt: skip
MANY = [
    "class_wise_ece", "confidence_ece", "mean_top_label_ece", "top_label_ece",
    "top_label_rms_error", "class_wise_rms_error", "multiclass_brier_score", "multiclass_log_loss",
]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@fuzz()
@given(data=st.data(), n=sizes)
def test_binary_metrics_are_finite_or_refused(name: str, data: Any, n: int) -> None:
    y = data.draw(columns(n) | st.just(np.arange(n) % 2) | st.just(np.zeros(n)))
    p, w = data.draw(columns(n)), data.draw(st.none() | columns(n))
    holds_rule(lambda: getattr(c, name)(y, p, sample_weight=w))


@st.composite
def probabilities(draw: st.DrawFn, n: int) -> Any:
    """Rows of three probabilities, mostly sound."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    made = rng.dirichlet(np.full(3, draw(st.sampled_from([0.01, 1.0]))), n)
    spoil = draw(st.sampled_from(["", "", "", "cell", "sum", "flat", "text"]))
    if spoil == "cell" and n:
        made[0, 1] = draw(st.sampled_from([np.nan, np.inf, -0.2, 2.0]))
    return {"sum": made * 2, "flat": made.ravel(), "text": [["a"] * 3] * n}.get(spoil, made)


@pytest.mark.parametrize("name", MANY)
@fuzz()
@given(data=st.data(), n=sizes)
def test_metrics_of_many_classes_are_finite_or_refused(name: str, data: Any, n: int) -> None:
    y = data.draw(st.sampled_from([np.arange(n) % 3, np.zeros(n), ["a"] * n, np.full(n, 7)]))
    labels = data.draw(st.sampled_from([None, [0, 1, 2], ["a", "b", "c"], [0, 0, 1]]))
    p = data.draw(probabilities(n))
    holds_rule(lambda: getattr(c, name)(y, p, labels=labels))


@fuzz()
@given(st.data(), sizes)
def test_assessment_is_finite_or_refused(data: Any, n: int) -> None:
    y = data.draw(st.just(np.arange(n) % 2) | columns(n))
    p = data.draw(columns(n))
    metric = getattr(c, data.draw(st.sampled_from(["expected_calibration_error", "brier_score"])))
    holds_rule(lambda: c.assess(metric, y, p, n_draws=20))


@pytest.mark.parametrize("name", ["confidence_curve", "top_label_curves", "class_wise_curves"])
@fuzz()
@given(data=st.data(), n=sizes)
def test_curves_of_many_classes_are_finite_or_refused(name: str, data: Any, n: int) -> None:
    y = data.draw(st.sampled_from([np.arange(n) % 3, np.zeros(n), ["a"] * n, np.full(n, 7)]))
    p = data.draw(probabilities(n))
    holds_rule(lambda: getattr(c, name)(y, p), missing=("low", "high"))


@fuzz()
@given(st.data(), sizes, st.floats() | st.just(0.1))
def test_smooth_error_and_null_reference_are_finite_or_refused(
    data: Any, n: int, number: float
) -> None:
    y, p = data.draw(st.just(np.arange(n) % 2) | columns(n)), data.draw(columns(n))
    holds_rule(lambda: c.smooth_ece_at(y, p, number))
    sound = data.draw(sound_columns(n))
    holds_rule(lambda: c.null_reference(c.expected_calibration_error, sound, number, n_draws=10))


@fuzz()
@given(st.data(), sizes)
def test_verdict_calibrator_is_finite_or_refused(data: Any, n: int) -> None:
    p = data.draw(probabilities(n))
    seen = data.draw(st.sampled_from([["a", "b", "c"] * (n // 3), ["a"] * n, ["z"] * n]))

    def work() -> Any:
        made = c.VerdictCalibrator({"a": 0.0, "b": 0.5, "c": 1.0}).fit(p, seen).scores(p)
        return made.mean, made.variance

    holds_rule(work, refusals=SKLEARN)


@fuzz(60)
@given(st.data(), sizes)
def test_subgroups_classes_and_comparisons_are_finite_or_refused(data: Any, n: int) -> None:
    y, p = data.draw(st.just(np.arange(n) % 2) | columns(n)), data.draw(columns(n))
    by = data.draw(st.sampled_from([np.arange(n) % 2, ["a"] * n, None, []]))
    holds_rule(lambda: c.assess_subgroups(c.brier_score, y, p, by, n_draws=5).parts)
    groups = data.draw(st.sampled_from([None, np.arange(n) // 2, ["g"] * n, [None] * n]))
    holds_rule(lambda: c.assess(c.expected_calibration_error, y, p, groups=groups, n_draws=5))
    both = {"a": p, "b": np.full(n, 0.5)}
    holds_rule(
        lambda: c.compare_calibration(c.expected_calibration_error, y, both, groups=groups).values
    )
    matrix = data.draw(probabilities(n))
    labels = data.draw(st.sampled_from([np.arange(n) % 3, np.zeros(n), ["a"] * n]))
    holds_rule(lambda: [row.ece for row in c.class_table(labels, matrix, n_draws=3)])


@fuzz(100)
@given(st.data(), sizes)
def test_recalibration_maps_displays_and_checks_are_finite_or_refused(data: Any, n: int) -> None:
    y, p = data.draw(st.just(np.arange(n) % 2) | columns(n)), data.draw(columns(n))

    sound = data.draw(sound_columns(n))

    def mapped() -> Any:
        frame = pl.DataFrame({"label": np.arange(n) % 2, "probability": sound})
        return c.RecalibrationMap.from_json(c.check_predictions(frame).map.to_json()).predict(p)

    holds_rule(mapped)
    holds_rule(lambda: c.ReliabilityDisplay.from_predictions(y, p).curve.observed)
    plt.close("all")
    holds_rule(lambda: c.calibration_scorer(data.draw(st.sampled_from([c.brier_score, p, None]))))


@fuzz()
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", " B", "c.", "other", ""]),
            st.floats(max_value=1.0) | st.sampled_from([None, "x", -0.5, -3.0]),
            max_size=4,
        )
        | st.none(),
        max_size=4,
    )
)
def test_verdict_distribution_is_finite_or_refused(listed: Any) -> None:
    holds_rule(lambda: c.verdict_distribution(listed, ["a", "b", "c"]))


CALIBRATORS = [
    c.BetaCalibrator, c.CenteredIsotonicCalibrator, c.HistogramCalibrator, c.IsotonicCalibrator,
    c.SigmoidCalibrator, c.TemperatureCalibrator, c.VennAbersCalibrator,
]  # fmt: skip


@pytest.mark.parametrize("calibrator", CALIBRATORS)
@fuzz()
@given(data=st.data(), n=sizes)
def test_binary_calibrators_are_finite_or_refused(calibrator: Any, data: Any, n: int) -> None:
    x = data.draw(columns(n))
    y = data.draw(st.just(np.arange(n) % 2) | columns(n) | st.just(np.ones(n)))
    w, new = data.draw(st.none() | columns(n)), data.draw(columns(4))
    holds_rule(lambda: calibrator().fit(x, y, w).predict(new), refusals=SKLEARN)


@pytest.mark.parametrize(
    "kind",
    [c.TopLabelCalibrator, c.ConfidenceCalibrator, c.ClassWiseCalibrator, c.SoftmaxCalibrator],
)
@fuzz()
@given(data=st.data(), n=sizes)
def test_multiclass_calibrators_are_finite_or_refused(kind: Any, data: Any, n: int) -> None:
    feature = data.draw(columns(n))
    y = data.draw(
        st.sampled_from([np.arange(n) % 3, np.arange(n) % 2, np.zeros(n), ["a", "b"] * n])
    )
    method = data.draw(st.sampled_from(["sigmoid", "isotonic", "beta", "temperature", "magic"]))
    base = data.draw(st.sampled_from([GaussianNB(), DummyClassifier(), None]))

    def work() -> Any:
        x = np.column_stack([feature, feature]) if np.ndim(feature) == 1 else feature
        how = {"method": "vector"} if kind is c.SoftmaxCalibrator else {"calibrator": method}
        model = kind(base, cv=data.draw(st.sampled_from([2, 5])), **how)
        made = model.fit(x, y).predict_proba(x)
        np.testing.assert_allclose(made.sum(axis=1), 1.0, rtol=1e-9)
        return made

    with np.errstate(all="ignore"):  # GaussianNB overflows on huge features
        holds_rule(work, refusals=SKLEARN)
