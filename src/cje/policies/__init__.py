"""Policies: sample a response, and score a given one (teacher forcing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names
from cje.policies.answers import Generation, LogProb
from cje.policies.canaries import (
    generated_vs_rescored_canary,
    identical_weights_canary,
    inside_token_canary,
    replicate_noise_canary,
    scoring_noise_canary,
    self_ratio_canary,
)
from cje.policies.config import PolicyConfig, render_prompt
from cje.policies.ngram import NgramPolicy
from cje.policies.ngram_model import NgramModel
from cje.policies.sampler import MultiTargetSampler, PolicyRunner, make_multi_sampler, make_runner

if TYPE_CHECKING:
    from cje.policies.api import APIPolicyRunner as APIPolicyRunner
    from cje.policies.probe import Capability as Capability

__all__ = [
    "APIPolicyRunner",
    "Capability",
    "Generation",
    "LogProb",
    "MultiTargetSampler",
    "NgramModel",
    "NgramPolicy",
    "PolicyConfig",
    "PolicyRunner",
    "generated_vs_rescored_canary",
    "identical_weights_canary",
    "inside_token_canary",
    "make_multi_sampler",
    "make_runner",
    "render_prompt",
    "replicate_noise_canary",
    "scoring_noise_canary",
    "self_ratio_canary",
]
_HOME = {"APIPolicyRunner": "api", "Capability": "probe"}

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
