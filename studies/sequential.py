"""Do anytime intervals hold at every look, how wide are they, and how soon do they decide?

Miscoverage is the share of streams whose interval misses the true value at any look from the first
to the last label. Seeds chose nothing: the rule (first look, skewness limit) was fixed on others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cje.inference import interval_limits
from cje.inference.sequential import AnytimeRule, anytime_limits, betting_wealth
from cje.inference.sequential.anytime import FIRST_LOOK
from cje.kernels.arrays import FloatArray

__all__ = [
    "LIMIT", "OUTCOMES", "Moments", "betting_miscoverage", "labels_needed", "miscoverage",
    "refitted_streams", "running_moments", "width_ratio",
]  # fmt: skip

Draw = Callable[[np.random.Generator, tuple[int, int]], FloatArray]
CHUNK = 250
LIMIT = 0.05


def _binary(p: float) -> tuple[Draw, float]:
    return (lambda rng, size: (rng.random(size) < p).astype(float)), p


OUTCOMES: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, size: rng.standard_normal(size), 0.0),
    "uniform": (lambda rng, size: rng.random(size), 0.5),
    "exponential": (lambda rng, size: rng.exponential(size=size), 1.0),
    "gamma, shape 1/4": (lambda rng, size: rng.gamma(0.25, size=size), 0.25),
    "t, 5 df": (lambda rng, size: rng.standard_t(5, size), 0.0),
    "lognormal": (lambda rng, size: rng.lognormal(size=size), float(np.exp(0.5))),
    **{f"binary {p:.0%}": _binary(p) for p in (0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5)},
}


class Moments:
    """Mean, standard error, degrees of freedom and skewness of the mean after every label."""

    def __init__(self, y: FloatArray) -> None:
        n = np.arange(1, y.shape[1] + 1)
        s1, s2, s3, s4 = (np.cumsum(y**k, axis=1) / n for k in (1, 2, 3, 4))
        variance = np.maximum(s2 - s1**2, 0.0)
        variance[variance < 1e-12] = 0.0
        third = s3 - 3 * s1 * s2 + 2 * s1**3
        fourth = s4 - 4 * s1 * s3 + 6 * s1**2 * s2 - 3 * s1**4
        more = np.maximum(n - 1.0, 1.0)
        self.count, self.mean = n, s1
        self.se = np.sqrt(variance / more)
        safe = np.where(variance > 0, variance, 1.0)
        # The very formulas of InfluenceEstimate, with the estimator's own standard error.
        self.skewness = third / safe**1.5 / np.sqrt(n) * (more / n) ** 1.5
        fourth = np.where(fourth > 0, fourth, 1.0)
        self.df = np.clip(3.0 * n * variance**2 / fourth, 1.0, more)


def running_moments(y: FloatArray) -> Moments:
    """What an `InfluenceEstimate` of the mean would know after every label of every stream."""
    return Moments(y)


def miscoverage(
    name: str, rule: AnytimeRule, *, n_streams: int, n_labels: int = 2_000, seed: int = 11
) -> dict[str, float]:
    """Share of streams missed at any look; the median first look; the plain sequence beside."""
    draw, truth = OUTCOMES[name]
    rng = np.random.default_rng([seed, list(OUTCOMES).index(name)])
    missed, plain, first = [], [], []
    for start in range(0, n_streams, CHUNK):
        m = running_moments(draw(rng, (min(CHUNK, n_streams - start), n_labels)))
        low, high, is_open = anytime_limits(
            m.mean, m.se, m.count, rule, df=m.df, skewness=m.skewness
        )
        missed.append(((low > truth) | (high < truth)).any(axis=1))
        q = rule.critical_value(m.count)
        looking = m.count >= FIRST_LOOK
        away = np.abs(m.mean - truth)[:, looking] > q[looking] * m.se[:, looking]
        plain.append(away.any(axis=1))
        first.append(np.where(is_open.any(axis=1), is_open.argmax(axis=1) + 1, n_labels + 1))
    return {
        "missed": float(np.concatenate(missed).mean()),
        "uncorrected": float(np.concatenate(plain).mean()),
        "first_look": float(np.median(np.concatenate(first))),
    }


def betting_miscoverage(name: str, *, n_streams: int, n_labels: int, seed: int = 2) -> float:
    """Share of streams in which the true mean is ever bet out; looks from the first label on."""
    draw, truth = OUTCOMES[name]
    rng = np.random.default_rng([seed, list(OUTCOMES).index(name)])
    missed = 0
    for start in range(0, n_streams, 50):
        y = draw(rng, (min(50, n_streams - start), n_labels))
        wealth = betting_wealth(y, truth, bounds=(0.0, 1.0))
        missed += int((wealth >= np.log(2.0 / LIMIT)).any(axis=(1, 2)).sum())
    return missed / n_streams


# ---- a calibration refitted as labels arrive ----------------------------------------------------


def refitted_streams(
    rule: AnytimeRule,
    *,
    n_streams: int,
    n_rows: int = 4_000,
    budget: int = 1_000,
    active: bool,
    binary: bool,
    seed: int = 3,
) -> dict[str, float]:
    """Rows visited in random order, a line and a spread refitted from the past every 20 rows.

    The judge's errors grow with the score. All streams advance together, one array step per row.
    """
    rng = np.random.default_rng([seed, int(active), int(binary)])
    score = rng.random((n_streams, n_rows))
    spread = 0.04 + 0.4 * score**2
    truth = 0.5
    if binary:
        chance = 0.06 + 0.28 * score
        y, truth = (rng.random(score.shape) < chance).astype(float), 0.2
    else:
        y = 0.2 + 0.6 * score + spread * rng.standard_normal(score.shape)
    coin = rng.random(score.shape)
    rate = budget / n_rows
    sums = np.zeros((n_streams, 5))  # 1, s, s^2, y, s y over labels
    squares = np.full((n_streams, 2), 1e-3)  # residual^2 below and above the middle score
    counts = np.full((n_streams, 2), 1e-2)
    total_score = score.sum(axis=1)
    line = np.tile([0.5, 0.0], (n_streams, 1))
    tilt = np.ones((n_streams, 2))
    z, d = np.empty_like(score), np.empty_like(score)
    shown = np.zeros(score.shape, dtype=bool)
    left = total_score.copy()
    for i in range(n_rows):
        s, upper = score[:, i], (score[:, i] > 0.5).astype(int)
        rows = np.arange(n_streams)
        pi = np.clip(rate * (tilt[rows, upper] if active else 1.0), 0.3 * rate, 1.0)
        shown[:, i] = coin[:, i] < pi
        f = line[:, 0] + line[:, 1] * s
        centre = line[:, 0] + line[:, 1] * left / (n_rows - i)
        d[:, i] = np.where(shown[:, i], (y[:, i] - f) / pi, 0.0)
        z[:, i] = centre + d[:, i]
        left -= s
        on = shown[:, i]
        moments = np.stack([np.ones_like(s), s, s * s, y[:, i], s * y[:, i]], axis=1)
        sums += moments * on[:, None]
        np.add.at(squares, (rows[on], upper[on]), (y[on, i] - f[on]) ** 2)
        np.add.at(counts, (rows[on], upper[on]), 1.0)
        if i % 20 == 19:
            n, a, b, c, e = sums.T
            slope = (e - a * c / np.maximum(n, 1)) / (b - a * a / np.maximum(n, 1) + 0.5)
            line = np.stack([(c - slope * a + 0.5) / (n + 1.0), slope], axis=1)
            if i >= 200:
                sd = np.sqrt((squares + 0.01) / (counts + 1.0))
                tilt = 0.3 + 0.7 * sd / sd.mean(axis=1, keepdims=True)
    return _stream_misses(rule, z, d, shown, truth, line, score)


def _stream_misses(
    rule: AnytimeRule, z: Any, d: Any, shown: Any, truth: float, line: Any, score: Any
) -> dict[str, float]:
    n_rows = z.shape[1]
    m = running_moments(d)
    value = np.cumsum(z, axis=1) / m.count
    pool = line[:, 1:] ** 2 * score.var(axis=1, keepdims=True) / n_rows
    se = np.where(m.se > 0, np.sqrt(m.se**2 + pool), 0.0)
    skewness = m.skewness * np.where(se > 0, m.se / np.where(se > 0, se, 1.0), 0.0) ** 3
    labels = np.cumsum(shown, axis=1)
    looked = labels >= 1
    low, high, is_open = anytime_limits(
        value, se, np.maximum(labels, 1), rule, df=m.df, skewness=skewness
    )
    missed = (((low > truth) | (high < truth)) & is_open & looked).any(axis=1)
    fixed = np.abs(value[:, -1] - truth) > 1.96 * se[:, -1]
    return {
        "missed": float(missed.mean()),
        "fixed": float(fixed.mean()),
        "labels": float(labels[:, -1].mean()),
    }


# ---- how wide, and how soon ----------------------------------------------------------------------


def width_ratio(rule: AnytimeRule) -> float:
    """Anytime over fixed width at the tuned sample, normal labels."""
    y = np.random.default_rng(4).standard_normal((200, rule.tuned_at))
    m = running_moments(y)
    last = (m.mean[:, -1], m.se[:, -1])
    low, high, _ = anytime_limits(
        *last, rule.tuned_at, rule, df=m.df[:, -1], skewness=m.skewness[:, -1]
    )
    a, b = interval_limits(*last, df=m.df[:, -1], skewness=m.skewness[:, -1])
    return float((high - low).mean() / (b - a).mean())


def labels_needed(
    rule: AnytimeRule | None, times: float, *, n_fixed: int, n_streams: int, most: int
) -> dict[str, float]:
    """Labels until the interval leaves zero, or leaves the planned difference, whichever is first.

    The planned difference is the one that `n_fixed` paired labels find with 80% power. ``None``:
    the fixed design, one look.
    """
    planned = (1.959964 + 0.841621) / np.sqrt(n_fixed)
    rng = np.random.default_rng([5, round(10 * times)])
    taken, right, undecided = [], [], []
    for start in range(0, n_streams, CHUNK):
        size = min(CHUNK, n_streams - start)
        m = running_moments(times * planned + rng.standard_normal((size, most)))
        if rule is None:
            at = n_fixed - 1
            low = m.mean[:, [at]] - 1.959964 * m.se[:, [at]]
            high = m.mean[:, [at]] + 1.959964 * m.se[:, [at]]
            count = np.array([n_fixed])
        else:
            low, high, _ = anytime_limits(m.mean, m.se, m.count, rule, df=m.df, skewness=m.skewness)
            count = m.count
        better, short = low > 0.0, high < planned
        done = better | short
        ended = done.any(axis=1)
        first = np.where(ended, done.argmax(axis=1), done.shape[1] - 1)
        taken.append(count[first])
        undecided.append(~ended)
        rows = np.arange(size)
        good = short[rows, first] if times == 0 else better[rows, first]
        right.append(ended & good)
    return {
        "labels": float(np.concatenate(taken).mean()),
        "right": float(np.concatenate(right).mean()),
        "undecided": float(np.concatenate(undecided).mean()),
    }
