"""Columns belong to the classes they are named after, and the classifier's label is kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cje import classification as c
from cje.errors import CJEError

LEVELS = np.array(["low", "medium", "high"])
MULTICLASS = [
    c.confidence_ece, c.top_label_ece, c.mean_top_label_ece, c.class_wise_ece,
    c.top_label_rms_error, c.class_wise_rms_error, c.multiclass_brier_score, c.multiclass_log_loss,
]  # fmt: skip
TOP = [c.confidence_ece, c.top_label_ece, c.mean_top_label_ece, c.top_label_rms_error]


def _drawn(n=1000, k=3, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.7), n)
    return (p.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1), p


@pytest.mark.parametrize("metric", MULTICLASS, ids=lambda m: m.__name__)
@pytest.mark.parametrize(
    "frame", [pd.DataFrame, lambda p, columns: pl.DataFrame(p, schema=columns)]
)
def test_the_columns_of_a_frame_belong_to_the_labels_they_are_named_after(metric, frame):
    y, p = _drawn()
    expected = metric(y, p)
    table = frame(p, columns=LEVELS.tolist())
    assert metric(LEVELS[y], table) == pytest.approx(expected, abs=1e-12)
    assert metric(LEVELS[y], table, labels=LEVELS) == pytest.approx(expected, abs=1e-12)
    seen = y != 2  # a class that does not occur keeps its column
    assert metric(LEVELS[y[seen]], frame(p[seen], columns=LEVELS.tolist())) == pytest.approx(
        metric(LEVELS[y[seen]], p[seen], labels=LEVELS), abs=1e-12
    )


@pytest.mark.parametrize("metric", MULTICLASS, ids=lambda m: m.__name__)
def test_labels_that_count_from_one_are_not_taken_for_columns(metric):
    y, p = _drawn(k=5)
    grades = y + 1
    assert metric(grades, p) == pytest.approx(metric(y, p), abs=1e-12)
    few = y != 4
    with pytest.raises(CJEError, match="from 0 or from 1"):
        metric(grades[few], p[few])
    named = pd.DataFrame(p[few], columns=[str(g) for g in range(1, 6)])
    expected = metric(grades[few], p[few], labels=[1, 2, 3, 4, 5])
    assert metric(grades[few], named) == pytest.approx(expected, abs=1e-12)


def test_names_that_match_no_label_or_contradict_labels_are_refused():
    y, p = _drawn()
    frame = pd.DataFrame(p, columns=LEVELS)
    with pytest.raises(CJEError, match="not among the column names"):
        c.top_label_ece(np.array(["a", "b", "c"])[y], frame)
    with pytest.raises(CJEError, match="not among the column names"):
        c.top_label_ece(y, frame)
    with pytest.raises(CJEError, match="different orders"):
        c.top_label_ece(LEVELS[y], frame, labels=sorted(LEVELS))
    with pytest.raises(CJEError, match="distinct names"):
        c.top_label_ece(np.full(len(y), "low"), pd.DataFrame(p, columns=["low", "low", "high"]))
    with pytest.raises(CJEError, match="is not a number"):
        c.top_label_ece(np.ones(len(y)), pd.DataFrame(p, columns=["1", "2", "many"]))


def test_a_verdict_calibrator_reads_the_columns_of_a_frame_by_name():
    y, p = _drawn(2000)
    values = {"low": 0.0, "medium": 0.5, "high": 1.0}
    expected = c.VerdictCalibrator(values).fit(p, LEVELS[y]).scores(p).mean
    frame = pd.DataFrame(p, columns=LEVELS)[sorted(LEVELS)]
    got = c.VerdictCalibrator(values).fit(frame, LEVELS[y]).scores(frame).mean
    np.testing.assert_allclose(got, expected, atol=1e-12)
    with pytest.raises(CJEError, match="columns"):
        c.VerdictCalibrator(values).fit(frame.rename(columns={"low": "poor"}), LEVELS[y])


@pytest.mark.parametrize("metric", TOP, ids=lambda m: m.__name__)
def test_a_pair_and_a_top_class_alone_measure_what_a_matrix_does(metric):
    y, p = _drawn()
    top, confidence = p.argmax(axis=1), p.max(axis=1)
    expected = metric(y, p)
    assert metric(y, (top, confidence)) == pytest.approx(expected, abs=1e-12)
    assert metric(LEVELS[y], (LEVELS[top], confidence)) == pytest.approx(expected, abs=1e-12)
    for rest in (0.0, np.nan):
        lone = np.full_like(p, rest)
        lone[np.arange(len(p)), top] = confidence
        assert metric(y, lone) == pytest.approx(expected, abs=1e-12)
    assessed = c.assess(metric, y, (top, confidence), n_draws=20)
    matrix = c.assess(metric, y, p, n_draws=20)
    assert tuple(assessed.interval) == pytest.approx(tuple(matrix.interval), abs=1e-12)
    assert c.null_reference(metric, (top, confidence), expected, n_draws=20).mean > 0.0


def test_curves_take_a_pair():
    y, p = _drawn()
    pair = (LEVELS[p.argmax(axis=1)], p.max(axis=1))
    np.testing.assert_array_equal(
        c.confidence_curve(LEVELS[y], pair).observed, c.confidence_curve(y, p).observed
    )
    assert set(c.top_label_curves(LEVELS[y], pair)) == set(LEVELS)


def test_pairs_and_lone_classes_that_make_no_sense_are_refused():
    y, p = _drawn(20)
    top, confidence = p.argmax(axis=1), p.max(axis=1)
    for metric, prediction, words in (
        (c.class_wise_ece, (top, confidence), "every class"),
        (c.top_label_ece, (top[:5], confidence), "differ in length"),
        (c.top_label_ece, (top, confidence + 1.0), "must lie in"),
        (c.top_label_ece, (LEVELS[top], confidence), "different kinds"),
        (c.top_label_ece, np.zeros_like(p), "zero everywhere"),
    ):
        with pytest.raises(CJEError, match=words):
            metric(y, prediction)


BINARY = [
    c.expected_calibration_error, c.debiased_ece, c.maximum_calibration_error, c.smooth_ece,
    c.kolmogorov_smirnov_error, c.kuiper_error, c.spiegelhalter_z, c.brier_score,
    c.corp_miscalibration, c.corp_discrimination, c.rms_calibration_error,
]  # fmt: skip


@pytest.mark.parametrize("metric", BINARY, ids=lambda m: m.__name__)
def test_pos_label_says_which_of_two_labels_counts_as_one(metric):
    y, p = _drawn(k=2)
    p = p[:, 1]
    words = np.array(["no", "yes"])[y]
    assert metric(words, p, pos_label="yes") == metric(y, p)
    assert metric(words, 1 - p, pos_label="no") == metric(1 - y, 1 - p)
    assert metric(y + 1, p, pos_label=2) == metric(y, p)
    for bad in ("maybe", ["yes", "no"]):
        with pytest.raises(CJEError, match="pos_label"):
            metric(words, p, pos_label=bad)
    with pytest.raises(CJEError, match="pos_label"):
        metric(np.arange(len(p)), p, pos_label=1)
    assert c.assess(metric, words, p, pos_label="yes", n_draws=5).value == metric(y, p)


# ---- the classifier's label ---------------------------------------------------------------------


def _digits_like(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 6, 3000)
    X = rng.standard_normal((3000, 8)) + np.eye(6)[y] @ rng.standard_normal((6, 8)) * 0.8
    X[:, 4:] = X[:, :4] + 0.1 * X[:, 4:]  # repeated evidence: naive Bayes is overconfident
    return train_test_split(X, y, test_size=0.5, random_state=0)


@pytest.mark.parametrize("kind", [c.TopLabelCalibrator, c.ConfidenceCalibrator])
@pytest.mark.parametrize("calibrator", ["sigmoid", "isotonic", "histogram"])
def test_predict_returns_the_base_classifiers_label_and_leads_the_distribution(kind, calibrator):
    X, new, y, _ = _digits_like()
    model = kind(GaussianNB(), calibrator=calibrator, cv=5, random_state=0).fit(X, y)
    base = GaussianNB().fit(X, y).predict(new)
    p = model.predict_proba(new)
    label, confidence = model.predict_top_label(new)
    np.testing.assert_array_equal(model.predict(new), base)
    np.testing.assert_array_equal(label, base)
    np.testing.assert_array_equal(p.argmax(axis=1), base)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert p.min() >= 0.0
    able = confidence * 6 > 1.0 + 1e-6
    np.testing.assert_allclose(p.max(axis=1)[able], confidence[able], atol=1e-12)
    assert (p.max(axis=1)[~able] >= confidence[~able]).all()
    assert model.label_change_rate_ == 0.0
    again = kind(GaussianNB(), calibrator=calibrator, cv=5, random_state=0, rest="renormalise").fit(
        X, y
    )
    assert (again.predict(new) != base).mean() > 0.01
    assert again.label_change_rate_ > 0.01


class _Given:
    """A classifier that is not scikit-learn's: its input is its output."""

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.asarray(X)


