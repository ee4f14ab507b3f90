"""Checks of the options that all off-policy estimators have."""

from __future__ import annotations

from collections.abc import Sequence

from cje.checks import is_number
from cje.data import PrecomputedSampler
from cje.errors import CJEError
from cje.findings.running import REPLICATE_NOISE

__all__ = ["check_logprob_noise", "known_targets"]


def known_targets(sampler: PrecomputedSampler, names: Sequence[str]) -> tuple[str, ...]:
    """Names of targets, one or several; raise CJEError for an unknown one."""
    wanted = (names,) if isinstance(names, str) else tuple(names)
    unknown = [name for name in wanted if name not in sampler.target_policies]
    if unknown:
        raise CJEError(
            "same_as_logging names a policy that is not a target",
            value=unknown,
            hint=f"targets: {', '.join(sampler.target_policies)}",
        )
    return wanted


def check_logprob_noise(sd: float) -> float:
    """Check the noise; beyond the registry's limit its distribution matters, not only its size."""
    if not is_number(sd) or not 0.0 <= sd <= REPLICATE_NOISE["refuse_sd"]:
        raise CJEError(
            f"logprob_noise must lie between 0 and {REPLICATE_NOISE['refuse_sd']:g}",
            value=sd,
            hint="with more noise than that no factor makes the weights right: "
            + REPLICATE_NOISE.action,
        )
    return float(sd)
