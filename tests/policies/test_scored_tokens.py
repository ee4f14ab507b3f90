"""Finding the response among scored tokens, on answers written by hand."""

from __future__ import annotations

import pytest

from cje.models import BadOutputError
from cje.policies.scored_tokens import ScoredToken, Span, find_response, read_scored, sum_span


def _tokens(*texts: str | None) -> list[ScoredToken]:
    return [ScoredToken(t, i, None if i == 0 else -float(i)) for i, t in enumerate(texts)]


def test_bos_in_front_does_not_move_the_boundary() -> None:
    assert find_response(_tokens("<s>", "ab", "cd"), "ab", "abcd") == Span(2, 3, "offsets")
    assert find_response(_tokens("", "ab", "cd"), "ab", "abcd") == Span(2, 3, "offsets")
    assert find_response(_tokens(None, "ab", "cd"), "ab", "abcd") == Span(2, 3, "offsets")
    assert find_response(_tokens("ab", "cd"), "ab", "abcd") == Span(1, 2, "offsets")


def test_a_token_across_the_boundary_is_named() -> None:
    assert find_response(_tokens("a", "bc", "d"), "ab", "abcd") == Span(1, 3, "inside_token")


def test_broken_token_texts_fall_back_to_ids_which_must_be_a_prefix() -> None:
    tokens = _tokens("ab", "\ufffd", "\ufffd", "x")
    with pytest.raises(BadOutputError) as caught:
        find_response(tokens, "ab", "abéx")
    assert caught.value.reason == "boundary_unknown"
    span = find_response(tokens, "ab", "abéx", prompt_ids=[0], full_ids=[0, 1, 2, 3])
    assert span == Span(1, 4, "prefix")
    merged = find_response(tokens, "ab", "abéx", prompt_ids=[0, 9], full_ids=[0, 1, 2, 3])
    assert merged == Span(1, 4, "inside_token")
    with pytest.raises(BadOutputError, match="not the tokens of the text"):
        find_response(tokens, "ab", "abéx", prompt_ids=[0], full_ids=[0, 7, 2, 3])


def test_an_empty_response_and_a_response_without_context_have_no_score() -> None:
    with pytest.raises(BadOutputError, match="empty"):
        find_response(_tokens("ab"), "ab", "ab")
    with pytest.raises(BadOutputError) as caught:
        sum_span(_tokens("ab", "c"), Span(0, 2, "offsets"))
    assert caught.value.reason == "no_context"


def test_rounding_above_zero_is_taken_as_zero_and_more_is_refused() -> None:
    tokens = [ScoredToken("a", None, None), ScoredToken("b", None, 1e-6)]
    assert sum_span(tokens, Span(1, 2, "offsets")) == 0.0
    with pytest.raises(BadOutputError):
        sum_span([tokens[0], ScoredToken("b", None, 0.01)], Span(1, 2, "offsets"))


def test_vllms_entries_with_several_candidates_need_ids() -> None:
    two = {"5": {"logprob": -1.0, "decoded_token": "x"}, "6": {"logprob": -2.0}}
    body = {"choices": [{"prompt_logprobs": [None, two]}]}
    with pytest.raises(BadOutputError, match="tell them apart"):
        read_scored("prompt_logprobs", body, "ax")
    body["choices"][0]["prompt_token_ids"] = [1, 6]  # type: ignore[assignment]
    assert read_scored("prompt_logprobs", body, "ax")[1].logprob == -2.0


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": [{"logprobs": None}]}])
@pytest.mark.parametrize("form", ["echo0", "echo1", "prompt_logprobs", "sglang", "tgi"])
def test_a_body_without_log_probs_is_refused_in_every_form(
    form: str, body: dict[str, object]
) -> None:
    with pytest.raises(BadOutputError) as caught:
        read_scored(form, body, "ab")
    assert caught.value.reason == "missing_logprobs"
