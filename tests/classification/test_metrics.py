"""Metrics equal slow versions of themselves and the peers' stored values; bad input is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from cje import classification as c
from cje.classification.cumulative import range_survival, sup_survival
from cje.errors import CJEError

PEERS = json.loads((Path(__file__).parent / "fixtures" / "peers.json").read_text())["metrics"]
BINARY = [
    c.expected_calibration_error, c.debiased_ece, c.maximum_calibration_error, c.smooth_ece,
    c.kolmogorov_smirnov_error, c.kuiper_error, c.spiegelhalter_z, c.brier_score,
    c.corp_miscalibration, c.corp_discrimination,
]  # fmt: skip
MULTICLASS = [c.confidence_ece, c.top_label_ece, c.mean_top_label_ece, c.class_wise_ece]


def _binary(n=500, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    if digits is not None:
        p = p.round(digits)
    return (rng.random(n) < p**1.3).astype(int), p


def _multiclass(n=600, k=4, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(k, 0.6), n)
    return (p.cumsum(axis=1) ** 1.3 > rng.random(n)[:, None]).argmax(axis=1), p


def slow_ece(y, p, edges):
    """Bin by bin, left edge inside, the last bin closed."""
    total = 0.0
    for b, (low, high) in enumerate(pairwise(edges)):
        last = b == len(edges) - 2
        inside = (p >= low) & ((p <= high) if last else (p < high))
        if inside.any():
            total += inside.mean() * abs(y[inside].mean() - p[inside].mean())
    return total


@pytest.mark.parametrize("n_bins", [1, 3, 10, 15, 100])
@pytest.mark.parametrize("digits", [None, 2])
def test_ece_equals_the_definition_written_out(n_bins, digits):
    y, p = _binary(digits=digits)
    edges = [b / n_bins for b in range(n_bins + 1)]
    assert c.expected_calibration_error(y, p, n_bins) == pytest.approx(
        slow_ece(y, p, edges), abs=1e-12
    )


def test_every_score_is_in_exactly_one_bin_also_on_an_edge():
    for n_bins in (3, 7, 10, 15, 49, 100):
        for p in (np.arange(n_bins + 1) / n_bins, np.nextafter(np.arange(1, n_bins) / n_bins, 0)):
            y = np.zeros(len(p), int)
            # With all outcomes zero the ECE is the mean score, if no score is lost or doubled.
            assert c.expected_calibration_error(y, p, n_bins) == pytest.approx(p.mean(), abs=1e-12)
            assert c.maximum_calibration_error(y, p, n_bins) >= p.max() - 1.0 / n_bins


def test_many_rows_in_blocks_give_the_same_as_few():
    y, p = _binary(40_000, digits=3)
    order = np.random.default_rng(1).permutation(len(p))
    for strategy in ("uniform", "quantile"):
        whole = c.expected_calibration_error(y, p, 15, strategy)
        again = c.expected_calibration_error(y[order], p[order], 15, strategy)
        assert whole == pytest.approx(again, abs=1e-12)
    edges = [b / 15 for b in range(16)]
    assert c.expected_calibration_error(y, p) == pytest.approx(slow_ece(y, p, edges), abs=1e-12)


def test_equal_mass_bins_hold_equal_numbers():
    y, p = _binary(300)
    order = np.argsort(p)
    gaps = (y[order] - p[order]).reshape(10, 30).sum(axis=1)
    assert c.expected_calibration_error(y, p, 10, "quantile") == pytest.approx(
        np.abs(gaps).sum() / 300, abs=1e-12
    )


def test_the_metrics_equal_mapie_where_mapie_is_right():
    y, p = np.array(PEERS["y"]), np.array(PEERS["p"])
    hit, score = np.array(PEERS["hit"]), np.array(PEERS["score"])
    assert c.expected_calibration_error(hit, score) == pytest.approx(PEERS["ece"], abs=1e-12)
    assert c.mean_top_label_ece(y, p) == pytest.approx(PEERS["mean_top_label_ece"], abs=1e-12)


def test_smooth_ece_equals_relplot_within_its_grid_and_the_integral_exactly():
    hit, p = np.array(PEERS["hit"]), np.array(PEERS["score"])
    assert c.smooth_ece(hit, p) == pytest.approx(PEERS["smooth_ece"], abs=1e-3)
    assert c.smooth_ece_at(hit, p, 0.1) == pytest.approx(PEERS["smooth_ece_at_0.1"], abs=1e-3)
    t = (np.arange(3000) + 0.5) / 3000

    def integral(sigma):
        kernel = sum(
            np.exp(-0.5 * ((t[:, None] - (sign * p[None, :] + shift)) / sigma) ** 2)
            for shift in (-2, 0, 2)
            for sign in (1, -1)
        ) / (sigma * np.sqrt(2 * np.pi))
        return np.abs(kernel @ (hit - p) / len(p)).mean()

    value = c.smooth_ece(hit, p)
    assert integral(value) == pytest.approx(value, abs=1e-6)  # the fixed point


def test_top_label_ece_weights_labels_by_frequency_and_its_mean_does_not():
    y, p = _multiclass()
    top, score = p.argmax(axis=1), p.max(axis=1)
    parts = [
        (np.mean(top == k), c.expected_calibration_error(y[top == k] == k, score[top == k]))
        for k in range(4)
    ]
    assert c.top_label_ece(y, p) == pytest.approx(sum(s * e for s, e in parts), abs=1e-12)
    assert c.mean_top_label_ece(y, p) == pytest.approx(np.mean([e for _, e in parts]), abs=1e-12)


def test_top_label_ece_in_equal_mass_bins_cuts_within_each_label():
    y, p = _multiclass()
    top, score = p.argmax(axis=1), p.max(axis=1)
    expected = sum(
        np.mean(top == k)
        * c.expected_calibration_error(y[top == k] == k, score[top == k], 5, "quantile")
        for k in range(4)
    )
    assert c.top_label_ece(y, p, 5, "quantile") == pytest.approx(expected, abs=1e-12)


def test_class_wise_and_confidence_ece_are_means_of_binary_ones():
    y, p = _multiclass()
    by_class = [c.expected_calibration_error(y == k, p[:, k]) for k in range(4)]
    assert c.class_wise_ece(y, p) == pytest.approx(np.mean(by_class), abs=1e-12)
    right = p.argmax(axis=1) == y
    assert c.confidence_ece(y, p) == pytest.approx(
        c.expected_calibration_error(right, p.max(axis=1)), abs=1e-12
    )


@pytest.mark.parametrize("metric", BINARY, ids=lambda m: m.__name__)
def test_binary_metrics_take_weights_as_repeated_rows(metric):
    y, p = _binary(200, digits=2)
    w = np.random.default_rng(3).integers(0, 4, len(p))
    weighted = metric(y, p, sample_weight=w)
    repeated = metric(np.repeat(y, w), np.repeat(p, w))
    if metric is c.spiegelhalter_z:  # a weight scales a row's variance by its square
        y1, p1 = _binary(200)
        assert metric(y1, p1, sample_weight=np.full(200, 3.0)) == pytest.approx(metric(y1, p1))
    elif metric is c.debiased_ece:  # the noise is that of the rows there are, not of their copies
        assert metric(y, p, sample_weight=np.full(200, 3.0)) == pytest.approx(metric(y, p))
    else:
        assert weighted == pytest.approx(repeated, abs=1e-9)


@pytest.mark.parametrize("metric", MULTICLASS, ids=lambda m: m.__name__)
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_multiclass_metrics_take_weights_as_repeated_rows(metric, strategy):
    y, p = _multiclass(300)
    w = np.random.default_rng(4).integers(0, 4, len(y))
    assert metric(y, p, 8, strategy, sample_weight=w) == pytest.approx(
        metric(np.repeat(y, w), np.repeat(p, w, axis=0), 8, strategy), abs=1e-9
    )


@pytest.mark.parametrize("metric", MULTICLASS, ids=lambda m: m.__name__)
def test_labels_may_be_strings_in_any_column_order(metric):
    y, p = _multiclass()
    names = np.array(["d", "a", "c", "b"])
    assert metric(names[y], p, labels=names) == metric(y, p)
    ordered = np.argsort(names)
    assert metric(names[y], p[:, ordered]) == pytest.approx(metric(y, p), abs=1e-12)


def test_kolmogorov_smirnov_and_kuiper_equal_the_definition_and_ignore_the_order_of_ties():
    y, p = _binary(100, digits=1)
    path = [0.0]
    for value in np.unique(p):
        path.append(path[-1] + float((y - p)[p == value].sum()) / 100)
    assert c.kolmogorov_smirnov_error(y, p) == pytest.approx(np.abs(path).max(), abs=1e-12)
    assert c.kuiper_error(y, p) == pytest.approx(max(path) - min(path), abs=1e-12)
    order = np.random.default_rng(0).permutation(100)
    assert c.kuiper_error(y[order], p[order]) == pytest.approx(c.kuiper_error(y, p), abs=1e-12)


def test_p_value_series_agree_with_simulated_brownian_motion_and_their_tails():
    rng = np.random.default_rng(0)
    path = np.cumsum(rng.standard_normal((4000, 2000)), axis=1) / np.sqrt(2000)
    sup = np.abs(path).max(axis=1)
    spread = np.maximum(path.max(axis=1), 0.0) - np.minimum(path.min(axis=1), 0.0)
    for x in (1.0, 1.5, 2.24):
        assert sup_survival(x) == pytest.approx((sup > x).mean(), abs=0.03)
        assert range_survival(x) == pytest.approx((spread > x).mean(), abs=0.03)
    assert sup_survival(5.0) == pytest.approx(4.0 * ndtr(-5.0), rel=1e-3)
    assert range_survival(6.0) == pytest.approx(8.0 * ndtr(-6.0), rel=1e-3)
    assert sup_survival(0.0) == range_survival(0.0) == 1.0
    assert range_survival(0.4) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    "test", [c.kolmogorov_smirnov_test, c.kuiper_test, c.spiegelhalter_test],
    ids=lambda t: t.__name__,
)  # fmt: skip
def test_p_values_reject_a_calibrated_model_at_their_rate_and_a_bad_one_always(test):
    rng = np.random.default_rng(1)
    p_values = []
    for _ in range(400):
        p = rng.random(400)
        p_values.append(test(rng.random(400) < p, p).p_value)
    # 400 draws at 5%: 20 expected, standard deviation 4.4; the discrete walk falls short a little.
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.085
    p = rng.random(2000)
    y = rng.random(2000) < 0.5 + 0.4 * (p - 0.5)
    assert test(y, p).p_value < 1e-6


def test_spiegelhalter_is_two_sided():
    p = np.full(1000, 0.8)
    for share in (0.7, 0.9):
        y = np.arange(1000) < share * 1000
        assert c.spiegelhalter_test(y, p).p_value < 1e-6


def test_corp_parts_add_up_and_vanish_for_recalibrated_scores():
    y, p = _binary()
    parts = c.corp_decomposition(y, p)
    assert parts.score == pytest.approx(c.brier_score(y, p), abs=1e-15)
    assert parts.score == pytest.approx(
        parts.miscalibration - parts.discrimination + parts.uncertainty, abs=1e-12
    )
    assert min(parts) >= 0.0
    fitted = c.IsotonicCalibrator().fit(p, y).predict(p)
    assert c.corp_miscalibration(y, fitted) == pytest.approx(0.0, abs=1e-12)
    assert c.corp_discrimination(y, fitted) == pytest.approx(parts.discrimination, abs=1e-12)


def test_debiased_ece_takes_away_half_of_a_perfect_models_error_and_little_of_a_bad_ones():
    rng = np.random.default_rng(2)
    values = []
    for _ in range(200):
        p = rng.random(500)
        for chance in (p, 0.5 + 0.3 * (p - 0.5)):
            y = rng.random(500) < chance
            values.append((c.expected_calibration_error(y, p), c.debiased_ece(y, p)))
    plain, debiased = np.reshape(values, (200, 2, 2)).mean(axis=0).T
    assert plain[0] > 0.045
    assert 0.3 * plain[0] < debiased[0] < 0.6 * plain[0]
    truth = 0.7 * 0.25  # the mean of 0.7 |p - 1/2|
    assert abs(debiased[1] - truth) < abs(plain[1] - truth)


@pytest.mark.parametrize("metric", BINARY, ids=lambda m: m.__name__)
@pytest.mark.parametrize(
    ("y", "p", "words"),
    [
        ([], [], "empty"),
        ([0, 1], [0.5], "length"),
        ([0, 1], [0.5, 1.5], "must lie in"),
        ([0, 1], [0.5, np.nan], "NaN"),
        ([0, 2], [0.5, 0.6], "0 and 1"),
        ([0, np.nan], [0.5, 0.6], "0 and 1"),
        ([0, 1], [[0.5, 0.5], [0.1, 0.9]], "one-dimensional"),
        (["a", "b"], [0.5, 0.6], "pos_label"),
    ],
)
def test_binary_metrics_refuse_bad_input(metric, y, p, words):
    with pytest.raises(CJEError, match=words):
        metric(y, p)


@pytest.mark.parametrize("metric", MULTICLASS, ids=lambda m: m.__name__)
def test_multiclass_metrics_refuse_bad_input(metric):
    y, p = _multiclass(20)
    for labels, probabilities, options, words in (
        (y, 0.9 * p, {}, "sum to one"),
        (y, np.where(p == p.max(), np.nan, p), {}, "NaN"),
        (y, p[:, :1], {}, "one column per class"),
        (y[:5], p, {}, "length"),
        (y, p, {"labels": [0, 1]}, "labels must name"),
        (np.where(y == 0, 7, y), p, {"labels": [0, 1, 2, 3]}, "never seen"),
        (np.where(y == 0, 7, 8), p, {}, "distinct labels"),
        (y, p, {"n_bins": 0}, "n_bins"),
        (y, p, {"n_bins": 2.5}, "n_bins"),
        (y, p, {"strategy": "even"}, "strategy"),
        (y, p, {"sample_weight": np.zeros(20)}, "zero in every row"),
        (y, p, {"sample_weight": -np.ones(20)}, "non-negative"),
        (y, p, {"sample_weight": np.ones(3)}, "one value per row"),
    ):
        with pytest.raises(CJEError, match=words):
            metric(labels, probabilities, **options)


def test_weights_and_bandwidths_that_are_not_numbers_are_refused():
    with pytest.raises(CJEError, match="must hold numbers"):
        c.brier_score([0, 1], [0.2, 0.7], sample_weight=["a", "b"])
    for bandwidth in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(CJEError, match="bandwidth"):
            c.smooth_ece_at([0, 1], [0.2, 0.7], bandwidth)


def test_a_rounding_beyond_one_is_not_an_error():
    assert c.expected_calibration_error([1, 1], [1.0 + 1e-7, 1.0]) == 0.0


def test_lists_of_different_lengths_and_absurd_numbers_of_bins_are_refused():
    with pytest.raises(CJEError, match="one-dimensional"):
        c.expected_calibration_error([[0, 1], [1]], [0.5, 0.5])
    with pytest.raises(CJEError, match="n_bins"):
        c.expected_calibration_error([0, 1], [0.5, 0.5], 10**9)


@pytest.mark.parametrize("metric", [*BINARY, c.calibration_curve, c.corp_decomposition])
@pytest.mark.parametrize("absurd", [5e-324, 1e-120, 1e120, 1e308])
def test_weights_whose_squares_overflow_are_refused(metric, absurd):
    y, p = _binary(20)
    with pytest.raises(CJEError, match="sample_weight"):
        metric(y, p, sample_weight=np.where(np.arange(20) == 3, absurd, 1.0))


def test_a_bandwidth_beyond_all_scores_smooths_everything_away():
    y, p = _binary(50)
    widest = c.smooth_ece_at(y, p, 1e308)
    assert widest == c.smooth_ece_at(y, p, 1e4) == pytest.approx(abs((y - p).mean()), abs=1e-12)
    for bad in (None, "wide", np.nan, [0.1], 10**400):
        with pytest.raises(CJEError, match="bandwidth"):
            c.smooth_ece_at(y, p, bad)


def test_a_score_far_outside_the_unit_interval_has_the_nearest_probability():
    y, p = _binary(50)
    fit = c.SigmoidCalibrator().fit(p, y)
    assert fit.predict([-1e308, 1e308]).tolist() == [0.0, 1.0]
    for bad in ([np.nan], None, "high", [1j], [-np.inf, np.inf]):
        with pytest.raises(CJEError, match="scores"):
            fit.predict(bad)


@pytest.mark.parametrize("test", [c.kolmogorov_smirnov_test, c.kuiper_test])
def test_scores_next_to_zero_have_a_p_value(test):
    assert test([0], [5e-324]).p_value == 1.0
    assert test([1], [5e-324]).p_value == 0.0
    assert sup_survival(0.15) == 1.0


def test_the_tail_of_the_largest_excursion_falls_to_nothing():
    tail = [sup_survival(x) for x in (1.0, 1.0 + 1e-12, 3.0, 8.0, 30.0, 1e3, 1e160)]
    assert tail[0] == pytest.approx(tail[1], abs=1e-10)
    assert tail[2:4] == pytest.approx([4 * ndtr(-3.0), 4 * ndtr(-8.0)], rel=1e-12)
    assert tail == sorted(tail, reverse=True)
    assert tail[-1] == 0.0


RUBBISH = [None, "text", 7, {}, [], [None] * 30, [{}] * 30, ["a"] * 30, [[1], [2, 3]], np.nan]


@pytest.mark.parametrize("bad", RUBBISH, ids=lambda bad: repr(bad)[:12])
def test_invalid_input_in_any_place_of_any_metric_is_refused_by_name(bad):
    y, p = _binary(30)
    proba = np.column_stack((p, 1.0 - p))
    for metric in (*BINARY, c.calibration_curve, c.kuiper_test, c.spiegelhalter_test):
        for call in ((bad, p), (y, bad)):
            with pytest.raises(CJEError):
                metric(*call)
    for metric in (*MULTICLASS, c.confidence_curve, c.top_label_curves, c.class_wise_curves):
        for call in ((bad, proba), (y.astype(int), bad)):
            with pytest.raises(CJEError):
                metric(*call)
    with pytest.raises(CJEError):
        c.expected_calibration_error(y, p, strategy=bad)
    with pytest.raises(CJEError):
        c.calibration_curve(y, p, band=bad)
    for report in (bad, [bad]):
        if report != []:
            with pytest.raises(CJEError):
                c.classification_report(report)