def test_a_confidence_too_low_to_lead_is_raised_and_reported():
    _, p = _drawn(2000, 4)
    wrong = (p.argmax(axis=1) + 1 + np.arange(len(p)) % 3) % 4
    model = c.TopLabelCalibrator(_Given(), cv="prefit", calibrator="isotonic").fit(p, wrong)
    out = model.predict_proba(p)
    np.testing.assert_array_equal(out.argmax(axis=1), p.argmax(axis=1))
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    assert model.raised_rate_ > 0.9
    assert any(f.code == "confidence-raised" for f in model.findings_)
    assert model.predict_top_label(p)[1].max() < 0.25


def test_any_class_with_fit_and_predict_proba_can_be_prefit():
    y, p = _drawn(500)
    model = c.TopLabelCalibrator(_Given(), cv="prefit").fit(p, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(p).shape == (500, 3)
    named = _Given()
    named.classes_ = LEVELS
    assert set(c.TopLabelCalibrator(named, cv="prefit").fit(p, LEVELS[y]).predict(p)) <= set(LEVELS)
    with pytest.raises(CJEError, match="no classes_"):
        c.TopLabelCalibrator(_Given(), cv="prefit").fit(p, y + 1 - (y == 2))


def test_weights_pass_through_a_pipeline_with_and_without_routing():
    import sklearn

    X, _, y, _ = _digits_like()
    w = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    model = c.TopLabelCalibrator(pipeline, cv=3).fit(X, y, sample_weight=w)
    assert np.abs(model.estimator_[-1].coef_ - pipeline.fit(X, y)[-1].coef_).max() > 1e-3
    slow = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    slow.fit(X, y, logisticregression__sample_weight=w)
    np.testing.assert_allclose(model.estimator_[-1].coef_, slow[-1].coef_)
    by_hand = c.TopLabelCalibrator(pipeline, cv=3).fit(X, y, logisticregression__sample_weight=w)
    np.testing.assert_allclose(by_hand.estimator_[-1].coef_, slow[-1].coef_)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=False),
            LogisticRegression(max_iter=500).set_fit_request(sample_weight=True),
        )
        routed = c.TopLabelCalibrator(asked, cv=3).fit(X, y, sample_weight=w)
        np.testing.assert_allclose(routed.estimator_[-1].coef_, slow[-1].coef_)


def test_several_processes_give_the_same_fit_as_one():
    X, new, y, _ = _digits_like()
    one, two = (
        c.TopLabelCalibrator(GaussianNB(), cv=4, n_jobs=n).fit(X, y).predict_proba(new)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_a_frozen_classifier_takes_weights_for_its_maps():
    X, new, y, y_new = _digits_like()
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    w = np.random.default_rng(2).integers(0, 3, len(y_new)).astype(float)
    by_weight = c.TopLabelCalibrator(frozen).fit(new, y_new, sample_weight=w)
    rows = np.repeat(np.arange(len(w)), w.astype(int))
    by_rows = c.TopLabelCalibrator(frozen).fit(new[rows], y_new[rows])
    np.testing.assert_allclose(by_weight.predict_proba(X), by_rows.predict_proba(X), atol=1e-9)
