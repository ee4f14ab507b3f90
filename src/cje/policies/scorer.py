"""A scoring call in every form that servers support, and the response's part of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cje.errors import CJEError
from cje.models import JSON, BadOutputError, FatalError, Usage
from cje.models.metering import read_usage
from cje.policies.answers import Boundary, LogProb
from cje.policies.config import PolicyConfig, ScoringForm
from cje.policies.event import refuse_inside_token
from cje.policies.forced import ForcedWriting
from cje.policies.scored_tokens import ScoredToken, Span, find_response, read_scored, sum_span
from cje.policies.tokenizer import ServerTokenizer

__all__ = ["Scored", "Scorer", "scoring_request"]

# Forms whose answers contain the ids of the scored tokens.
_TELLS_IDS = ("prompt_logprobs", "sglang")


@dataclass(frozen=True)
class Scored:
    """A scoring call: tokens with log-probs, which of them are the response, the raw answer."""

    tokens: list[ScoredToken]
    span: Span
    answer: Mapping[str, JSON]


class Scorer:
    """Scores texts and token ids on one policy's server.

    Parameters
    ----------
    config : PolicyConfig
    client : client of `cje.models`
    """

    def __init__(self, config: PolicyConfig, client: Any) -> None:
        self.config, self.client = config, client
        self.tokenizer = ServerTokenizer(config, client)
        self._forcing = ForcedWriting(client)
        self._takes_ids = config.provider != "llama-cpp"  # its completions take only text

    async def text(
        self, form: ScoringForm, prompt: str, text: str, eos: str = "", **changes: JSON
    ) -> Scored:
        """Score `text` and its end after `prompt`, in one call if token texts show the boundary."""
        if form == "llama_server":
            return await self._forced_text(prompt, text, eos)
        full = prompt + text + eos
        tokens, answer = await self.tokens(form, full, **changes)
        return Scored(tokens, await self._locate(tokens, prompt, full), answer)

    async def ids(
        self, form: ScoringForm, prompt: str, text: str, ids: Sequence[int], eos: str
    ) -> Scored | None:
        """Score logged token ids; None if the server cannot take or produce ids."""
        if form == "tgi" or not self._takes_ids:  # these take only text
            return None
        wanted = list(ids)
        end = await self.tokenizer.ids(eos, specials=False) if eos else []
        if end is None:
            return None
        if end and wanted[-len(end) :] != end:
            wanted += end
        if not wanted:
            raise BadOutputError("the response has no tokens", reason="empty_response")
        if form in _TELLS_IDS and not self.tokenizer.known(prompt):
            found = await self._ids_of_text(form, prompt, text + eos, wanted)
            if found is not None:
                return found
        before = await self.tokenizer.ids(prompt)
        if before is None:
            return None
        if form == "llama_server":
            return await self._forced(before, wanted, ends=bool(end))
        try:
            tokens, answer = await self.tokens(form, before + wanted)
        except FatalError as error:
            if error.status not in (400, 422) or not await self._takes_text(form, prompt + text):
                raise
            self._takes_ids = False
            return None
        _check_same(tokens, before + wanted)
        return Scored(tokens, Span(len(before), len(tokens), "token_ids"), answer)

    async def tokens(
        self, form: ScoringForm, sent: str | Sequence[int], **changes: JSON
    ) -> tuple[list[ScoredToken], dict[str, JSON]]:
        """The sent tokens, and the raw answer (every form except llama-server's)."""
        path, body = scoring_request(self.config, form, sent)
        body.update(changes)
        if form in ("sglang", "tgi"):
            answer = await self.client.post(path, body)
        else:
            answer = await self.client.complete_raw(sent, **body)
        return read_scored(form, answer, sent), answer

    async def _takes_text(self, form: ScoringForm, text: str) -> bool:
        """Whether a server that refused ids accepts their text, and so does not take ids."""
        try:
            await self.tokens(form, text)
        except FatalError:
            return False
        return True

    async def _ids_of_text(
        self, form: ScoringForm, prompt: str, text: str, wanted: list[int]
    ) -> Scored | None:
        """Score the wanted ids by sending their text, in one call.

        The tokens are the wanted ones if the answer's ids end with them and the response begins
        between two tokens: the part before is then tokenised as the prompt alone would be.
        """
        full = prompt + text
        tokens, answer = await self.tokens(form, full)
        start = len(tokens) - len(wanted)
        if start < 1 or [token.id for token in tokens[start:]] != wanted:
            return None
        try:
            span = find_response(tokens, prompt, full)
        except BadOutputError:
            return None
        if span != Span(start, len(tokens), "offsets"):
            return None
        return Scored(tokens, Span(start, len(tokens), "token_ids"), answer)

    async def _locate(self, tokens: Sequence[ScoredToken], prompt: str, full: str) -> Span:
        """The response among the scored tokens, by their texts or by the tokeniser's ids."""
        try:
            return find_response(tokens, prompt, full)
        except BadOutputError as error:
            if error.reason != "boundary_unknown":
                raise
            before, whole = await asyncio.gather(
                self.tokenizer.ids(prompt), self.tokenizer.ids(full, keep=False)
            )
            if before is None or whole is None:
                raise
        return find_response(tokens, prompt, full, prompt_ids=before, full_ids=whole)

    # llama-server ----------------------------------

    async def _forced_text(self, prompt: str, text: str, eos: str) -> Scored:
        """Score a text after a prompt; control tokens spelled out in the text stay text."""
        before = await self.tokenizer.ids(prompt)
        end = await self.tokenizer.ids(eos, specials=False) if eos else []
        if before is None or end is None:
            raise FatalError("the server has no route //tokenize", reason="no_tokenizer")
        if self.config.control_text_in(text) is not None:
            inside = await self.tokenizer.plain_ids(text)
            start = len(before)
        else:
            whole = await self.tokenizer.ids(prompt + text, keep=False)
            start = _common(before, whole or [])
            inside = None if whole is None else whole[start:]
        if inside is None:
            raise FatalError("the server has no route //tokenize", reason="no_tokenizer")
        if not inside and not end:
            raise BadOutputError("the response is empty", reason="empty_response")
        scored = await self._forced(before[:start], inside + end, ends=len(end) == 1)
        boundary: Boundary = "prefix" if start == len(before) else "inside_token"
        return replace(scored, span=replace(scored.span, boundary=boundary))

    async def _forced(self, before: list[int], wanted: list[int], *, ends: bool) -> Scored:
        got, answer = await self._forcing.score(before, wanted, ends=ends)
        tokens = [*(ScoredToken(None, i, None) for i in before), *got]
        return Scored(tokens, Span(len(before), len(tokens), "token_ids"), answer)

    # the sum --------------------------------------------------------------------------------------

    def log_prob(self, scored: Scored, eos: str = "") -> LogProb:
        """The response's log-prob, with the part of its end if known; raises `BadOutputError`."""
        refuse_inside_token(self.config, scored.span)
        span, tokens = scored.span, scored.tokens
        value = sum_span(tokens, span)
        usage = _usage(scored.answer, tokens)
        return LogProb(value, span.stop - span.start, span.boundary, usage, _end(scored, eos))


def _end(scored: Scored, eos: str) -> float | None:
    """The log-prob of the end: of a last token that is written as the end, or as nothing."""
    last = scored.tokens[scored.span.stop - 1]
    return last.logprob if eos and last.text in (eos, "") else None


def _common(some: Sequence[int], others: Sequence[int]) -> int:
    """Number of ids that both lists begin with."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(some), len(others)))


def _check_same(tokens: Sequence[ScoredToken], sent: Sequence[int]) -> None:
    if len(tokens) != len(sent) or any(
        token.id is not None and token.id != i for token, i in zip(tokens, sent, strict=True)
    ):
        raise BadOutputError(
            f"sent {len(sent)} token ids, got {len(tokens)} others back", reason="length_mismatch"
        )


def scoring_request(
    config: PolicyConfig, form: ScoringForm, sent: str | Sequence[int]
) -> tuple[str, dict[str, JSON]]:
    """Path and body of one scoring call.

    Every form asks for the sampling distribution (temperature, top-p); the probe finds out whether
    the server applies it.
    """
    sampling = {"temperature": config.temperature, "top_p": config.top_p}
    if form in ("echo0", "echo1"):
        # logprobs=1, not 0: SGLang ignores the prompt's log-probs at 0.
        body = {"echo": True, "logprobs": 1, "max_tokens": int(form[-1]), **sampling}
    elif form == "prompt_logprobs":
        body = {"prompt_logprobs": 0, "max_tokens": 1, **sampling}
    elif form == "sglang":
        field = {"text": sent} if isinstance(sent, str) else {"input_ids": list(sent)}
        return "//generate", {
            **field,
            "sampling_params": {"max_new_tokens": 0, **sampling},
            "return_logprob": True,
            "logprob_start_len": 0,
            "return_text_in_logprobs": True,
            "temp_scaled_logprobs": config.temperature != 1.0,
            "top_p_normalized_logprobs": config.top_p != 1.0,
        }
    else:
        if not isinstance(sent, str):
            raise CJEError("TGI takes text, not token ids")
        return "//generate", {
            "inputs": sent,
            "parameters": {"decoder_input_details": True, "details": True, "max_new_tokens": 1},
        }
    if config.bos is not None:
        body["add_special_tokens"] = config.bos
    return "/completions", body


def _usage(answer: Mapping[str, JSON], tokens: Sequence[ScoredToken]) -> Usage:
    """Tokens of a scoring call; the prompt's are counted if the server does not report them."""
    usage = read_usage(answer)
    return usage if usage is not None and usage.prompt_tokens else Usage(len(tokens), 1)
