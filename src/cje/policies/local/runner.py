"""`LocalPolicy`: a policy computed in this process from its weights."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from cje.errors import CJEError
from cje.models import JSON, ModelCallError
from cje.policies.answers import Ending, Generation, LogProb
from cje.policies.config import PolicyConfig, render_prompt
from cje.policies.local.head import Sampling
from cje.policies.local.model import LocalModel, shared_model
from cje.policies.local.planned import Answer, AnyCall, GenerateCall, ScoreCall, answer_calls
from cje.policies.local.tokens import Prepared
from cje.policies.local.weights import model_digest

__all__ = ["LocalPolicy"]


class LocalPolicy:
    """Samples and scores with an open-weights model on this machine.

    Scores are those of the distribution that the policy samples: its temperature and top-p applied
    to float32 logits. Policies that differ only in prompt, temperature or top-p share one loaded
    model, and one forward pass if their tokens are equal.

    Parameters
    ----------
    config : PolicyConfig or mapping
        With ``provider: transformers`` and ``model``: a folder, or a name on the Hugging Face hub.
    """

    provider = "transformers"

    def __init__(self, config: PolicyConfig | Mapping[str, Any]) -> None:
        given = PolicyConfig.parse(config)
        if given.provider != self.provider:
            raise CJEError("a LocalPolicy needs provider: transformers", value=given.provider)
        if given.endpoint == "chat":
            raise CJEError(
                "endpoint: chat is for servers", where=given.name,
                hint="leave it out and set template: auto, which is the model's own chat template",
            )  # fmt: skip
        if given.extra_body:
            raise CJEError("extra_body is for servers", where=given.name, value=given.extra_body)
        self.name, self._given = given.name, given
        self.sampling = Sampling(given.temperature, given.top_p)
        self.model: LocalModel = shared_model(given)

    @cached_property
    def config(self) -> PolicyConfig:
        """The configuration, with ``template: auto`` resolved by the model's tokeniser."""
        return self.model.tokeniser.resolved(self._given)

    # one call -----------------------------------------------------------------------------------

    async def agenerate(self, context: str, *, seed: int) -> Generation:
        """Sample one response."""
        answer = await asyncio.to_thread(self._one, self.generate_call(context, seed=seed))
        assert isinstance(answer, Generation)
        return answer

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
        """log p(response | context); many rows are faster through `MultiTargetSampler`."""
        call = self.score_call(
            context, response, token_ids=token_ids, complete=complete, ending=ending,
            end_text=end_text,
        )  # fmt: skip
        answer = await asyncio.to_thread(self._one, call)
        assert isinstance(answer, LogProb)
        return answer

    def log_prob(self, context: str, response: str) -> float:
        """`alog_prob` for synchronous code."""
        answer = self._one(self.score_call(context, response))
        assert isinstance(answer, LogProb)
        return answer.value

    def _one(self, call: ScoreCall | GenerateCall) -> Answer:
        for part in answer_calls([call]):
            for _, answer in part:
                if isinstance(answer, ModelCallError):
                    raise answer
                return answer
        raise AssertionError("every call is answered")

    # many calls ---------------------------------------------------------------------------------

    def score_call(
        self,
        context: str,
        response: str,
        *,
        token_ids: Sequence[int] | None = None,
        complete: bool = True,
        ending: Ending | None = None,
        end_text: str | None = None,
        repeat: int = 0,
    ) -> ScoreCall:
        """A scoring call for `answer_calls`."""
        ids = None if token_ids is None else tuple(token_ids)
        return ScoreCall(self, context, response, ids, complete, ending, end_text, repeat)

    def generate_call(self, context: str, *, seed: int) -> GenerateCall:
        """A generating call for `answer_calls`."""
        return GenerateCall(self, context, seed)

    @staticmethod
    def answer_calls(
        calls: Sequence[AnyCall],
    ) -> Iterator[list[tuple[int, Answer]]]:
        """`cje.policies.local.planned.answer_calls`."""
        return answer_calls(calls)

    def prepare(self, call: ScoreCall) -> Prepared:
        """The tokens of a call."""
        return self.model.tokeniser.prepare(
            self.config, call.context, call.response, token_ids=call.token_ids,
            complete=call.complete, ending=call.ending, end_text=call.end_text,
        )  # fmt: skip

    def identity(self) -> dict[str, JSON]:
        given = self._given
        if given.template == "auto":
            template = "auto"
        else:
            text = render_prompt(given, "\x00")
            template = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        local = Path(given.model).expanduser().is_dir()
        return {
            "provider": self.provider,
            # A folder is identified by its content, and a model on the hub by its name.
            "model": model_digest(self.model.folder) if local else given.model,
            "revision": given.revision,
            "dtype": given.dtype,
            "batch_invariant": given.batch_invariant,
            "temperature": given.temperature,
            "top_p": given.top_p,
            "max_tokens": given.max_tokens,
            "template": template,
            "system_prompt": given.system_prompt if template == "auto" else None,
            "eos": given.eos,
            "bos": given.bos,
            "boundary": given.boundary,
        }

    async def aclose(self) -> None:
        """Nothing to close: the model is freed when no policy uses it."""
