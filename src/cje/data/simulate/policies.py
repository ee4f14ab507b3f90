"""Several policies answering the same prompts: fresh draws with known values and differences."""

from __future__ import annotations

from collections.abc import Sequence

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
    score_mean,
    score_quantile,
    true_curve,
)
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["length_biased_judge", "policies_on_shared_prompts", "skewed_outcomes"]

_LAWS = ((2.0, 2.0), (3.0, 2.0), (2.0, 3.0), (4.0, 2.0), (2.0, 4.0), (5.0, 2.0))


def _names(count: int) -> tuple[str, ...]:
    return ("base", *(f"candidate_{k}" for k in range(1, count)))


def _assemble(
    names: Sequence[str],
    scores: Sequence[FloatArray],
    outcomes: Sequence[FloatArray],
    n_labels: int,
    labelling: Labelling,
    draws: int,
    rng: np.random.Generator,
    covariates: dict[str, Sequence[FloatArray]] | None = None,
) -> tuple[Dataset, FloatArray]:
    """Stack per-policy columns into one data set, `n_labels` labels per policy."""
    per_policy = len(scores[0])
    hidden = [
        hide_labels(y, s, n_labels, labelling, rng) for s, y in zip(scores, outcomes, strict=True)
    ]
    known = [h[1] for h in hidden if h[1] is not None]
    propensity = np.concatenate(known) if known else None
    dataset = Dataset.from_arrays(
        prompt_id=prompt_codes(per_policy // draws, draws, len(names)),
        policy=policy_codes(names, per_policy),
        draw_idx=np.tile(np.arange(per_policy) % draws, len(names)),
        judge_score=np.concatenate(scores),
        oracle_label=np.concatenate([h[0] for h in hidden]),
        label_propensity=propensity,
        covariates={k: np.concatenate(v) for k, v in (covariates or {}).items()},
    )
    return dataset, np.concatenate(outcomes)


def policies_on_shared_prompts(
    n_prompts: int = 1000,
    n_policies: int = 3,
    n_labels: int = 100,
    *,
    seed: int = 0,
    shape: Shape = "monotone",
    levels: int | None = None,
    labelling: Labelling = "mcar",
    prompt_correlation: float = 0.5,
    concentration: float | None = 8.0,
    draws: int = 1,
) -> Simulation:
    """Policies that differ in their score distribution and share one judge -> truth curve.

    Policy k's scores are Kumaraswamy(a_k, b_k) through a Gaussian copula with a prompt effect
    common to all policies and draws (correlation `prompt_correlation`), so paired differences are
    tighter than independent ones. E[Y_k] = integral of the curve against that law: exact.
    `n_labels` labels per policy.

    Examples
    --------
    >>> sim = policies_on_shared_prompts(50, 3, 10, seed=1)
    >>> sorted(sim.truth), len(sim.dataset)
    (['base', 'candidate_1', 'candidate_2'], 150)
    """
    from scipy.special import ndtr

    check_sizes(n_prompts=n_prompts, n_policies=n_policies, n_labels=n_labels, draws=draws)
    if n_policies > len(_LAWS):
        raise CJEError(f"n_policies must lie between 1 and {len(_LAWS)}", value=n_policies)
    check_number("prompt_correlation", prompt_correlation, low=0.0, high=1.0)
    rng = check_seed(seed)
    curve, names = true_curve(shape), _names(n_policies)
    prompt = np.repeat(rng.standard_normal(n_prompts), draws)
    own = np.sqrt(1.0 - prompt_correlation)
    scores, outcomes, truth = [], [], {}
    for name, (a, b) in zip(names, _LAWS, strict=False):
        latent = np.sqrt(prompt_correlation) * prompt + own * rng.standard_normal(len(prompt))
        score = quantise(score_quantile(ndtr(latent), a, b), levels)
        scores.append(score)
        outcomes.append(beta_outcomes(curve(score), concentration, rng))
        truth[name] = score_mean(curve, a, b, levels)
    dataset, every = _assemble(names, scores, outcomes, n_labels, labelling, draws, rng)
    return Simulation(dataset, truth, every)


def length_biased_judge(
    n_prompts: int = 1000,
    n_labels: int = 100,
    *,
    seed: int = 0,
    bias: float = 0.1,
    labelling: Labelling = "mcar",
    concentration: float | None = 8.0,
) -> Simulation:
    """Two policies of equal value; the candidate writes longer, and the judge rewards length.

    Quality q ~ U(0.3, 0.7) has E[Y|q] = q for both, so both values are 0.5. Log-length l is
    N(0, 1) for the base and N(1, 1) for the candidate, clipped to [-3, 4]; the judge says
    S = q + `bias` (l - 0.5) / 2 + noise, clipped to [0, 1]. The covariate ``response_length``
    holds exp(l), so a calibration on the score alone does not carry over between the two.
    """
    check_sizes(n_prompts=n_prompts, n_labels=n_labels)
    check_number("bias", bias, low=-1e6, high=1e6)
    rng = check_seed(seed)
    scores, outcomes, lengths = [], [], []
    for shift in (0.0, 1.0):
        quality = rng.uniform(0.3, 0.7, n_prompts)
        log_length = np.clip(shift + rng.standard_normal(n_prompts), -3.0, 4.0)
        noise = rng.uniform(-0.05, 0.05, n_prompts)
        scores.append(np.clip(quality + bias * (log_length - 0.5) / 2.0 + noise, 0.0, 1.0))
        outcomes.append(beta_outcomes(quality, concentration, rng))
        lengths.append(np.exp(log_length))
    dataset, every = _assemble(
        ("base", "candidate_1"), scores, outcomes, n_labels, labelling, 1, rng,
        {"response_length": lengths},
    )  # fmt: skip
    return Simulation(dataset, {"base": 0.5, "candidate_1": 0.5}, every)


def _near_one(s: FloatArray) -> FloatArray:
    return 0.2 + 0.78 * s


def skewed_outcomes(
    n_prompts: int = 1000,
    n_policies: int = 3,
    n_labels: int = 100,
    *,
    seed: int = 0,
    near: float = 1.0,
    levels: int | None = None,
    labelling: Labelling = "mcar",
    concentration: float | None = 3.0,
) -> Simulation:
    """Outcomes concentrated near 1 (or near 0 with ``near=0``), a few far away: means about 0.9.

    S ~ Kumaraswamy(6 + k, 1.5); E[Y|S] = 0.2 + 0.78 S (mirrored for ``near=0``); with the low
    concentration most labels are close to the bound and the rest make a long tail, which is where
    symmetric intervals from a few labels fail.
    """
    if near not in (0.0, 1.0):
        raise CJEError("near must be 0 or 1", value=near)
    check_sizes(n_prompts=n_prompts, n_policies=n_policies, n_labels=n_labels)
    rng = check_seed(seed)
    names = _names(n_policies)
    scores, outcomes, truth = [], [], {}
    for k, name in enumerate(names):
        a = 6.0 + k
        score = quantise(score_quantile(rng.random(n_prompts), a, 1.5), levels)
        value = score_mean(_near_one, a, 1.5, levels)
        outcome = beta_outcomes(_near_one(score), concentration, rng)
        # The mirror image in both the score and the outcome piles up near 0.
        scores.append(score if near == 1.0 else 1.0 - score)
        outcomes.append(outcome if near == 1.0 else 1.0 - outcome)
        truth[name] = value if near == 1.0 else 1.0 - value
    dataset, every = _assemble(names, scores, outcomes, n_labels, labelling, 1, rng)
    return Simulation(dataset, truth, every)
