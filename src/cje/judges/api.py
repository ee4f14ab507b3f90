"""`APIJudge`: a language model as a judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cje.errors import CJEError
from cje.judges.base import BaseJudge
from cje.judges.config import JudgeConfig
from cje.judges.parsing import Parsed, parse_verdict
from cje.judges.template import JudgeTemplate, load_template
from cje.judges.verdict import (
    Verdict,
    moments_from_logprobs,
    variance_from_interval,
    verdict_logprobs,
)
from cje.models import (
    JSON,
    BadOutputError,
    Client,
    Completion,
    FatalError,
    call_seed,
    make_client,
    run_sync,
    with_retries,
)

__all__ = ["APIJudge"]


class APIJudge(BaseJudge):
    """A judge that asks a model with a template and reads its verdict.

    The answer is requested as JSON with a schema. A server without support for schemas is asked
    once more in plain words, and its answer is then read tolerantly.

    Parameters
    ----------
    config : JudgeConfig or mapping
    concurrency : int
        Concurrent calls (`score_batch`).
    client : Client, optional
        A client to use in place of the configured server; ``provider: transformers`` needs a
        `cje.policies.local.LocalChat`.
    """

    def __init__(
        self,
        config: JudgeConfig | Mapping[str, Any],
        *,
        concurrency: int = 16,
        client: Client | None = None,
    ) -> None:
        self.config = JudgeConfig.parse(config)
        template = load_template(self.config.template)
        if self.config.scale is not None:
            template = template.with_scale(*self.config.scale)
        if template.kind != "score" and self.config.variance == "interval":
            raise CJEError(
                f"template '{template.name}' has no score to state an interval for",
                hint="use variance samples or logprobs",
            )
        if self.config.rubric is not None and "rubric" not in template.text:
            raise CJEError(
                f"template '{template.name}' has no place for a rubric",
                hint="use rubric_score or pass_fail, or put the rule into your own template",
            )
        self.template = template
        self.name, self.provider = self.config.name, self.config.provider
        self.n_repeats, self.variance_method = self.config.repeats, self.config.variance
        self.concurrency, self.seed = concurrency, self.config.seed
        self.client: Client = client or make_client(self.config.endpoint_record())
        self._structured = self.config.structured and self.provider != "anthropic"

    async def ajudge(self, context: str, response: str, *, seed: int) -> Verdict:
        """One judgement."""
        if self.template.kind == "comparative":
            raise CJEError("a comparative template compares two responses: use compare")
        prompt = self.template.render(
            context, response, rubric=self.config.rubric, answer_format=self._format_words()
        )
        answer = await self._ask(prompt, seed)
        return self._verdict(answer, parse_verdict(answer.text, self.template, response))

    def compare(self, context: str, response_a: str, response_b: str) -> float:
        """Preference for the first response: 1, 0.5 or 0, averaged over both positions.

        Judges favour a position; asking twice with the responses swapped cancels that bias.
        """
        return run_sync(self.acompare(context, response_a, response_b, seed=self.seed))

    async def acompare(self, context: str, response_a: str, response_b: str, *, seed: int) -> float:
        """`compare` as a coroutine (two calls, each with retries)."""

        async def once(first: str, second: str, number: int) -> float:
            shown = await self.acompare_once(context, first, second, seed=call_seed(seed, number))
            return shown.score

        ahead = await with_retries(lambda: once(response_a, response_b, 0), seed=seed)
        behind = await with_retries(lambda: once(response_b, response_a, 1), seed=seed)
        return (ahead + 1.0 - behind) / 2.0

    async def acompare_once(self, context: str, first: str, second: str, *, seed: int) -> Verdict:
        """Preference for the first response, shown in this order: one attempt."""
        if self.template.kind != "comparative":
            raise CJEError("compare needs a comparative template", value=self.template.name)
        prompt = self.template.render(
            context, first, other=second, rubric=self.config.rubric,
            answer_format=self._format_words(),
        )  # fmt: skip
        answer = await self._ask(prompt, seed)
        parsed = parse_verdict(answer.text, self.template, f"{first}\n{second}")
        return Verdict(parsed.value, answer.text, parsed.by, None, answer.usage)

    async def _ask(self, prompt: str, seed: int) -> Completion:
        parameters: dict[str, JSON] = {
            "temperature": self.config.sampling_temperature,
            "max_tokens": self.config.max_tokens,
            "seed": seed,
        }
        if self.config.variance == "logprobs":
            parameters |= {"logprobs": True, "top_logprobs": 20}
        messages = [{"role": "user", "content": prompt}]
        if not self._structured:
            return _accepted(await self.client.chat(messages, **parameters))
        try:
            answer = await self.client.chat(messages, **parameters, response_format=self._schema())
        except FatalError as error:
            if error.status not in (400, 422):
                raise
            answer = await self.client.chat(messages, **parameters)
            self._structured = False  # only plain words work: use them from now on
        return _accepted(answer)

    def _verdict(self, answer: Completion, parsed: Parsed) -> Verdict:
        score, variance, listed = parsed.value, None, None
        if self.config.variance == "logprobs":
            score, variance = moments_from_logprobs(answer, self.template, parsed.value)
            listed = verdict_logprobs(answer, self.template, parsed.value)
        elif self.config.variance == "interval":
            if parsed.interval is None:
                raise BadOutputError(
                    "judge: the answer states no interval", reason="no_interval", raw=answer.text
                )
            variance = variance_from_interval(parsed.interval)
        return Verdict(score, answer.text, parsed.by, variance, answer.usage, listed)

    # what is asked for --------------------------------------------------------------------------

    def _fields(self) -> dict[str, dict[str, JSON]]:
        return answer_fields(self.template, self.config.variance)

    def _schema(self) -> dict[str, JSON]:
        fields = self._fields()
        schema = {
            "type": "object",
            "properties": fields,
            "required": list(fields),
            "additionalProperties": False,
        }
        return {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": schema},
        }

    def _format_words(self) -> str:
        names = ", ".join(f'"{name}"' for name in self._fields())
        interval = ""
        if self.config.variance == "interval":
            interval = " 'lower' and 'upper' bound the score with 90% confidence."
        return f"Answer with one JSON object with the fields {names}, in that order.{interval}"

    def identity(self) -> dict[str, JSON]:
        return {
            **self._model_identity(),
            "template": self.template.digest,
            "rubric": self.config.rubric,
            "variance": self.config.variance,
            "temperature": self.config.sampling_temperature,
            "max_tokens": self.config.max_tokens,
            "structured": self.config.structured,
        }

    def _model_identity(self) -> dict[str, JSON]:
        """Identity of the server, or of the weights of a model in this process."""
        own = getattr(self.client, "identity", None)
        found: dict[str, JSON] = own() if own else self.config.endpoint_record().identity()
        return found

    async def aclose(self) -> None:
        await self.client.aclose()


def answer_fields(template: JudgeTemplate, variance: str) -> dict[str, dict[str, JSON]]:
    """The JSON fields of an answer, with the reasons before the verdict."""
    fields: dict[str, dict[str, JSON]] = {"reasoning": {"type": "string"}}
    if template.kind == "pass_fail":
        return fields | {"verdict": {"type": "string", "enum": ["PASS", "FAIL"]}}
    if template.kind == "comparative":
        return fields | {"winner": {"type": "string", "enum": ["A", "B", "tie"]}}
    bounds: dict[str, JSON] = {"minimum": template.low, "maximum": template.high}
    kind = "integer" if variance == "logprobs" else "number"
    fields["score"] = {"type": kind, **bounds}
    if variance == "interval":
        fields["lower"] = {"type": "number", **bounds}
        fields["upper"] = {"type": "number", **bounds}
    return fields


def _accepted(answer: Completion) -> Completion:
    if answer.finish_reason in ("refusal", "content_filter"):
        raise BadOutputError("judge: the model refused to judge", reason="refusal", raw=answer.text)
    return answer
