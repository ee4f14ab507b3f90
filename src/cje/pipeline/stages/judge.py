"""Stage 3: the judge scores every response, several times where asked to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cje.errors import require_extra
from cje.judges import Judge, JudgeConfig, Verdict, make_judge
from cje.pipeline.chunks import Row
from cje.pipeline.config import PipelineConfig
from cje.pipeline.request import Answer, Outcome, Recipe, Request
from cje.pipeline.stages.base import CallStage

__all__ = ["JudgeStage", "judge_of"]


def judge_of(config: JudgeConfig) -> Judge:
    """The judge a config describes, with a model of this process where it says so."""
    if not config.is_local:
        return make_judge(config)
    require_extra("torch", "local", "provider: transformers")
    from cje.policies.local.chat import LocalChat

    return make_judge(config, client=LocalChat(config))


class JudgeStage(CallStage):
    """`n_repeats` independent calls for each response, combined into a mean and a variance.

    The row's prompt and draw are part of the key, so that two rows with the same text are judged
    twice: their judge errors stay independent.
    """

    name = "judge"
    inputs = ("prompt_id", "draw_idx", "context", "response", "error")

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        judge = judge_of(config.judge)

        async def ask(request: Request, seed: int) -> Answer:
            return await judge.ajudge(*request.texts, seed=seed)

        self._judge = judge
        self._recipe = self.make_recipe(
            judge.identity(),
            judge.provider,
            ask,
            model=config.judge.model,
            max_tokens=config.judge.max_tokens,
            place="judge",
        )

    @property
    def recipes(self) -> Sequence[Recipe]:
        return (self._recipe,)

    def settings(self) -> Mapping[str, Any]:
        return {"judge": self._judge.identity(), "n_repeats": self._judge.n_repeats}

    def requests(self, row: Row) -> list[Request]:
        if row["error"] is not None:
            return []
        texts = (row["context"], row["response"])
        return [
            Request(
                self._recipe,
                self._recipe.keys.key(*texts, row["prompt_id"], row["draw_idx"], repeat),
                texts,
            )
            for repeat in range(self._judge.n_repeats)
        ]

    def finish(self, row: Row, outcomes: Sequence[Outcome]) -> Row:
        row = {**row, "judge_score": None, "judge_variance": None}
        verdicts = []
        for outcome in outcomes:
            if outcome.answer is None:
                return self.failed(row, outcome)
            verdicts.append(Verdict.from_json(outcome.answer))
        if verdicts:
            score = self._judge.combine(verdicts).score
            row |= {"judge_score": float(score.mean), "judge_variance": float(score.variance)}
        return row

    def expected_calls(self, n_rows: int) -> int:
        return n_rows * self._judge.n_repeats

    async def close(self) -> None:
        await self._judge.aclose()
