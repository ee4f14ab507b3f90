"""Stage 3: the judges score every response, with repeats if configured."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from cje.errors import require_extra
from cje.judges import Judge, JudgeConfig, Verdict, make_judge
from cje.pipeline.chunks import Row
from cje.pipeline.config import PipelineConfig
from cje.pipeline.request import Answer, Outcome, Recipe, Request
from cje.pipeline.stages.base import CallStage

__all__ = ["JudgeCalls", "JudgeStage", "judge_of"]


def judge_of(config: JudgeConfig) -> Judge:
    """The judge that a config describes, with a model in this process if configured."""
    if not config.is_local:
        return make_judge(config)
    require_extra("torch", "local", "provider: transformers")
    from cje.policies.local.chat import LocalChat

    return make_judge(config, client=LocalChat(config))


class JudgeCalls(CallStage):
    """A stage of calls to judges: one recipe per judge."""

    _judges: Sequence[Judge]
    _recipes: tuple[Recipe, ...]

    def _prepare(self, parts: Sequence[tuple[str, JudgeConfig]]) -> None:
        """Make the judges from their sections in the file and their configurations."""
        self._judges = [judge_of(part) for _, part in parts]
        self._recipes = tuple(
            self._recipe(judge, place, part)
            for judge, (place, part) in zip(self._judges, parts, strict=True)
        )

    def _recipe(self, judge: Judge, place: str, part: JudgeConfig) -> Recipe:
        async def ask(request: Request, seed: int) -> Answer:
            return await self.ask(judge, request.texts, seed)

        return self.make_recipe(
            judge.identity(), judge.provider, ask,
            model=part.model, max_tokens=part.max_tokens, place=place,
        )  # fmt: skip

    @abstractmethod
    async def ask(self, judge: Judge, texts: Sequence[str], seed: int) -> Answer:
        """One call to a judge about `texts`."""

    @property
    def recipes(self) -> Sequence[Recipe]:
        return self._recipes

    async def close(self) -> None:
        for judge in self._judges:
            await judge.aclose()


class JudgeStage(JudgeCalls):
    """Every judge's `n_repeats` independent calls for each response, as a mean and a variance.

    Several judges count equally: the score is the mean of their means, whose variance is the sum of
    theirs over the squared number of judges. The row's prompt and draw are part of the key, so that
    two rows with the same text are judged twice: their judge errors stay independent.
    """

    name = "judge"
    version = 2
    inputs = ("prompt_id", "draw_idx", "context", "response", "error")

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self._prepare(config.judge_places())

    async def ask(self, judge: Judge, texts: Sequence[str], seed: int) -> Answer:
        context, response = texts
        return await judge.ajudge(context, response, seed=seed)

    def settings(self) -> Mapping[str, Any]:
        each = [{"judge": j.identity(), "n_repeats": j.n_repeats} for j in self._judges]
        return {"judges": each}

    def requests(self, row: Row) -> list[Request]:
        if row["error"] is not None:
            return []
        texts = (row["context"], row["response"])
        return [
            Request(
                recipe,
                recipe.keys.key(*texts, row["prompt_id"], row["draw_idx"], repeat),
                texts,
            )
            for judge, recipe in zip(self._judges, self._recipes, strict=True)
            for repeat in range(judge.n_repeats)
        ]

    def finish(self, row: Row, outcomes: Sequence[Outcome]) -> Row:
        row = {**row, "judge_score": None, "judge_variance": None, "judge_scores": None}
        if not outcomes:
            return row
        verdicts = []
        for outcome in outcomes:
            if outcome.answer is None:
                return self.failed(row, outcome)
            verdicts.append(Verdict.from_json(outcome.answer))
        means, variances = [], []
        for judge in self._judges:
            own, verdicts = verdicts[: judge.n_repeats], verdicts[judge.n_repeats :]
            score = judge.combine(own).score
            means.append(float(score.mean))
            variances.append(float(score.variance))
        n = len(means)
        return row | {
            "judge_score": math.fsum(means) / n,
            "judge_variance": math.fsum(variances) / n**2,
            "judge_scores": means,
        }

    def expected_calls(self, n_rows: int) -> int:
        return n_rows * sum(judge.n_repeats for judge in self._judges)
