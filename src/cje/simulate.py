"""Façade over `cje.data.simulate`: simulated evaluations with exactly known truth."""

from __future__ import annotations

from cje.data.simulate import (
    Simulation,
    heteroscedastic_judge,
    length_biased_judge,
    logged_with_logprobs,
    mild_dip_judge,
    monotone_judge,
    non_monotone_judge,
    policies_on_shared_prompts,
    skewed_outcomes,
    true_curve,
)

__all__ = [
    "Simulation",
    "heteroscedastic_judge",
    "length_biased_judge",
    "logged_with_logprobs",
    "mild_dip_judge",
    "monotone_judge",
    "non_monotone_judge",
    "policies_on_shared_prompts",
    "skewed_outcomes",
    "true_curve",
]
