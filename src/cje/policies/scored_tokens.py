"""Read log-probs of the prompt from every server's format, and find the response among them.

All functions are pure: JSON in, tokens or a `BadOutputError` with a reason out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cje.models import BadOutputError
from cje.policies.answers import Boundary

__all__ = [
    "ROUNDING",
    "SENTINEL",
    "ScoredToken",
    "Span",
    "find_response",
    "read_scored",
    "sum_span",
]

# vLLM writes -9999 for minus infinity, others -1e4 or less; real tokens are above this.
SENTINEL = -1000.0
# Half-precision softmax can give log-probs a rounding error above zero.
ROUNDING = 1e-4


@dataclass(frozen=True)
class ScoredToken:
    """A prompt token: its text and id, if reported, and its log-prob (None for the first)."""

    text: str | None
    id: int | None
    logprob: float | None


@dataclass(frozen=True)
class Span:
    """Tokens [start, stop) are the response; `boundary` is how the start was found."""

    start: int
    stop: int
    boundary: Boundary


def read_scored(form: str, body: Mapping[str, Any], sent: str | Sequence[int]) -> list[ScoredToken]:
    """The prompt's tokens from a server's answer to scoring form `form`."""
    try:
        if form in ("echo0", "echo1"):
            return _read_echo(body, sent, extra=int(form[-1]))
        if form == "prompt_logprobs":
            return _read_prompt_logprobs(body)
        if form == "sglang":
            return _read_triples(body["meta_info"]["input_token_logprobs"])
        prefill = body["details"]["prefill"]
        return [ScoredToken(_text(t["text"]), t.get("id"), t.get("logprob")) for t in prefill]
    except BadOutputError:
        raise  # also a ValueError, with a better reason than the one below
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BadOutputError(
            f"the answer has no prompt log-probs in the form '{form}' expects",
            reason="missing_logprobs", raw=str(body)[:500],
        ) from error  # fmt: skip


def _read_echo(body: Mapping[str, Any], sent: str | Sequence[int], extra: int) -> list[ScoredToken]:
    block = body["choices"][0]["logprobs"]
    texts, values = block["tokens"], block["token_logprobs"]
    if len(texts) != len(values):
        raise BadOutputError(
            f"{len(texts)} tokens but {len(values)} log-probs", reason="length_mismatch"
        )
    tokens = [ScoredToken(_text(t), None, v) for t, v in zip(texts, values, strict=True)]
    generated = _generated_tokens(body, tokens, sent, extra)
    if generated > extra:
        raise BadOutputError(
            f"asked for {extra} tokens, the server generated {generated}", reason="generated_more"
        )
    return tokens[: len(tokens) - generated]


def _generated_tokens(
    body: Mapping[str, Any], tokens: Sequence[ScoredToken], sent: str | Sequence[int], extra: int
) -> int:
    """Number of tokens at the end that are not of the prompt, as counted."""
    if not isinstance(sent, str):
        return len(tokens) - len(sent)
    texts = [token.text for token in tokens]
    if all(text is not None for text in texts):
        joined = "".join(str(text) for text in texts)
        at = joined.find(sent)
        if at >= 0:
            rest = len(joined) - at - len(sent)
            count = 0
            while count < len(texts) and rest > 0:
                count += 1
                rest -= len(str(texts[-count]))
            # An end token may be written as empty text, but is a generated token.
            while count < extra and count < len(texts) and not texts[-count - 1]:
                count += 1
            return count
    usage = body.get("usage") or {}
    return int(usage.get("completion_tokens", extra))


def _read_prompt_logprobs(body: Mapping[str, Any]) -> list[ScoredToken]:
    entries = body["choices"][0].get("prompt_logprobs")
    if entries is None:
        entries = body["prompt_logprobs"]
    ids = body["choices"][0].get("prompt_token_ids")
    tokens = []
    for at, entry in enumerate(entries):
        known = None if ids is None else ids[at]
        if entry is None:
            tokens.append(ScoredToken(None, known, None))
            continue
        if len(entry) != 1 and known is None:
            raise BadOutputError(
                "several candidates for one prompt token and no token ids to tell them apart",
                reason="ambiguous_token",
            )
        key = str(known) if known is not None else next(iter(entry))
        tokens.append(ScoredToken(entry[key].get("decoded_token"), int(key), entry[key]["logprob"]))
    return tokens


def _read_triples(triples: Sequence[Any]) -> list[ScoredToken]:
    return [
        ScoredToken(t[2] if len(t) > 2 and isinstance(t[2], str) else None, t[1], t[0])
        for t in triples
    ]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def find_response(
    tokens: Sequence[ScoredToken],
    prompt: str,
    full: str,
    *,
    prompt_ids: Sequence[int] | None = None,
    full_ids: Sequence[int] | None = None,
) -> Span:
    """The span of the response among the tokens of `full`, which starts with `prompt`.

    By character offsets if the tokens' texts add up to the text; otherwise by the ids of the prompt
    alone, which must be a prefix of all ids. A token that spans the boundary is
    reported as ``inside_token``, and the span then starts at that token.
    """
    if not full.startswith(prompt) or len(full) <= len(prompt):
        raise BadOutputError("the response is empty", reason="empty_response")
    offsets = _offsets(tokens, full)
    if offsets is not None:
        cut = len(prompt)
        for at, (begin, end) in enumerate(offsets):
            # A token of no width at the cut is the first part of the response's first character:
            # vLLM writes the bytes of a character as "" up to the last one.
            if at > 0 and begin >= cut:
                return Span(at, len(tokens), "offsets")
            if end > cut:
                return Span(at, len(tokens), "inside_token")
        raise BadOutputError("no token holds the response", reason="length_mismatch")
    if prompt_ids is None or full_ids is None:
        raise BadOutputError(
            "the tokens' texts do not add up to the text, and the server cannot tokenise",
            reason="boundary_unknown",
        )
    return _by_prefix(tokens, prompt_ids, full_ids)


def _offsets(tokens: Sequence[ScoredToken], full: str) -> list[tuple[int, int]] | None:
    """[begin, end) of every token in `full`; the first may be BOS, or of unknown text."""
    rest = [token.text for token in tokens[1:]]
    if not tokens or any(text is None for text in rest):
        return None
    tail = "".join(str(text) for text in rest)
    if not full.endswith(tail):
        return None
    first_end = len(full) - len(tail)
    first = tokens[0].text
    # The first token is the rest of the text, or BOS if nothing is left.
    if first is not None and first_end not in (0, len(first)):
        return None
    if first is not None and first_end > 0 and full[:first_end] != first:
        return None
    offsets, at = [(0, first_end)], first_end
    for text in rest:
        offsets.append((at, at + len(str(text))))
        at += len(str(text))
    return offsets


def _by_prefix(
    tokens: Sequence[ScoredToken], prompt_ids: Sequence[int], full_ids: Sequence[int]
) -> Span:
    if len(full_ids) != len(tokens) or any(
        token.id is not None and token.id != i for token, i in zip(tokens, full_ids, strict=True)
    ):
        raise BadOutputError(
            "the scored tokens are not the tokens of the text", reason="length_mismatch"
        )
    common = 0
    while common < len(prompt_ids) and prompt_ids[common] == full_ids[common]:
        common += 1
        if common == len(full_ids):
            raise BadOutputError("no token holds the response", reason="length_mismatch")
    return Span(common, len(tokens), "prefix" if common == len(prompt_ids) else "inside_token")


def sum_span(tokens: Sequence[ScoredToken], span: Span) -> float:
    """Sum of the span's log-probs; raises for anything that is not a log-prob."""
    if span.start == 0:
        raise BadOutputError(
            "the response starts at the first token, which has no log-prob", reason="no_context"
        )
    values = []
    for token in tokens[span.start : span.stop]:
        value = token.logprob
        if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BadOutputError("a token has no log-prob", reason="missing_logprobs", value=value)
        if not -sys.float_info.max <= value <= sys.float_info.max:  # NaN, or a huge integer
            raise BadOutputError(
                "a log-prob is not finite", reason="non_finite_logprob", value=value
            )
        if value > ROUNDING:
            raise BadOutputError("a log-prob is positive", reason="positive_logprob", value=value)
        if value <= SENTINEL:
            raise BadOutputError(
                "a log-prob is a sentinel (the server's value for probability zero)",
                reason="sentinel_logprob", value=value,
            )  # fmt: skip
        values.append(min(float(value), 0.0))
    return math.fsum(values)
