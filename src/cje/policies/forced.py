"""Scores from llama.cpp's ``llama-server``, which reports log-probs only of what it writes.

A grammar that allows one given token at a time makes the model write the response. The server
reports the probability of each token before grammar and bias apply, so the numbers are the model's
own. A token that is only part of a character can be neither in a grammar nor in a report: its
log-prob is read from the list of likely tokens at its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cje.models import JSON, BadOutputError
from cje.policies.scored_tokens import ScoredToken

__all__ = ["ForcedWriting"]

_BIAS = 1e4
_LISTS = (1000, 400_000)  # the longer list covers every vocabulary


class ForcedWriting:
    """Makes a llama-server write given token ids.

    Parameters
    ----------
    client : client of `cje.models`
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._part_of_character: dict[int, bool] = {}
        self._whole: list[list[float]] | None = None

    async def score(
        self, before: Sequence[int], wanted: Sequence[int], *, ends: bool
    ) -> tuple[list[ScoredToken], dict[str, JSON]]:
        """Score `wanted` after `before`; the token counts of all answers are added.

        Parameters
        ----------
        ends : bool
            Whether the last id is an end token. A grammar cannot contain it: after the last other
            token the model may only end, and a bias selects one of several end tokens.
        """
        end = wanted[-1] if ends else None
        inside = wanted[:-1] if ends else wanted
        for token in set(inside) - set(self._part_of_character):
            self._part_of_character[token] = await self._is_part(token)
        got: list[ScoredToken] = []
        counts = {"tokens_evaluated": 0, "tokens_predicted": 0}
        for run, last in self._calls(inside, end):
            front = [*before, *wanted[: len(got)]]
            if last is None and len(run) == 1 and self._part_of_character[run[0]]:
                made, answer = await self._likely(front, run[0])
            else:
                made, answer = await self._write(front, run, last)
            got += made
            for name in counts:
                counts[name] += int(answer.get(name) or 0)
        return got, counts

    def _calls(
        self, inside: Sequence[int], end: int | None
    ) -> Iterator[tuple[list[int], int | None]]:
        """The ids of each call; the end belongs to the last call, if that can contain it."""
        runs = list(self._runs(inside))
        for run in runs[:-1]:
            yield run, None
        if not runs or (end is not None and self._part_of_character[runs[-1][0]]):
            yield from [(run, None) for run in runs[-1:]]
            yield [], end
        else:
            yield runs[-1], end

    def _runs(self, ids: Sequence[int]) -> Iterator[list[int]]:
        """Groups of ids, one call each: tokens of whole characters together, others alone."""
        run: list[int] = []
        for token in ids:
            if self._part_of_character[token]:
                if run:
                    yield run
                yield [token]
                run = []
            else:
                run.append(token)
        if run:
            yield run

    async def _is_part(self, token: int) -> bool:
        """Whether a token is only some bytes of a character."""
        answer = await self._client.post("//detokenize", {"tokens": [token]}, billed=False)
        return "\ufffd" in str(answer.get("content"))

    async def _write(
        self, before: Sequence[int], run: Sequence[int], end: int | None
    ) -> tuple[list[ScoredToken], Mapping[str, JSON]]:
        """Write a run of tokens, and perhaps the end, forced by a grammar and a bias."""
        grammar = "root ::= " + (" ".join(f"<[{i}]>" for i in run) or '""')
        bias = [] if end is None else [[end, _BIAS]]
        wanted = [*run] if end is None else [*run, end]
        answer = await self._complete(
            before, n_predict=len(wanted), n_probs=1, grammar=grammar, logit_bias=bias
        )
        got = [_token(entry) for entry in _entries(answer)]
        if [token.id for token in got] != wanted:
            raise BadOutputError(
                f"the server wrote other tokens than the {len(wanted)} asked for (is the "
                "configured eos an end token of this model?)",
                reason="length_mismatch",
            )
        return got, answer

    async def _likely(
        self, before: Sequence[int], token: int
    ) -> tuple[list[ScoredToken], Mapping[str, JSON]]:
        """One token from the list of likely tokens: first the short list, then the whole."""
        if self._whole is None:
            said = await self._client.post("//tokenize", {"content": "x"}, billed=False)
            self._whole = [[i, _BIAS] for i in (said.get("tokens") or [])[:1]]
        for most in _LISTS:
            # The bias makes it write a whole character: of a part, nothing is reported.
            answer = await self._complete(before, n_predict=1, n_probs=most, logit_bias=self._whole)
            for entry in (e for each in _entries(answer) for e in each.get("top_logprobs") or ()):
                if entry.get("id") == token:
                    return [_token(entry)], answer
        raise BadOutputError("a token is not among the likely ones", reason="missing_logprobs")

    async def _complete(self, before: Sequence[int], **more: JSON) -> dict[str, JSON]:
        body = {
            "prompt": list(before), "temperature": 0.0, "post_sampling_probs": False,
            "cache_prompt": False, **more,
        }  # fmt: skip
        answer: dict[str, JSON] = await self._client.post("//completion", body)
        return answer


def _entries(answer: Mapping[str, JSON]) -> list[Mapping[str, JSON]]:
    entries = answer.get("completion_probabilities")
    if not isinstance(entries, list) or not all(isinstance(e, Mapping) for e in entries):
        raise BadOutputError("the answer has no log-probs", reason="missing_logprobs")
    return entries


def _token(entry: Mapping[str, JSON]) -> ScoredToken:
    return ScoredToken(entry.get("token"), entry.get("id"), entry.get("logprob"))
