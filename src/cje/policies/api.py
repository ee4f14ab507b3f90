"""`APIPolicyRunner`: sample from a served model, and score given responses by teacher forcing."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from cje.models import (
    JSON,
    BadOutputError,
    Completion,
    FatalError,
    ModelCallError,
    make_client,
    run_sync,
)
from cje.policies.answers import Ending, Generation, LogProb
from cje.policies.config import UNTRUNCATED, PolicyConfig, render_prompt
from cje.policies.event import refuse_control_text, scored_event
from cje.policies.probe import PROBE_CONTEXT, SAMPLING_HINT, Capability, probe, sampling_effect
from cje.policies.scored_tokens import ROUNDING, SENTINEL
from cje.policies.scorer import Scorer

__all__ = ["APIPolicyRunner"]


class APIPolicyRunner:
    """A policy behind an API.

    Scoring renders the whole conversation, sends prompt and response to the server as input, and
    sums the log-probs of the response's tokens. The first call probes which of the known forms
    the server supports; an answer that is not a proper log-prob raises `BadOutputError`.

    Parameters
    ----------
    config : PolicyConfig or mapping
    """

    def __init__(self, config: PolicyConfig | Mapping[str, Any]) -> None:
        self.config = PolicyConfig.parse(config)
        self.name, self.provider = self.config.name, self.config.provider
        self.client: Any = make_client(self.config.endpoint_record())
        self._capability: Capability | None = None
        self._probing: asyncio.Task[Capability] | None = None
        self.scorer = Scorer(self.config, self.client)

    # generating ---------------------------------------------------------------------------------

    async def agenerate(self, context: str, *, seed: int) -> Generation:
        """Sample one response."""
        return await self._generation(await self.acomplete(context, seed=seed))

    async def acomplete(self, context: str, **changes: JSON) -> Completion:
        """One generation with this policy's sampling parameters, some replaced by `changes`."""
        config = self.config
        parameters: dict[str, JSON] = {
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_tokens": config.max_tokens,
            **changes,
        }
        parameters = {**UNTRUNCATED.get(config.provider, {}), **parameters}
        if config.provider == "vllm":
            parameters["return_token_ids"] = True
        if config.provider == "anthropic":
            return await self._chat(context, parameters)
        if config.endpoint == "chat":
            return await self._chat(context, parameters | {"logprobs": True})
        prompt = render_prompt(config, context)
        answer: Completion = await self.client.complete(prompt, **parameters, logprobs=1)
        return answer

    async def _chat(self, context: str, parameters: dict[str, JSON]) -> Completion:
        messages = [{"role": "user", "content": context}]
        if self.config.system_prompt:
            messages.insert(0, {"role": "system", "content": self.config.system_prompt})
        answer: Completion = await self.client.chat(messages, **parameters)
        return answer

    async def _generation(self, answer: Completion) -> Generation:
        """Text and log-prob of an answer; an invalid log-prob is left out."""
        values, eos = answer.logprobs, self.config.eos_text
        total = None
        if values and all(SENTINEL < v <= ROUNDING for v in values):
            total = min(math.fsum(min(v, 0.0) for v in values), 0.0)
        text = answer.text
        written = bool(eos and answer.tokens and answer.tokens[-1] == eos)
        if written and eos and text.endswith(eos):
            text = text[: -len(eos)]
        ending, end_text = await self._ending(answer)
        # If the ids include the end and there is one log-prob per id, the sum includes the end.
        ids = answer.token_ids
        counted = ids is not None and len(values or ()) == len(ids)
        if counted and ids and ending == "eos" and eos:
            end = await self.scorer.tokenizer.ids(eos, specials=False)
            counted = bool(end) and list(ids[-len(end or ()) :]) == end
        else:
            counted = counted and ending == "given"
        return Generation(
            text=text,
            finish_reason=answer.finish_reason,
            token_ids=ids,
            logprob=total,
            n_tokens=len(values) if values else answer.usage.completion_tokens,
            logprob_has_eos=written or counted or (ending == "text" and total is not None),
            usage=answer.usage,
            ending=ending,
            end_text=end_text,
        )

    async def _ending(self, answer: Completion) -> tuple[Ending, str | None]:
        """What ended a generation; the finish reason "stop" alone does not tell."""
        if answer.finish_reason != "stop":
            return "open", None
        if isinstance(answer.stop_reason, str):
            return "text", answer.stop_reason
        ids, eos = answer.token_ids, self.config.eos_text
        if answer.stop_reason is not None:  # another end token than the usual one
            return ("given" if ids and ids[-1] == answer.stop_reason else "unknown"), None
        if "stop" in (self.config.extra_body or {}) and self.provider != "vllm":
            return "unknown", None  # the server does not report whether a stop string ended it
        if ids and eos:
            end = await self.scorer.tokenizer.ids(eos, specials=False)
            if end is not None and list(ids[-len(end) :]) != end and self.provider == "vllm":
                return "given", None  # vLLM's ids hold the end token, and it is not the usual one
        return "eos", None

    # scoring ------------------------------------------------------------------------------------

    async def alog_prob(
        self,
        context: str,
        response: str,
        *,
        token_ids: Sequence[int] | None = None,
        complete: bool = True,
        ending: Ending | None = None,
        end_text: str | None = None,
    ) -> LogProb:
        """log p(response | context) under this policy (one scoring call).

        Parameters
        ----------
        token_ids : sequence of int, optional
            The sampled tokens, which are scored directly if the server supports it.
        complete : bool
            Whether the model ended the response itself; its end is then part of the event.
        ending, end_text : optional
            How it ended (`Generation`); by default according to `complete`.

        Raises
        ------
        FatalError
            If the server cannot score a given text, or cannot score the distribution it samples.
        BadOutputError
            If this response cannot be scored.
        """
        capability = await self.aprobe()
        if capability.form is None:
            raise FatalError(
                f"{self.name}: {self.config.endpoint_record().label} cannot score a given "
                f"response ({capability.evidence_text()})",
                reason="cannot_score", hint=capability.hint,
            )  # fmt: skip
        if capability.scores_sampling_distribution is False:
            raise FatalError(
                f"{self.name}: {'; '.join(capability.warnings)}", reason="cannot_score_sampling",
                hint=SAMPLING_HINT,
            )  # fmt: skip
        prompt = render_prompt(self.config, context)
        event = scored_event(
            self.config.eos_text, token_ids=token_ids, complete=complete, ending=ending,
            end_text=end_text,
        )  # fmt: skip
        scorer, form = self.scorer, capability.form
        if token_ids is not None and event.by_ids:
            scored = await scorer.ids(form, prompt, response, token_ids, event.end)
            if scored is not None:
                return scorer.log_prob(scored, event.end)
            if event.ending == "given":
                raise BadOutputError(
                    "the response ends with a token that only its ids hold, and the server does "
                    "not score ids", reason="unknown_end",
                )  # fmt: skip
        if form != "llama_server":  # it is told to write plain text
            refuse_control_text(self.config, response)
        scored = await scorer.text(form, prompt, response, event.end)
        return scorer.log_prob(scored, event.end)

    def log_prob(self, context: str, response: str) -> float:
        """`alog_prob` for synchronous code."""
        return self._teacher_forcing_logprob(context, response)

    def _teacher_forcing_logprob(self, context: str, response: str) -> float:
        """The founding document's name for `log_prob`."""
        return run_sync(self.alog_prob(context, response)).value

    # what the server can do ---------------------------------------------------------------------

    @property
    def probe_asks(self) -> bool:
        """Whether `aprobe` sends requests to the server."""
        config = self.config
        if config.scoring is None:
            return config.provider != "anthropic"
        return (
            config.temperature != 1.0 or config.top_p != 1.0 or bool(config.distorting_settings())
        )

    async def aprobe(self) -> Capability:
        """Find out how this server scores a given text; the result is kept."""
        if self._capability is None:
            if self.config.scoring is not None:
                self._capability = await sampling_effect(
                    self,
                    Capability(self.config.scoring, ("form set by the config",)),
                    render_prompt(self.config, PROBE_CONTEXT),
                )
            elif self.config.provider == "anthropic":
                self._capability = Capability(None, ("the messages API gives no log-probs",))
            else:
                self._capability = await self._probe_once()
        return self._capability

    async def _probe_once(self) -> Capability:
        """Concurrent rows share one probe, and one failure."""
        if self._probing is None or self._probing.get_loop() is not asyncio.get_running_loop():
            self._probing = asyncio.ensure_future(probe(self))
        try:
            return await asyncio.shield(self._probing)
        except ModelCallError:
            self._probing = None  # a server that is down may be up at the next attempt
            raise

    def identity(self) -> dict[str, JSON]:
        config = self.config
        template = render_prompt(config, "\x00")
        return {
            **config.endpoint_record().identity(),
            "temperature": config.temperature,
            "top_p": config.top_p,
            "max_tokens": config.max_tokens,
            "template": sha256(template.encode("utf-8", "surrogatepass")).hexdigest(),
            "endpoint": config.endpoint,
            "eos": config.eos_text,
            "bos": config.bos,
            "boundary": config.boundary,
            "scoring": config.scoring,
        }

    async def aclose(self) -> None:
        await self.client.aclose()
