"""The judge card of a run, bound to the judges that the configuration describes."""

from __future__ import annotations

from cje.analysis.judge_report import has_card, judge_report
from cje.data import Dataset
from cje.diagnostics.judge_identity import JudgeIdentity
from cje.judges import JudgeConfig
from cje.judges.template import load_template
from cje.pipeline.config import PipelineConfig
from cje.results.result import EstimationResult

__all__ = ["judge_identity", "with_judge_card"]


def judge_identity(config: PipelineConfig) -> JudgeIdentity:
    """Model, template and rubric of the run's judge, or of all judges whose scores are averaged.

    A judge without a model name is named after its provider. The same names and texts given to
    `cje judge` make the same identity.
    """
    judges = config.judges
    return JudgeIdentity.of(
        " + ".join(judge.model or judge.provider for judge in judges),
        template="\n\n".join(_template(judge) for judge in judges),
        rubric="\n\n".join(judge.rubric for judge in judges if judge.rubric is not None),
    )


def _template(judge: JudgeConfig) -> str:
    """The template of a judge's question; empty for the offline judge."""
    return "" if judge.provider == judge.in_process else load_template(judge.template).text


def with_judge_card(
    result: EstimationResult, data: Dataset, config: PipelineConfig
) -> EstimationResult:
    """Add the card of the run's judge to the result if the rows have enough labels."""
    if config.oracle_config is None or not has_card(data):
        return result
    cards = judge_report(
        data, identity=judge_identity(config), level=config.estimation.level, seed=config.seed
    )
    return result.with_(diagnostics={"judge_card": cards.to_dict()})
