"""One policy, one judge: E[Y|S] of a chosen shape."""

from __future__ import annotations

import numpy as np

from cje.checks import check_number, check_seed
from cje.data.dataset import Dataset
from cje.data.simulate.core import (
    Labelling,
    Shape,
    Simulation,
    beta_outcomes,
    check_sizes,
    hide_labels,
    prompt_codes,
    quantise,
    score_mean,
    true_curve,
)

__all__ = ["heteroscedastic_judge", "mild_dip_judge", "monotone_judge", "non_monotone_judge"]


def _judge(
    shape: Shape,
    n: int,
    n_labels: int,
    seed: int,
    levels: int | None,
    labelling: Labelling,
    concentration: float | None,
) -> Simulation:
    check_sizes(n=n, n_labels=n_labels)
    rng = check_seed(seed)
    scores = quantise(rng.random(n), levels)
    curve = true_curve(shape)
    outcomes = beta_outcomes(curve(scores), concentration, rng)
    labels, propensity = hide_labels(outcomes, scores, n_labels, labelling, rng)
    dataset = Dataset.from_arrays(
        prompt_id=prompt_codes(n),
        policy="policy",
        judge_score=scores,
        oracle_label=labels,
        label_propensity=propensity,
    )
    return Simulation(dataset, {"policy": score_mean(curve, 1.0, 1.0, levels)}, outcomes)


def monotone_judge(
    n: int = 1000,
    n_labels: int = 200,
    *,
    seed: int = 0,
    levels: int | None = None,
    labelling: Labelling = "mcar",
    concentration: float | None = 8.0,
) -> Simulation:
    """A judge whose E[Y|S] rises: S ~ U(0,1), E[Y|S] = 0.1 + 0.8 S^2 (3 - 2S), value 0.5.

    Y is Beta with that mean and the given concentration, or 0/1 where `concentration` is None.

    Examples
    --------
    >>> sim = monotone_judge(100, 20, seed=1)
    >>> round(sim.truth["policy"], 12), int(np.isfinite(sim.dataset.oracle_label).sum())
    (0.5, 20)
    """
    return _judge("monotone", n, n_labels, seed, levels, labelling, concentration)


def non_monotone_judge(
    n: int = 1000,
    n_labels: int = 200,
    *,
    seed: int = 0,
    levels: int | None = None,
    labelling: Labelling = "mcar",
    concentration: float | None = 8.0,
) -> Simulation:
    """A judge that prefers the extremes: E[Y|S] = 0.15 + 2.8 S (1 - S), low at both ends."""
    return _judge("non_monotone", n, n_labels, seed, levels, labelling, concentration)


def mild_dip_judge(
    n: int = 1000,
    n_labels: int = 200,
    *,
    seed: int = 0,
    levels: int | None = None,
    labelling: Labelling = "mcar",
    concentration: float | None = 8.0,
) -> Simulation:
    """A judge wrong at high scores only: E[Y|S] rises to 0.79 at S = 0.8, then falls to 0.67."""
    return _judge("mild_dip", n, n_labels, seed, levels, labelling, concentration)


def heteroscedastic_judge(
    n: int = 1000,
    n_labels: int = 200,
    *,
    seed: int = 0,
    overconfidence: float = 1.0,
    labelling: Labelling = "mcar",
) -> Simulation:
    """Judge scores that carry a variance, row by row, perhaps misstated.

    A quality q ~ U(0.2, 0.8) is the label; the judge reports m = q + sqrt(v) e with e uniform of
    unit variance and v uniform in [0.0004, 0.0133] (so that m stays in [0, 1]), and states the
    variance v / `overconfidence`. The gamma that corrects the statement *around the raw mean* is
    therefore exactly `overconfidence`; the policy's value is 0.5.
    """
    check_sizes(n=n, n_labels=n_labels)
    check_number("overconfidence", overconfidence, low=1e-6, high=1e6)
    rng = check_seed(seed)
    quality = rng.uniform(0.2, 0.8, n)
    variance = rng.uniform(0.0004, 0.04 / 3.0, n)
    noise = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), n)
    scores = quality + np.sqrt(variance) * noise
    labels, propensity = hide_labels(quality, scores, n_labels, labelling, rng)
    dataset = Dataset.from_arrays(
        prompt_id=prompt_codes(n),
        policy="policy",
        judge_score=scores,
        judge_variance=np.minimum(variance / overconfidence, 0.25),
        oracle_label=labels,
        label_propensity=propensity,
    )
    return Simulation(dataset, {"policy": 0.5}, quality)
