"""Top-label, confidence and class-wise calibration of a classifier."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from cje.classification import (
    ClassWiseCalibrator,
    ConfidenceCalibrator,
    TopLabelCalibrator,
    expected_calibration_error,
    top_label_ece,
)
from cje.errors import CJEError

PEERS = json.loads((Path(__file__).parent / "fixtures" / "peers.json").read_text())
LOAD = {"iris": load_iris, "digits": load_digits}
IRIS = load_iris(return_X_y=True)


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose input is its output."""

    def __init__(self, n_classes=4):
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.asarray(X, dtype=float)

    def __sklearn_is_fitted__(self):
        return True


def _overconfident(n=4000, k=4, seed=0, rare=0.0):
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_normal((n, k))
    logits[:, -1] -= rare
    truth = np.exp(0.5 * logits)
    truth /= truth.sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    p = np.exp(logits)
    return p / p.sum(axis=1, keepdims=True), y


def _frozen(**options):
    return TopLabelCalibrator(FrozenEstimator(Given(4)), **options)


@pytest.mark.parametrize("case", PEERS["top_label"], ids=lambda c: f"{c['data']}-{c['calibrator']}")
def test_top_label_calibration_equals_mapies_under_the_split_protocol(case):
    X, y = LOAD[case["data"]](return_X_y=True)
    split = ShuffleSplit(1, test_size=case["calib_size"], random_state=case["random_state"])
    model = TopLabelCalibrator(GaussianNB(), calibrator=case["calibrator"], cv=split, min_count=0)
    _, confidence = model.fit(X, y).predict_top_label(X)
    tolerance = 1e-9 if case["calibrator"] == "isotonic" else 1e-6
    np.testing.assert_allclose(confidence, case["confidence"], atol=tolerance)


@pytest.mark.parametrize(
    "calibrator",
    ["sigmoid", "isotonic", "centered_isotonic", "beta", "histogram", "temperature", "venn_abers",
     IsotonicRegression(out_of_bounds="clip"), LogisticRegression()],
)  # fmt: skip
def test_every_calibrator_lowers_the_top_label_error_of_an_overconfident_model(calibrator):
    p, y = _overconfident()
    new, y_new = _overconfident(seed=1)
    model = _frozen(calibrator=calibrator).fit(p, y)
    out = model.predict_proba(new)
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    assert out.min() >= 0.0
    assert top_label_ece(y_new, new) > 0.15
    label, confidence = model.predict_top_label(new)
    assert expected_calibration_error(label == y_new, confidence, 10) < 0.05
    np.testing.assert_array_equal(label, new.argmax(axis=1))
    np.testing.assert_array_equal(model.predict(new), out.argmax(axis=1))


def test_each_predicted_class_has_a_map_fitted_on_its_own_rows():
    p, y = _overconfident()
    model = _frozen(calibrator="isotonic").fit(p, y)
    top = p.argmax(axis=1)
    for k in range(4):
        rows = top == k
        slow = IsotonicRegression(out_of_bounds="clip").fit(p[rows, k], y[rows] == k)
        np.testing.assert_allclose(
            model.predict_top_label(p[rows])[1], slow.predict(p[rows, k]), atol=1e-12
        )


def test_columns_follow_classes_whatever_a_batch_predicts():
    p, y = _overconfident()
    model = _frozen().fit(p, y)
    whole = model.predict_proba(p)
    only = p.argmax(axis=1) == 2
    np.testing.assert_allclose(model.predict_proba(p[only]), whole[only], atol=1e-15)
    np.testing.assert_allclose(model.predict_proba(p[only][:1]), whole[only][:1], atol=1e-15)


def test_a_class_with_few_rows_uses_the_pooled_map_and_says_so():
    p, y = _overconfident(rare=4.0)
    model = _frozen(min_count=100).fit(p, y)
    assert model.fallback_classes_.tolist() == [3]
    assert model.maps_.counts.sum() == len(p)
    assert any(f.code == "pooled-calibration" and f.subject == "3" for f in model.findings_)
    rows = p.argmax(axis=1) == 3
    pooled = ConfidenceCalibrator(FrozenEstimator(Given(4))).fit(p, y)
    np.testing.assert_allclose(
        model.predict_top_label(p[rows])[1], pooled.predict_top_label(p[rows])[1], atol=1e-12
    )
    assert len(_frozen(min_count=0).fit(p, y).fallback_classes_) == 0


def test_a_top_class_never_seen_in_calibration_still_gets_a_confidence():
    p, y = _overconfident()
    seen = p.argmax(axis=1) != 1
    model = _frozen(min_count=0).fit(p[seen], y[seen])
    assert model.fallback_classes_.tolist() == [1]
    assert np.isfinite(model.predict_proba(p)).all()


