"""Logged responses with log-probs under several targets: overlap and E[W|S] are parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal

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
    policy_codes,
    prompt_codes,
    quantise,
    true_curve,
)
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["logged_with_logprobs"]

WeightShape = Literal["rising", "falling", "u_shaped"]
_NOISE, _PROMPT = 0.6, 0.5  # share of judge noise and of the prompt effect in the score's latent
_NORM = float(np.sqrt(1.0 + _NOISE**2 + _PROMPT**2))


def _target(shape: WeightShape, overlap: float) -> FloatArray:
    """Component means of a target whose population ESS fraction is `overlap`.

    The logging policy is N(0, 1); a target is an equal mixture of N(m, 1) over the returned means.
    A shift by d has E[W^2] = exp(d^2); the mixture of -d and +d has E[W^2] = cosh(d^2); and
    ESS / n -> 1 / E[W^2].
    """
    check_number("overlap (the population ESS fraction)", overlap, low=1e-12, high=1.0)
    shift = np.sqrt(-np.log(overlap))
    if shape == "rising":
        return np.array([shift])
    if shape == "falling":
        return np.array([-shift])
    if shape == "u_shaped":
        return np.array([-1.0, 1.0]) * float(np.sqrt(np.arccosh(1.0 / overlap)))
    raise CJEError("unknown weight shape", value=shape, hint="rising, falling or u_shaped")


def _log_density(x: FloatArray, means: FloatArray) -> FloatArray:
    parts = -0.5 * (x[:, None] - means) ** 2 - 0.5 * np.log(2.0 * np.pi)
    return np.asarray(np.logaddexp.reduce(parts, axis=1) - np.log(len(means)), dtype=np.float64)


@lru_cache(maxsize=256)
def _curve_mean(
    curve: Callable[[FloatArray], FloatArray], mean: float, levels: int | None
) -> float:
    """E[curve(S)] for S = Phi(z), z ~ N(mean, 1), rounded to `levels` where given."""
    from scipy.integrate import quad
    from scipy.special import ndtr, ndtri

    if levels is not None:
        grid = np.arange(levels) / (levels - 1)
        inner = ndtri(grid[:-1] + 0.5 / (levels - 1))
        mass = np.diff(np.concatenate([[0.0], ndtr(inner - mean), [1.0]]))
        return float(mass @ curve(grid))
    corner = float(ndtri(0.8))  # of the mild dip

    def integrand(z: float) -> float:
        return float(curve(ndtr(np.asarray(z))) * np.exp(-0.5 * (z - mean) ** 2))

    low, high = mean - 10.0, mean + 10.0
    corner = min(max(corner, low), high)
    parts = [quad(integrand, a, b, epsabs=1e-12, limit=200)[0] for a, b in
             ((low, corner), (corner, high))]  # fmt: skip
    return float(sum(parts)) / float(np.sqrt(2.0 * np.pi))


def logged_with_logprobs(
    n: int = 2000,
    n_labels: int = 400,
    *,
    targets: Mapping[str, float] | None = None,
    weight_shape: WeightShape = "rising",
    shape: Shape = "monotone",
    seed: int = 0,
    levels: int | None = None,
    labelling: Labelling = "mcar",
    concentration: float | None = 8.0,
    direct_effect: float = 0.0,
    fresh_draws: int = 1,
) -> Simulation:
    """One logging policy, several targets, exact log-probs and exact values.

    A response has a feature x ~ N(0, 1) under the logging policy ``base`` and an equal mixture of
    unit normals under a target; `targets` maps a target's name to its *overlap*, the population
    ESS fraction 1 / E[W^2] in (0, 1] (default near 0.8, moderate 0.4, far 0.05). The judge sees
    S = Phi(z), z a standardised sum of x, a prompt effect and noise, so that E[W|S] rises, falls or
    is U-shaped with `weight_shape`.

    E[Y | x, S] = (1 - c) curve(S) + c Phi(x) with c = `direct_effect`; for c = 0 the label and the
    weight are uncorrelated given S (the assumption behind projecting weights on the score), for
    c > 0 they are not. Every value is an exact one-dimensional integral.

    `fresh` holds `fresh_draws` draws of each target on the same prompts, scored by the judge and
    unlabelled (their labels are in `fresh_outcomes`).

    Examples
    --------
    >>> sim = logged_with_logprobs(100, 20, seed=1, targets={"near": 0.9})
    >>> sim.dataset.target_policies, sorted(sim.truth)
    (('near',), ['base', 'near'])
    """
    from scipy.special import ndtr

    check_sizes(n=n, n_labels=n_labels, fresh_draws=fresh_draws)
    check_number("direct_effect", direct_effect, low=0.0, high=1.0)
    if targets is not None and not isinstance(targets, Mapping):
        raise CJEError("targets must map a name to its overlap", value=targets)
    overlaps = dict(targets or {"near": 0.8, "moderate": 0.4, "far": 0.05})
    rng = check_seed(seed)
    curve, base = true_curve(shape), np.zeros(1)
    prompt_effect = rng.standard_normal(n)

    def respond(prompt: FloatArray, means: FloatArray) -> tuple[FloatArray, ...]:
        x = rng.choice(means, len(prompt)) + rng.standard_normal(len(prompt))
        z = (x + _NOISE * rng.standard_normal(len(prompt)) + _PROMPT * prompt) / _NORM
        score = quantise(ndtr(z), levels)
        chance = (1.0 - direct_effect) * curve(score) + direct_effect * ndtr(x)
        return x, score, beta_outcomes(chance, concentration, rng)

    def value(means: FloatArray) -> float:
        through_score = np.mean([_curve_mean(curve, float(m) / _NORM, levels) for m in means])
        directly = np.mean(ndtr(means / np.sqrt(2.0)))
        return float((1.0 - direct_effect) * through_score + direct_effect * directly)

    x, score, outcome = respond(prompt_effect, base)
    labels, propensity = hide_labels(outcome, score, n_labels, labelling, rng)
    # Real log-probs carry a part common to all policies, which must cancel in the ratio.
    common = -20.0 - 5.0 * rng.standard_exponential(n)
    parameters = {name: _target(weight_shape, overlap) for name, overlap in overlaps.items()}
    dataset = Dataset.from_arrays(
        prompt_id=prompt_codes(n),
        policy="base",
        judge_score=score,
        oracle_label=labels,
        label_propensity=propensity,
        base_policy_logprob=common + _log_density(x, base),
        target_policy_logprobs=np.column_stack(
            [common + _log_density(x, parameters[name]) for name in overlaps]
        ),
        target_policies=tuple(overlaps),
    )
    truth = {"base": value(base)} | {k: value(parameters[k]) for k in overlaps}
    if fresh_draws == 0:
        return Simulation(dataset, truth, outcome)
    repeated = np.repeat(prompt_effect, fresh_draws)
    draws = [respond(repeated, parameters[name]) for name in overlaps]
    fresh = _fresh_rows(tuple(overlaps), [score for _, score, _ in draws], n, fresh_draws)
    return Simulation(dataset, truth, outcome, fresh, np.concatenate([y for _, _, y in draws]))


def _fresh_rows(
    names: tuple[str, ...], scores: list[FloatArray], n_prompts: int, draws: int
) -> Dataset:
    """Unlabelled responses of the targets, one target after the other, on the same prompts."""
    rows = n_prompts * draws
    return Dataset.from_arrays(
        prompt_id=prompt_codes(n_prompts, draws, len(names)),
        policy=policy_codes(names, rows),
        draw_idx=np.tile(np.arange(rows) % draws, len(names)),
        judge_score=np.concatenate(scores),
        oracle_label=np.full(rows * len(names), np.nan),
    )
