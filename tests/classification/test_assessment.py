"""Intervals of the metrics cover, hold 0 when they may, and see gross miscalibration.

The long study is ``benchmarks/ece_coverage.py``; these are its short form, with fixed seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from cje import classification as c
from cje.classification.registry import ENTRIES
from cje.classification.rows import check_rows
from cje.errors import CJEError

FOLDED = {
    "ece": (c.expected_calibration_error, {}, 120),
    "mce": (c.maximum_calibration_error, {"n_bins": 5}, 120),
    "smooth": (c.smooth_ece, {}, 25),
    "ks": (c.kolmogorov_smirnov_error, {}, 120),
    "kuiper": (c.kuiper_error, {}, 120),
    "mcb": (c.corp_miscalibration, {}, 120),
    "brier": (c.brier_score, {}, 120),
    "dsc": (c.corp_discrimination, {}, 120),
}
SCORES = {
    "spread": lambda rng, n: rng.random(n),
    "extreme": lambda rng, n: 1.0 - rng.beta(0.3, 20.0, n),
}


def _limits(metric, y, p, groups=None, **options):
    entry = ENTRIES[metric]
    names = None if p.ndim == 1 else np.arange(p.shape[1])
    rows = check_rows(entry.kind, y, p, labels=names, groups=groups)
    return entry.limits(rows, 0.95, **options)


def _chance(p, slope):
    return expit(slope * logit(np.clip(p, 1e-9, 1 - 1e-9)))


def _expectation(metric, p, chance, options):
    """Each row once with each outcome, weighted by its probability: the expectation."""
    y = np.repeat([1, 0], len(p))
    return metric(y, np.tile(p, 2), sample_weight=np.concatenate((chance, 1 - chance)), **options)


@pytest.mark.parametrize("slope", [1.0, 0.4], ids=["perfect", "overconfident"])
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("name", FOLDED)
def test_both_sides_of_the_interval_cover(name, scores, slope):
    metric, options, n_reps = FOLDED[name]
    draw = SCORES[scores]
    large = draw(np.random.default_rng(99), 50_000)
    truth = _expectation(metric, large, _chance(large, slope), options)
    rng = np.random.default_rng(7)
    below = above = 0
    for _ in range(n_reps):
        p = draw(rng, 400)
        chance = _chance(p, slope)
        y = (rng.random(400) < chance).astype(float)
        # The MCE is over the bins that hold a row, which are the sample's own.
        target = _expectation(metric, p, chance, options) if name == "mce" else truth
        low, high = _limits(metric, y, p, **options)
        below += low <= target + 1e-9
        above += high >= target - 1e-9
    assert below / n_reps >= 0.935
    assert above / n_reps >= 0.935


@pytest.mark.parametrize("slope", [1.0, 0.7, 2.0])
def test_both_sides_of_spiegelhalters_interval_cover(slope):
    p = np.random.default_rng(99).random(400_000)
    mean = ((1 - 2 * p) * (_chance(p, slope) - p)).mean()
    truth = np.sqrt(400) * mean / np.sqrt(((1 - 2 * p) ** 2 * p * (1 - p)).mean())
    rng = np.random.default_rng(9)
    below = above = 0
    for _ in range(400):
        p = rng.random(400)
        y = (rng.random(400) < _chance(p, slope)).astype(float)
        low, high = _limits(c.spiegelhalter_z, y, p)
        below += low <= truth
        above += high >= truth
    assert min(below, above) / 400 >= 0.935
    assert (below + above - 400) / 400 >= 0.92


def _multiclass(rng, n, slope, k=4):
    logits = 1.5 * rng.standard_normal((n, k))
    chance = np.exp(slope * logits)
    chance /= chance.sum(axis=1, keepdims=True)
    p = np.exp(logits)
    y = (chance.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    return y, p / p.sum(axis=1, keepdims=True), chance


@pytest.mark.parametrize("slope", [1.0, 0.4], ids=["perfect", "overconfident"])
@pytest.mark.parametrize(
    "metric", [c.confidence_ece, c.top_label_ece, c.mean_top_label_ece, c.class_wise_ece],
    ids=lambda m: m.__name__,
)  # fmt: skip
def test_both_sides_cover_with_several_classes(metric, slope):
    _, p, chance = _multiclass(np.random.default_rng(99), 20_000, slope)
    rows = np.repeat(np.arange(4), len(p))
    truth = metric(rows, np.tile(p, (4, 1)), sample_weight=chance.T.ravel())
    rng = np.random.default_rng(8)
    below = above = 0
    for _ in range(100):
        y, p, _ = _multiclass(rng, 400, slope)
        low, high = _limits(metric, y, p)
        below += low <= truth + 1e-9
        above += high >= truth - 1e-9
    assert below >= 94
    assert above >= 94


def _result(metric, slope, n=3000, **options):
    rng = np.random.default_rng(3)
    if ENTRIES[metric].kind != "binary":
        y, p, _ = _multiclass(rng, n, slope)
    else:
        p = rng.random(n)
        y = rng.random(n) < _chance(p, slope)
    return c.assess(metric, y, p, n_draws=99, **options)


@pytest.mark.parametrize("metric", list(ENTRIES), ids=lambda m: m.__name__)
def test_every_metric_has_an_interval_and_a_null_reference(metric):
    good, bad = _result(metric, 1.0, n=800), _result(metric, 0.3)
    for result in (good, bad):
        low, high = result.interval
        assert np.isfinite([low, high, result.null.mean, result.null.quantile]).all()
        assert low <= high
        assert 0.0 < result.null.p_value <= 1.0
    if metric is c.corp_discrimination:
        return  # not a measure of miscalibration
    assert good.null.p_value > 0.01
    assert bad.null.p_value == pytest.approx(0.01)  # 1 of 100: as small as 99 draws can say
    assert bad.value > bad.null.quantile
    if metric not in (c.brier_score, c.multiclass_brier_score, c.multiclass_log_loss):
        assert good.interval.low <= 0.0
        assert bad.interval.low > 0.0
    assert metric.__name__ in str(bad)


def test_the_percentile_bootstrap_would_never_cover_a_perfect_model():
    """Why the intervals are made as they are."""
    rng = np.random.default_rng(4)
    p = rng.random(1000)
    y = rng.random(1000) < p
    rows = rng.integers(0, 1000, (200, 1000))
    draws = [c.expected_calibration_error(y[i], p[i]) for i in rows]
    assert np.quantile(draws, 0.025) > 0.0
    assert c.assess(c.expected_calibration_error, y, p, n_draws=19).interval.low == 0.0


def test_more_rows_give_a_narrower_interval_and_a_lower_level_too():
    few, many = (_result(c.expected_calibration_error, 0.4, n=n) for n in (500, 20_000))
    assert many.interval.width < 0.5 * few.interval.width
    rough = _result(c.expected_calibration_error, 0.4, n=500, level=0.5)
    assert rough.interval.width < few.interval.width


def test_equal_weights_change_nothing_and_one_heavy_row_widens():
    rng = np.random.default_rng(5)
    p = rng.random(500)
    y = rng.random(500) < p
    for metric in (c.expected_calibration_error, c.smooth_ece, c.kuiper_error, c.brier_score):
        plain = c.assess(metric, y, p, n_draws=5).interval
        same = c.assess(metric, y, p, n_draws=5, sample_weight=np.full(500, 0.1)).interval
        assert (same.low, same.high) == pytest.approx((plain.low, plain.high), abs=1e-9)
        heavy = np.ones(500)
        heavy[0] = 200.0
        assert c.assess(metric, y, p, n_draws=5, sample_weight=heavy).interval.width > plain.width


def test_null_reference_is_the_metric_of_outcomes_drawn_from_the_scores():
    rng = np.random.default_rng(6)
    p = rng.random(300)
    reference = c.null_reference(c.expected_calibration_error, p, 0.05, n_draws=300, seed=1)
    direct = [c.expected_calibration_error(rng.random(300) < p, p) for _ in range(300)]
    assert reference.mean == pytest.approx(np.mean(direct), rel=0.06)
    assert reference.quantile == pytest.approx(np.quantile(direct, 0.95), rel=0.1)
    same = c.null_reference(c.expected_calibration_error, p, 0.05, n_draws=300, seed=1)
    assert same == reference


def test_unknown_metrics_and_levels_are_refused():
    with pytest.raises(CJEError, match="metrics of cje"):
        c.assess(np.mean, [0, 1], [0.2, 0.8])
    with pytest.raises(CJEError, match="level"):
        c.assess(c.brier_score, [0, 1], [0.2, 0.8], level=95)
    with pytest.raises(CJEError, match="n_draws"):
        c.assess(c.brier_score, [0, 1], [0.2, 0.8], n_draws=0)
    with pytest.raises(CJEError, match="undefined"):
        c.assess(c.spiegelhalter_z, [0, 1], [0.5, 1.0])


@pytest.mark.parametrize("metric", list(ENTRIES), ids=lambda m: m.__name__)
def test_one_row_gives_a_finite_interval(metric):
    if ENTRIES[metric].kind != "binary":
        result = c.assess(metric, [1], [[0.3, 0.7]], labels=[0, 1], n_draws=5)
    else:
        result = c.assess(metric, [1], [0.7], n_draws=5)
    assert np.isfinite([result.interval.low, result.interval.high]).all()


@pytest.mark.parametrize("metric", list(ENTRIES), ids=lambda metric: metric.__name__)
@pytest.mark.parametrize("weighted", [False, True])
def test_row_order_moves_no_part_of_an_assessment(metric, weighted):
    rng = np.random.default_rng(0)
    n = 400
    p = rng.random(n).round(2)
    y = (rng.random(n) < p).astype(int)
    if ENTRIES[metric].kind != "binary":
        p, y = rng.dirichlet(np.ones(3), n).round(1) + 0.1, rng.integers(0, 3, n)
        p /= p.sum(axis=1, keepdims=True)
    w = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)

    def numbers(order):
        found = c.assess(metric, y[order], p[order], n_draws=50, sample_weight=w[order])
        null = found.null
        return [found.value, *found.interval, null.mean, null.quantile, null.p_value]

    moved = np.array(numbers(np.arange(n))) - numbers(rng.permutation(n))
    assert np.abs(moved).max() <= 1e-12


@pytest.mark.parametrize("bad", [None, "text", [], {}, np.nan, [None], 10**400], ids=repr)
def test_a_null_reference_of_invalid_input_is_refused(bad):
    p = [0.2, 0.7, 0.4]
    calls = [(bad, p, 0.1), (c.brier_score, bad, 0.1), (c.brier_score, p, bad),
             (c.top_label_ece, bad, 0.1)]  # fmt: skip
    for call in calls[: None if bad != 10**400 else 1]:
        with pytest.raises(CJEError):
            c.null_reference(*call)
    for option in ("level", "n_draws", "seed"):
        with pytest.raises(CJEError):
            c.null_reference(c.brier_score, p, 0.1, **{option: bad})
    with pytest.raises(CJEError, match="labels"):
        c.assess(c.brier_score, [0, 1, 1], p, labels=[0, 1])


@pytest.mark.parametrize("metric", list(ENTRIES), ids=lambda m: m.__name__)
def test_empty_input_is_refused_by_every_metric_and_function(metric):
    """A sum over no rows has no minimum, mean or quantile: one message instead."""
    empty = np.empty(0) if ENTRIES[metric].kind == "binary" else np.empty((0, 3))
    none = np.empty(0, dtype=int)
    calls = [
        lambda: metric(none, empty),
        lambda: c.assess(metric, none, empty, n_draws=5),
        lambda: c.null_reference(metric, empty, 0.1, n_draws=5),
        lambda: c.assess_subgroups(metric, none, empty, none, n_draws=5),
    ]
    if ENTRIES[metric].kind == "top":
        calls.append(lambda: c.null_reference(metric, (none, np.empty(0)), 0.1, n_draws=5))
    for call in calls:
        with pytest.raises(CJEError, match="is empty"):
            call()