def test_the_rest_of_the_distribution_is_scaled_zero_or_nan():
    p, y = _overconfident()
    scaled = _frozen(rest="renormalise").fit(p, y).predict_proba(p)
    top = p.argmax(axis=1)
    others = np.ones_like(p, dtype=bool)
    others[np.arange(len(p)), top] = False
    ratio = (scaled / p)[others].reshape(len(p), 3)
    np.testing.assert_allclose(ratio, ratio[:, :1] * np.ones(3), rtol=1e-9)
    for rest, value in (("zero", 0.0), ("nan", np.nan)):
        model = _frozen(rest=rest).fit(p, y)
        out = model.predict_proba(p)
        np.testing.assert_array_equal(out[others], value)
        np.testing.assert_allclose(out[~others], scaled[~others], atol=1e-15)
        np.testing.assert_array_equal(model.predict(p), top)


def test_a_certain_classifier_leaves_the_remainder_shared_evenly():
    p = np.tile(np.eye(4), (50, 1))
    y = np.tile([0, 1, 2, 0], 50)
    out = _frozen().fit(p, y).predict_proba(p)
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(out[0, 1:], (1.0 - out[0, 0]) / 3.0, atol=1e-12)


def test_how_often_predict_leaves_the_classifiers_label_is_reported():
    p, y = _overconfident()
    worse = (y + 1) % 4  # the top class is now hardly ever right
    model = _frozen(calibrator="isotonic", rest="renormalise").fit(p, worse)
    moved = (model.predict(p) != p.argmax(axis=1)).mean()
    assert model.label_change_rate_ == pytest.approx(moved, abs=1e-12)
    assert moved > 0.5
    assert any(f.code == "label-changes" for f in model.findings_)


def test_a_frozen_estimator_prefit_and_a_named_cv_agree():
    X, y = IRIS
    base = GaussianNB().fit(X[::2], y[::2])
    frozen = TopLabelCalibrator(FrozenEstimator(base)).fit(X[1::2], y[1::2])
    prefit = TopLabelCalibrator(base, cv="prefit").fit(X[1::2], y[1::2])
    np.testing.assert_array_equal(frozen.predict_proba(X), prefit.predict_proba(X))
    np.testing.assert_array_equal(base.theta_, GaussianNB().fit(X[::2], y[::2]).theta_)


def test_cross_fitting_uses_every_row_out_of_fold():
    X, y = load_digits(return_X_y=True)
    model = TopLabelCalibrator(GaussianNB(), cv=5, random_state=0).fit(X, y)
    assert model.maps_.counts.sum() == len(y)
    np.testing.assert_allclose(model.estimator_.theta_, GaussianNB().fit(X, y).theta_)
    repeated = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    twice = TopLabelCalibrator(GaussianNB(), cv=repeated).fit(X, y)
    assert twice.maps_.counts.sum() == pytest.approx(len(y))
    groups = np.arange(len(y)) // 10
    grouped = TopLabelCalibrator(GaussianNB(), cv=GroupKFold(4)).fit(X, y, groups=groups)
    assert np.isfinite(grouped.predict_proba(X)).all()


def test_random_state_decides_the_folds_and_nothing_else():
    X, y = load_digits(return_X_y=True)

    def fitted(seed):
        return TopLabelCalibrator(GaussianNB(), random_state=seed).fit(X, y).predict_proba(X)

    np.testing.assert_array_equal(fitted(1), fitted(1))
    assert np.abs(fitted(1) - fitted(2)).max() > 0.0


