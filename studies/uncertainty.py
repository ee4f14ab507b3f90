"""Coverage, robustness and speed of `cje.uncertainty`, against a known truth.

Logged quality u is uniform; the target tilts it by exp(a u) and its weights carry extra noise of
mean one, so its true value is 1/(1 - exp(-a)) - 1/a. Labels are Bernoulli(u) on a random slice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cje.uncertainty import JudgeScores, UncertaintyAwareDRCPO, UncertaintyEstimatorConfig

FloatArray = NDArray[np.float64]
_TILT = 1.0
TRUTH = 1.0 / (1.0 - np.exp(-_TILT)) - 1.0 / _TILT
DEFAULT = UncertaintyEstimatorConfig(compute_diagnostics=False)
PLAIN = replace(DEFAULT, use_variance_shrinkage=False)


@dataclass(frozen=True)
class Scenario:
    """One way the world and the judge can be."""

    name: str
    n: int = 800
    label_share: float = 0.25
    noise: float = 0.15  # typical standard deviation of the judge's noise
    confidence: float = 1.0  # stated variance over true variance
    exact: bool = False  # the judge is the oracle, with variance 0
    weight_noise: float = 0.5
    u_shaped: bool = False  # the judge is not monotone in quality: calibration must be wrong
    score_is_all: bool = False  # the label depends on the score alone: calibration carries over
    curved: bool = False  # and it does so along a parabola
    told_noise: bool = False  # a fifth of the labels are very noisy, and the judge says which
    wrong_weights: bool = False
    fresh: bool = False
    config: UncertaintyEstimatorConfig = DEFAULT


@dataclass(frozen=True)
class Draw:
    scores: JudgeScores
    labels: FloatArray
    weights: FloatArray
    fresh: list[JudgeScores] | None


def _judge(s: Scenario, u: FloatArray, rng: np.random.Generator) -> JudgeScores:
    if s.exact:
        return JudgeScores(u, 0.0)
    variance = s.noise**2 * rng.gamma(1.0, 1.0, len(u))
    clean = 4.0 * (u - 0.5) ** 2 if s.u_shaped else 0.15 + 0.7 * u**2
    said = np.clip(clean + rng.normal(size=len(u)) * np.sqrt(variance), 0.0, 1.0)
    return JudgeScores(said, np.minimum(variance * s.confidence, 0.25))


def _chance(s: Scenario, u: FloatArray, scores: JudgeScores) -> FloatArray:
    if not s.score_is_all:
        return u
    return 0.1 + 0.8 * scores.mean ** (2.0 if s.curved else 1.0)


def _tilted(n: int, rng: np.random.Generator) -> FloatArray:
    """Quality of the target's own responses."""
    return np.log1p(rng.random(n) * np.expm1(_TILT)) / _TILT


def draw(s: Scenario, rng: np.random.Generator) -> Draw:
    """One data set."""
    u = rng.random(s.n)
    scores = _judge(s, u, rng)
    y = u if s.exact else (rng.random(s.n) < _chance(s, u, scores)).astype(float)
    if s.told_noise:
        swing = np.minimum(u, 1.0 - u) * np.where(rng.random(s.n) < 0.2, 1.0, 0.05)
        y = u + swing * rng.choice([-1.0, 1.0], s.n)
        scores = JudgeScores(scores.mean, swing**2)
    labels = np.where(rng.random(s.n) < s.label_share, y, np.nan)
    weights = _TILT * np.exp(_TILT * u) / np.expm1(_TILT)
    weights *= np.exp(s.weight_noise * rng.normal(size=s.n) - s.weight_noise**2 / 2.0)
    if s.wrong_weights:
        weights = np.exp(-2.0 * u) * 2.0 / -np.expm1(-2.0)  # tilts the wrong way, mean one
    fresh = [_judge(s, _tilted(s.n, rng), rng)] if s.fresh else None
    return Draw(scores, labels, weights, fresh)


def true_value(s: Scenario) -> float:
    """The target's value, in closed form or by a large draw from it."""
    if not s.score_is_all:
        return float(TRUTH)
    rng = np.random.default_rng(99)
    u = _tilted(4_000_000, rng)
    return float(_chance(s, u, _judge(s, u, rng)).mean())


def study(s: Scenario, repetitions: int, seed: int = 0) -> dict[str, float]:
    """Coverage, bias, spread and mean standard error over independent data sets."""
    estimator, truth = UncertaintyAwareDRCPO(s.config), true_value(s)
    rng = np.random.default_rng([seed, sum(map(ord, s.name))])
    out = np.empty((repetitions, 4))
    for i in range(repetitions):
        d = draw(s, rng)
        result = estimator.fit(
            judge_scores=d.scores,
            oracle_rewards=d.labels,
            importance_weights=d.weights,
            fresh_judge_scores=d.fresh,
        )
        e = result.policies[0].estimate
        out[i] = (e.value, e.se, e.ci_lower, e.ci_upper)
    value, se, low, high = out.T
    return {
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "bias": float(value.mean() - truth),
        "sd": float(value.std()),
        "mean_se": float(se.mean()),
        "mse": float(((value - truth) ** 2).mean()),
    }


NOISY = Scenario("noisy judge")
COVERED = [
    NOISY,
    Scenario("exact judge", exact=True),
    Scenario("overconfident judge (variance / 10)", confidence=0.1),
    Scenario("underconfident judge (variance x 10)", confidence=10.0),
    Scenario("very noisy judge, 100 labels", noise=0.4, label_share=0.125),
    Scenario("heavy weights", weight_noise=1.0, n=1500),
    Scenario("wrong calibration (U-shaped judge)", u_shaped=True),
    Scenario("fresh draws", fresh=True),
    Scenario(
        "fresh draws, wrong outcome model", fresh=True,
        config=replace(DEFAULT, outcome_model="constant"),
    ),
]  # fmt: skip
#: The calibration carries over and the weights are wrong: the value stays right; the interval
#: leaves out the calibration's own error, which nothing cancels any more.
_CARRIED = Scenario("", fresh=True, wrong_weights=True, score_is_all=True)
SAVED = [
    replace(_CARRIED, name="fresh draws, wrong weights, straight calibration"),
    replace(_CARRIED, name="fresh draws, wrong weights, curved calibration", curved=True),
]
#: What cannot be saved: coverage must be seen to fail, so that the docs may say so.
LOST = [
    Scenario("wrong weights, no fresh draws", wrong_weights=True, score_is_all=True),
    Scenario("fresh draws, wrong weights and wrong calibration", fresh=True, wrong_weights=True),
]
TWICE = Scenario(
    "published standard error, all rows labelled", label_share=1.0,
    config=replace(PLAIN, standard_error="twice", label_noise=0.0),
)  # fmt: skip
