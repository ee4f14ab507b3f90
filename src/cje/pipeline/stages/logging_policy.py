"""Stage 2: the logging policy answers each context; logged responses are kept unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cje.data.surrogates import storable_text
from cje.pipeline.chunks import Row
from cje.pipeline.config import PipelineConfig
from cje.pipeline.request import Answer, Outcome, Passes, Recipe, Request
from cje.pipeline.stages.base import CallStage
from cje.policies import Generation, PolicyRunner, make_runner
from cje.policies.sampler import Planned

__all__ = ["LoggingPolicyStage"]


class LoggingPolicyStage(CallStage):
    """Generates one response for every row without one.

    The draw's index is part of the key: two draws for one context are two independent calls.
    """

    name = "logging_policy"
    version = 2
    inputs = ("prompt_id", "draw_idx", "context", "response", "error")

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self._runner: PolicyRunner | None = None
        self._recipe: Recipe | None = None
        policy = config.logging_policy
        if policy is not None and config.dataset.response_field is None:
            runner = make_runner(policy)

            async def generate(request: Request, seed: int) -> Answer:
                return await runner.agenerate(request.texts[0], seed=seed)

            passes = None
            if isinstance(runner, Planned):
                local = runner
                passes = Passes(
                    lambda request, seed: local.generate_call(request.texts[0], seed=seed),
                    local.answer_calls,
                )
            self._runner = runner
            self._recipe = self.make_recipe(
                runner.identity(),
                runner.provider,
                generate,
                model=policy.model,
                max_tokens=policy.max_tokens,
                place=config.place_of(policy),
                passes=passes,
            )

    @property
    def recipes(self) -> Sequence[Recipe]:
        return () if self._recipe is None else (self._recipe,)

    def settings(self) -> Mapping[str, Any]:
        return {"policy": None if self._runner is None else self._runner.identity()}

    def requests(self, row: Row) -> list[Request]:
        if self._recipe is None or row["error"] is not None or row["response"] is not None:
            return []
        context = row["context"]
        key = self._recipe.keys.key(context, row["prompt_id"], row["draw_idx"])
        return [Request(self._recipe, key, (context,))]

    def finish(self, row: Row, outcomes: Sequence[Outcome]) -> Row:
        row = {**row, "logp_generated": None, "generated_eos": None, "n_tokens": None,
               "token_ids": None, "finish_reason": None, "complete": True, "ending": "eos",
               "end_text": None}  # fmt: skip
        if not outcomes:
            return row
        if outcomes[0].answer is None:
            return self.failed(row, outcomes[0])
        made = Generation.from_json(outcomes[0].answer)
        if storable_text(made.text) != made.text:
            # The store can keep it, but text files and servers cannot.
            broken = "the response holds a lone surrogate, which is not Unicode text"
            return self.failed(row, Outcome(None, "not_unicode", broken))
        return {
            **row,
            "response": made.text,
            "logp_generated": made.logprob,
            "generated_eos": made.logprob_has_eos,
            "n_tokens": made.n_tokens,
            "token_ids": None if made.token_ids is None else list(made.token_ids),
            "finish_reason": made.finish_reason,
            "complete": made.complete,
            "ending": made.ending,
            "end_text": made.end_text,
        }

    def expected_calls(self, n_rows: int) -> int:
        return 0 if self._recipe is None else n_rows

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.aclose()
