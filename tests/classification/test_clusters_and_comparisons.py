"""Clusters, subgroups, classes, paired differences and softmax maps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from cje import classification as c
from cje.classification.multiclass import fit_temperature, fit_vector
from cje.classification.registry import ENTRIES
from cje.classification.rows import check_rows
from cje.errors import CJEError

METRICS = list(ENTRIES)


def _data(metric, n, rng, slope=1.0):
    if ENTRIES[metric].kind == "binary":
        p = rng.random(n)
        return (rng.random(n) < expit(slope * logit(p))).astype(int), p
    z = 1.5 * rng.standard_normal((n, 3))
    chance = softmax(slope * z, axis=1)
    return (chance.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1), softmax(z, axis=1)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_copies_of_rows_in_clusters_give_the_results_of_the_rows_alone(metric):
    """Five copies of each row are no more evidence than one."""
    y, p = _data(metric, 400, np.random.default_rng(0))
    copies = np.repeat(np.arange(400), 5)
    plain = c.assess(metric, y, p, n_draws=60)
    clustered = c.assess(metric, y[copies], p[copies], groups=copies, n_draws=60)
    naive = c.assess(metric, y[copies], p[copies], n_draws=60)
    if metric not in (c.debiased_ece, c.spiegelhalter_z):  # their values depend on the noise
        assert clustered.value == pytest.approx(plain.value, abs=1e-9)
    if metric is not c.maximum_calibration_error:
        assert clustered.interval.width > 0.75 * plain.interval.width
    if metric is not c.spiegelhalter_z:  # whose unit is the standard deviation itself
        wrongly_sure = naive.null.p_value < 0.05 < clustered.null.p_value
        assert wrongly_sure or clustered.interval.width > 1.2 * naive.interval.width
    assert clustered.clusters == 400
    if metric is not c.corp_discrimination:
        assert clustered.null.p_value > 0.01


@pytest.mark.parametrize("test", [c.kolmogorov_smirnov_test, c.kuiper_test, c.spiegelhalter_test])
def test_tests_of_clustered_copies_reject_a_calibrated_model_at_their_rate(test):
    rng = np.random.default_rng(1)
    rejected = naive = 0
    for _ in range(200):
        p = np.repeat(rng.random(150), 5)
        y = np.repeat(rng.random(150) < p[::5], 5)
        groups = np.repeat(np.arange(150), 5)
        rejected += test(y, p, groups=groups).p_value < 0.05
        naive += test(y, p).p_value < 0.05
    assert rejected <= 20
    assert naive >= 40


@pytest.mark.parametrize(
    "metric", [c.expected_calibration_error, c.top_label_ece, c.class_wise_ece, c.brier_score,
               c.rms_calibration_error, c.corp_miscalibration], ids=lambda m: m.__name__,
)  # fmt: skip
def test_both_sides_of_a_clustered_interval_cover(metric):
    """Rows of one cluster share a score and, half of the time, an outcome."""
    rng = np.random.default_rng(2)
    below = above = 0
    y, p = _data(metric, 200_000, np.random.default_rng(99), slope=0.6)
    rows = check_rows(ENTRIES[metric].kind, y, p, labels=None if p.ndim == 1 else [0, 1, 2])
    truth = ENTRIES[metric].value(rows)
    for _ in range(100):
        first, score = _data(metric, 150, rng, slope=0.6)
        other = np.array([_again(metric, q, rng) for q in score])
        same = rng.random(150) < 0.5
        y = np.concatenate((first, np.where(same, first, other)))
        p = np.concatenate((score, score))
        groups = np.tile(np.arange(150), 2)
        rows = check_rows(
            ENTRIES[metric].kind, y, p, labels=None if p.ndim == 1 else [0, 1, 2], groups=groups
        )
        low, high = ENTRIES[metric].limits(rows, 0.95)
        below += low <= truth + 0.002
        above += high >= truth - 0.002
    assert below >= 93
    assert above >= 93


def _again(metric, q, rng):
    if ENTRIES[metric].kind == "binary":
        return int(rng.random() < expit(0.6 * logit(q)))
    return rng.choice(3, p=softmax(0.6 * np.log(q)))


def test_subgroups_are_adjusted_and_equal_assess_on_their_rows():
    rng = np.random.default_rng(3)
    p = rng.random(3000)
    site = np.array(["a", "b", "c"])[rng.integers(0, 3, 3000)]
    y = rng.random(3000) < np.where(site == "b", p**2, p)
    found = c.assess_subgroups(c.expected_calibration_error, y, p, site, n_draws=300)
    assert list(found) == ["a", "b", "c"]
    assert found.adjusted["b"] <= 0.05 < min(found.adjusted["a"], found.adjusted["c"])
    rows = site == "b"
    alone = c.assess(
        c.expected_calibration_error, y[rows], p[rows], level=1 - 0.05 / 3, n_draws=300
    )
    assert tuple(found["b"].interval) == pytest.approx(tuple(alone.interval))
    assert "adjusted p" in str(found)
    with pytest.raises(CJEError, match="one subgroup per row"):
        c.assess_subgroups(c.expected_calibration_error, y, p, site[:5])


def test_the_class_table_adds_up_to_the_top_label_error():
    y, p = _data(c.top_label_ece, 2000, np.random.default_rng(4), slope=0.5)
    table = c.class_table(y, p, n_draws=20)
    assert sum(row.count for row in table) == 2000
    total = sum(row.count * row.ece for row in table) / 2000
    assert total == pytest.approx(c.top_label_ece(y, p), abs=1e-12)
    right = sum(row.count * row.accuracy for row in table) / 2000
    assert right == pytest.approx((p.argmax(axis=1) == y).mean(), abs=1e-12)
    for row in table:
        assert row.accuracy in row.accuracy_interval
        assert row.ece_interval.low <= row.ece


def test_a_difference_of_losses_is_the_mean_of_paired_differences():
    rng = np.random.default_rng(5)
    y, p = _data(c.multiclass_log_loss, 1000, rng, slope=0.5)
    other = softmax(0.5 * np.log(p), axis=1)
    both = c.compare_calibration(c.multiclass_log_loss, y, {"raw": p, "cooled": other})
    apart = both.difference("raw", "cooled")
    rows = np.arange(1000)
    losses = -np.log(p[rows, y]) + np.log(other[rows, y])
    assert apart.values[0] == pytest.approx(losses.mean(), abs=1e-12)
    assert apart.standard_errors()[0] == pytest.approx(losses.std(ddof=1) / np.sqrt(1000), rel=1e-6)
    for bad in ({"one": p}, p):
        with pytest.raises(CJEError, match="at least two"):
            c.compare_calibration(c.multiclass_log_loss, y, bad)
    with pytest.raises(CJEError, match="influence"):
        c.compare_calibration(c.smooth_ece, y, {"a": p, "b": p})


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.4, 1.0), (0.4, 0.6)])
def test_the_interval_of_a_difference_of_binned_errors_covers(a, b):
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(300):
        chance = rng.random(800)
        y = rng.random(800) < chance
        scores = {n: expit(logit(chance) / s) for n, s in (("a", a), ("b", b))}
        both = c.compare_calibration(c.expected_calibration_error, y, scores)
        low, high = both.difference("a", "b").intervals()[0]
        held += low <= _truth(a) - _truth(b) <= high
    assert held >= 276


@pytest.mark.parametrize("metric", [c.expected_calibration_error, c.top_label_ece])
def test_the_interval_of_a_difference_near_calibration_covers(metric):
    """It was [value +- 1.96 s] with the excess taken for known, and covered 66% (top label)."""
    rng, held, binary = np.random.default_rng(8), 0, ENTRIES[metric].kind == "binary"
    large, names = _data(metric, 100_000, np.random.default_rng(9)), np.arange(3)
    labels = None if binary else names

    def other(p):
        return expit(logit(p) / 0.8) if binary else softmax(np.log(p) / 0.8, axis=1)

    truth = _population(metric, other(large[1]), large[1])
    for _ in range(120):
        y, p = _data(metric, 500, rng)
        both = c.compare_calibration(metric, y, {"a": other(p), "b": p}, labels=labels)
        low, high = both.difference("a", "b").intervals()[0]
        held += low <= truth <= high
    assert held >= 112


def _population(metric, p, chance):
    """The metric with each outcome in proportion to its chance."""
    if p.ndim == 1:
        p, chance = np.column_stack((1.0 - p, p)), np.column_stack((1.0 - chance, chance))
        weight, score = chance.T.ravel(), np.tile(p[:, 1], 2)
    else:
        weight, score = chance.T.ravel(), np.tile(p, (p.shape[1], 1))
    return metric(np.repeat(np.arange(p.shape[1]), len(p)), score, sample_weight=weight)


def _truth(slope):
    """ECE in 15 bins of the score expit(logit(U) / slope), U uniform and the true chance."""
    chance = (np.arange(400_000) + 0.5) / 400_000
    score = expit(logit(chance) / slope)
    bins = np.minimum((score * 15).astype(int), 14)
    return np.abs(np.bincount(bins, weights=chance - score)).sum() / len(chance)


def test_softmax_maps_lower_the_log_loss_and_temperature_keeps_every_label():
    rng = np.random.default_rng(7)
    y, p = _data(c.multiclass_log_loss, 4000, rng, slope=0.5)
    new, q = _data(c.multiclass_log_loss, 4000, rng, slope=0.5)
    cooled = fit_temperature(p, y, None)
    assert cooled.slope[0] == pytest.approx(0.5, abs=0.03)
    np.testing.assert_array_equal(cooled.apply(q).argmax(axis=1), q.argmax(axis=1))
    grid = [c.multiclass_log_loss(y, softmax(b * np.log(p), axis=1)) for b in (0.45, 0.5, 0.55)]
    assert c.multiclass_log_loss(y, cooled.apply(p)) <= min(grid) + 1e-12
    vector = fit_vector(p, y, None)
    assert c.multiclass_log_loss(new, vector.apply(q)) < c.multiclass_log_loss(new, q) - 0.05
    assert c.multiclass_log_loss(new, vector.apply(q)) == pytest.approx(
        c.multiclass_log_loss(new, cooled.apply(q)), abs=0.005
    )
    shifted = softmax(np.log(p) + np.array([0.0, 1.0, -1.0]), axis=1)
    better = fit_vector(shifted, y, None)
    assert c.multiclass_log_loss(y, better.apply(shifted)) < (
        c.multiclass_log_loss(y, fit_temperature(shifted, y, None).apply(shifted)) - 0.05
    )
    w = rng.integers(0, 3, len(y)).astype(float)
    rows = np.repeat(np.arange(len(y)), w.astype(int))
    np.testing.assert_allclose(
        fit_vector(p, y, w).slope, fit_vector(p[rows], y[rows], None).slope, atol=1e-5
    )


@pytest.mark.parametrize("method", ["temperature", "vector"])
def test_the_softmax_calibrator_reaches_scikit_learns_log_loss(method):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.datasets import make_classification

    X, y = make_classification(
        3000, n_features=12, n_informative=8, n_redundant=4, n_classes=5, random_state=0
    )
    base = FrozenEstimator(GaussianNB().fit(X[:1000], y[:1000]))
    ours = c.SoftmaxCalibrator(base, method=method).fit(X[1000:2000], y[1000:2000])
    theirs = CalibratedClassifierCV(base, method="temperature").fit(X[1000:2000], y[1000:2000])
    loss = c.multiclass_log_loss(y[2000:], ours.predict_proba(X[2000:]))
    assert loss <= c.multiclass_log_loss(y[2000:], theirs.predict_proba(X[2000:])) + 1e-3
    if method == "temperature":
        np.testing.assert_array_equal(ours.predict(X), base.predict(X))
    with pytest.raises(CJEError, match="method"):
        c.SoftmaxCalibrator(base, method="matrix").fit(X, y)


@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize("base", ["naive Bayes", "neighbours", "forest"])
def test_our_temperature_is_at_least_as_good_as_scikit_learns_on_several_problems(n_classes, base):
    """And the structured vector scaling is never much worse than it."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier

    X, y = make_classification(
        2400, n_features=15, n_informative=10, n_redundant=4, n_classes=n_classes,
        n_clusters_per_class=1, random_state=n_classes,
    )  # fmt: skip
    kinds = {
        "naive Bayes": GaussianNB(),
        "neighbours": KNeighborsClassifier(15),
        "forest": RandomForestClassifier(20, random_state=0),
    }
    model = FrozenEstimator(kinds[base].fit(X[:800], y[:800]))
    held, new = slice(800, 1600), slice(1600, None)

    def loss(fitted):
        fitted.fit(X[held], y[held])
        return c.multiclass_log_loss(y[new], fitted.predict_proba(X[new]))

    theirs = loss(CalibratedClassifierCV(model, method="temperature"))
    assert loss(c.SoftmaxCalibrator(model, method="temperature")) <= theirs + 5e-4
    assert loss(c.SoftmaxCalibrator(model, method="vector")) <= theirs + 0.015


