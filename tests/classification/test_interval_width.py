"""Intervals of sums of absolute gaps are short, cover adversarial patterns, and say what they do.

The long study is ``benchmarks/ece_coverage.py``.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from cje import classification as c
from cje.classification.bins import BinSums
from cje.classification.even_gaps import even_gap_limit
from cje.classification.folded import excess
from cje.classification.registry import ENTRIES
from cje.classification.rows import check_rows
from cje.errors import CJEError


def _sample(rng, n, slope):
    logits = 1.5 * rng.standard_normal((n, 4))
    return softmax(logits, axis=1), softmax(slope * logits, axis=1)


@pytest.mark.parametrize(
    ("metric", "slope", "most"),
    [
        (c.top_label_ece, 0.4, 1.7), (c.top_label_ece, 2.0, 1.8),
        (c.class_wise_ece, 0.4, 1.7), (c.class_wise_ece, 2.0, 1.9),
    ],
)  # fmt: skip
def test_intervals_are_not_much_longer_than_an_oracles(metric, slope, most):
    rng, values, widths = np.random.default_rng(31), [], []
    for _ in range(120):
        p, chance = _sample(rng, 1000, slope)
        y = (chance.cumsum(axis=1) > rng.random(1000)[:, None]).argmax(axis=1)
        rows = check_rows(ENTRIES[metric].kind, y, p, labels=np.arange(4))
        low, high = ENTRIES[metric].limits(rows, 0.95)
        values.append(ENTRIES[metric].value(rows))
        widths.append(high - low)
    assert np.mean(widths) / (3.92 * np.std(values)) <= most


def _one_bin_off(p):
    return np.where((p > 0.6) & (p < 0.7), p - 0.3, p)


def _signs_alternate(p):
    return np.clip(p + 0.08 * (1 - 2 * ((p * 15).astype(int) % 2)), 0, 1)


def _all_too_high(p):
    return np.clip(p - 0.1, 0, 1)


@pytest.mark.parametrize("pattern", [_one_bin_off, _signs_alternate, _all_too_high])
def test_gaps_in_one_bin_of_alternating_sign_or_of_one_sign_are_covered(pattern):
    large = (np.arange(150_000) + 0.5) / 150_000
    bins = (large * 15).astype(int)
    truth = np.abs(np.bincount(bins, pattern(large) - large)).sum() / len(large)
    rng, n_reps, below, above = np.random.default_rng(32), 300, 0, 0
    for _ in range(n_reps):
        p = rng.random(600)
        y = (rng.random(600) < pattern(p)).astype(float)
        low, high = ENTRIES[c.expected_calibration_error].limits(check_rows("binary", y, p), 0.95)
        below += low <= truth
        above += high >= truth
    assert below / n_reps >= 0.935
    assert above / n_reps >= 0.935


def test_small_gaps_of_one_sign_in_many_cells_are_clear_together():
    rng = np.random.default_rng(33)
    p = rng.random(3000)
    y = (rng.random(3000) < np.clip(p - 0.06, 0, 1)).astype(float)
    low = c.assess(c.expected_calibration_error, y, p, n_bins=60, n_draws=2).interval.low
    assert low > 0.03
    groups = np.arange(3000)  # clusters of one row: cells are then not merged
    apart = c.assess(c.expected_calibration_error, y, p, n_bins=60, n_draws=2, groups=groups)
    assert apart.interval.low < low


def test_the_upper_limit_is_where_an_even_pattern_would_give_the_value_seen():
    weight = np.array([400.0, 400.0, 400.0])
    cells = BinSums(weight, weight, np.array([0.54, 0.46, 0.5]), np.full(3, 0.5), np.arange(3))
    share = weight / weight.sum()
    high = even_gap_limit(cells, share, 0.025)
    noise = share * np.sqrt(0.25 / 400)
    delta = high * share / noise
    mean = high + (noise * excess(delta)).sum()
    sd = np.sqrt((noise**2 * (1 + delta**2 - (delta + excess(delta)) ** 2)).sum())
    assert mean - 1.959964 * sd == pytest.approx(0.08 / 3, rel=0.01)


def test_outcomes_that_agree_with_the_scores_too_well_do_not_give_an_interval_without_width():
    p = np.full(400, 0.5)
    even = c.assess(c.expected_calibration_error, np.arange(400) % 2, p, n_draws=2)
    assert even.value == 0.0
    assert even.interval.low == 0.0
    assert even.interval.high > 0.02


def test_a_value_outside_its_own_interval_is_explained():
    found = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = rng.random(40)
        y = (rng.random(40) < p).astype(int)
        for metric in (c.debiased_ece, c.corp_miscalibration):
            a = c.assess(metric, y, p, n_draws=2)
            outside = not a.interval.low <= a.value <= a.interval.high
            assert outside == bool(a.remark)
            if outside:
                found.append(a)
                assert a.remark in str(a)
                assert a.remark in c.classification_report([a]).to_html().replace("&#39;", "'")
    assert {a.metric for a in found} >= {"debiased_ece"}


def test_text_labels_of_a_binary_metric_lead_to_pos_label():
    for labels in (["yes", "no", "yes"], np.array(["yes", "no", "yes"], dtype=object)):
        with pytest.raises(CJEError, match="pos_label='yes'"):
            c.expected_calibration_error(labels, [0.2, 0.4, 0.9])