def test_weights_act_in_the_classifier_and_in_the_maps():
    X, y = IRIS
    w = np.random.default_rng(0).random(len(y))
    plain = TopLabelCalibrator(GaussianNB(), cv=3).fit(X, y)
    weighted = TopLabelCalibrator(GaussianNB(), cv=3).fit(X, y, sample_weight=w)
    assert np.abs(plain.predict_proba(X) - weighted.predict_proba(X)).max() > 1e-4
    p, y = _overconfident()
    w = np.random.default_rng(1).integers(0, 3, len(y))
    by_weight = _frozen(calibrator="isotonic").fit(p, y, sample_weight=w)
    by_rows = _frozen(calibrator="isotonic").fit(np.repeat(p, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(by_weight.predict_proba(p), by_rows.predict_proba(p), atol=1e-12)


def test_strings_frames_pipelines_and_searches_work():
    X, y = IRIS
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    reference = TopLabelCalibrator(GaussianNB(), cv=3).fit(X, names)
    assert reference.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    columns = ["a", "b", "c", "d"]
    for frame, labels in (
        (pd.DataFrame(X, columns=columns), pd.Series(names)),
        (pl.DataFrame(X, schema=columns), pl.Series(names)),
    ):
        model = TopLabelCalibrator(GaussianNB(), cv=3).fit(frame, labels)
        np.testing.assert_allclose(model.predict_proba(frame), reference.predict_proba(X))
        assert model.feature_names_in_.tolist() == columns
    pipeline = make_pipeline(StandardScaler(), TopLabelCalibrator(GaussianNB(), cv=3))
    scores = cross_val_score(pipeline, X, names, scoring="neg_log_loss", cv=3)
    assert (scores > -0.5).all()
    search = GridSearchCV(
        TopLabelCalibrator(GaussianNB(), cv=3, random_state=0),
        {"estimator__var_smoothing": [1e-9, 1e-2], "calibrator": ["sigmoid", "beta"]},
        cv=3,
    ).fit(X, names)
    assert search.best_score_ > 0.9


def test_binary_problems_work_with_all_three():
    X, y = IRIS
    X, y = X[y > 0], y[y > 0]
    for kind in (TopLabelCalibrator, ConfidenceCalibrator, ClassWiseCalibrator):
        p = kind(GaussianNB(), cv=5, random_state=0).fit(X, y).predict_proba(X)
        assert p.shape == (100, 2)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


def test_class_wise_maps_are_fitted_on_every_row():
    p, y = _overconfident()
    model = ClassWiseCalibrator(
        FrozenEstimator(Given(4)), calibrator="isotonic", normalise=False
    ).fit(p, y)
    slow = IsotonicRegression(out_of_bounds="clip").fit(p[:, 1], y == 1)
    np.testing.assert_allclose(model.predict_proba(p)[:, 1], slow.predict(p[:, 1]), atol=1e-12)


def test_one_class_confidence_hides_what_top_label_shows():
    """Class 0 right in 90%, class 1 in 30%, both at score 0.6: only top-label tells them apart."""
    rng = np.random.default_rng(0)
    top = np.arange(4000) % 2
    p = np.full((4000, 4), 0.4 / 3)
    p[np.arange(4000), top] = 0.6
    right = rng.random(4000) < np.where(top == 0, 0.9, 0.3)
    y = np.where(right, top, 2)
    by_label = _frozen().fit(p, y).predict_top_label(p)[1]
    together = ConfidenceCalibrator(FrozenEstimator(Given(4))).fit(p, y).predict_top_label(p)[1]
    assert by_label[0] == pytest.approx(0.9, abs=0.03)
    assert by_label[1] == pytest.approx(0.3, abs=0.03)
    assert together[0] == together[1] == pytest.approx(0.6, abs=0.03)


def _off(p, value):
    out = p.copy()
    out[3, 0] = value
    return out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p, y: (_off(p, 1.7), y), "must lie in"),
        (lambda p, y: (_off(p, np.nan), y), "not be NaN"),
        (lambda p, y: (0.5 * p, y), "sum to one"),
        (lambda p, y: (p, np.where(y == 0, 9, y)), "never seen"),
        (lambda p, y: (p[:0], y[:0]), "empty"),
    ],
)
def test_bad_calibration_data_give_clear_errors(change, words):
    p, y = change(*_overconfident(n=200))
    with pytest.raises(CJEError, match=words):
        _frozen().fit(p, y)


def test_bad_arguments_give_clear_errors():
    X, y = IRIS
    with pytest.raises(CJEError, match="one class"):
        TopLabelCalibrator(GaussianNB()).fit(X, np.zeros(150, int))
    with pytest.raises(CJEError, match="predict_proba"):
        TopLabelCalibrator(LinearSVC()).fit(X, y)
    for options, words in (
        ({"calibrator": "platt"}, "unknown calibrator"),
        ({"calibrator": 3}, "fit"),
        ({"rest": "half"}, "unknown rest"),
        ({"min_count": -1}, "min_count"),
        ({"cv": "split"}, "unknown cv"),
        ({"cv": 1}, "folds"),
        ({"cv": []}, "empty"),
    ):
        with pytest.raises(CJEError, match=words):
            TopLabelCalibrator(GaussianNB(), **options).fit(X, y)
    with pytest.raises(ValueError, match="non-zero"):
        TopLabelCalibrator(GaussianNB()).fit(X, y, sample_weight=np.zeros(150))
    odd = np.arange(150) % 2 == 1
    split = [(np.flatnonzero(odd), np.flatnonzero(~odd))]
    with pytest.raises(CJEError, match="calibration set is empty"):
        TopLabelCalibrator(GaussianNB(), cv=split).fit(X, y, sample_weight=odd.astype(float))


def test_an_object_without_weights_or_with_bad_output_is_refused():
    class Plain:
        def fit(self, scores, y):
            return self

        def predict(self, scores):
            return np.full(len(scores), np.nan)

    p, y = _overconfident(n=300)
    with pytest.raises(CJEError, match="does not take"):
        _frozen(calibrator=Plain()).fit(p, y, sample_weight=np.ones(len(y)))
    with pytest.raises(CJEError, match="finite"):
        _frozen(calibrator=Plain()).fit(p, y)


def test_prefit_needs_a_fitted_classifier():
    with pytest.raises(CJEError, match="not fitted"):
        TopLabelCalibrator(LogisticRegression(), cv="prefit").fit(*IRIS)