def test_displays_and_scorers_follow_scikit_learn():
    from sklearn.model_selection import cross_val_score

    X, y = np.random.default_rng(8).standard_normal((600, 4)), np.arange(600) % 3
    X[:, 0] += y
    model = GaussianNB().fit(X, y)
    shown = c.ReliabilityDisplay.from_estimator(model, X, y, n_bins=5)
    same = c.ReliabilityDisplay.from_predictions(y, model.predict_proba(X), n_bins=5, ax=shown.ax_)
    np.testing.assert_array_equal(shown.curve.observed, same.curve.observed)
    assert "GaussianNB" in [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    words = np.array(["no", "yes"])[(y > 0).astype(int)]
    two = GaussianNB().fit(X, words)
    binary = c.ReliabilityDisplay.from_estimator(two, X, words)
    direct = c.calibration_curve(words == "yes", two.predict_proba(X)[:, 1])
    np.testing.assert_array_equal(binary.curve.observed, direct.observed)
    top = c.TopLabelCalibrator(GaussianNB(), cv=3).fit(X, y)
    assert len(c.ReliabilityDisplay.from_estimator(top, X, y, n_bins=5).curve) > 0
    losses = cross_val_score(model, X, y, scoring=c.calibration_scorer(c.top_label_ece), cv=3)
    assert (losses < 0).all()
    scorer = c.calibration_scorer(c.brier_score)
    assert cross_val_score(model, X, y > 0, scoring=scorer, cv=3).max() < 0
