"""The stages that call models, by name, so that a worker on another machine can build one."""

from __future__ import annotations

from collections.abc import Callable

from cje.pipeline.config import PipelineConfig
from cje.pipeline.stages.base import CallStage
from cje.pipeline.stages.judge import JudgeStage
from cje.pipeline.stages.logging_policy import LoggingPolicyStage
from cje.pipeline.stages.oracle import OracleStage
from cje.pipeline.stages.pairs import PairJudgeStage, PairOracleStage
from cje.pipeline.stages.target_policy import TeacherForcing

__all__ = ["CALL_STAGES", "make_call_stage"]

CALL_STAGES: dict[str, Callable[[PipelineConfig], CallStage]] = {
    "logging_policy": LoggingPolicyStage,
    "judge": JudgeStage,
    "oracle": OracleStage,
    "target_policy": TeacherForcing,
    "pair_judge": PairJudgeStage,
    "pair_oracle": PairOracleStage,
}


def make_call_stage(name: str, config: PipelineConfig) -> CallStage:
    """The stage called `name`."""
    return CALL_STAGES[name](config)
