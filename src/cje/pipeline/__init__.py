"""From prompts to estimates: stages, store, executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names

if TYPE_CHECKING:
    from cje.pipeline.attempts import safe_call as safe_call
    from cje.pipeline.chunks import chunk_exists as chunk_exists
    from cje.pipeline.chunks import load_chunk as load_chunk
    from cje.pipeline.config import PipelineConfig as PipelineConfig
    from cje.pipeline.config import load_config as load_config
    from cje.pipeline.coordinator import CJEPipeline as CJEPipeline
    from cje.pipeline.hashing import compute_contexts_hash as compute_contexts_hash
    from cje.pipeline.stages.estimation import PipelineResult as PipelineResult
    from cje.pipeline.stages.target_policy import TargetPolicyStage as TargetPolicyStage
    from cje.pipeline.stages.target_policy import (
        validate_target_policy_computation as validate_target_policy_computation,
    )

_HOME = {
    "CJEPipeline": "coordinator",
    "PipelineConfig": "config",
    "PipelineResult": "stages.estimation",
    "TargetPolicyStage": "stages.target_policy",
    "chunk_exists": "chunks",
    "compute_contexts_hash": "hashing",
    "load_chunk": "chunks",
    "load_config": "config",
    "safe_call": "attempts",
    "validate_target_policy_computation": "stages.target_policy",
}
__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
