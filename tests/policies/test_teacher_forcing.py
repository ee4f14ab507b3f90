"""Scoring a given response through every server's form, against the exact model."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from cje.errors import CJEError
from cje.models import BadOutputError, FatalError, run_sync
from cje.policies import (
    APIPolicyRunner,
    Generation,
    LogProb,
    MultiTargetSampler,
    NgramModel,
    NgramPolicy,
    make_multi_sampler,
)
from tests.server import Faults, TestServer
from tests.server.language import HELPFUL
from tests.server.quirks import QUIRKS

ASK, ANSWER = "How do I change my password?", " I am happy to help."
PROVIDER = {
    "openai": "openai-compatible", "vllm": "vllm", "sglang": "sglang", "llama-cpp": "llama-cpp",
    "llama-cpp-shifted": "llama-cpp", "tgi": "tgi", "tgi-prefill": "tgi", "ollama": "ollama",
    "chat-only": "openai-compatible",
}  # fmt: skip


def _runner(server: TestServer, quirk: str = "openai", **more: object) -> APIPolicyRunner:
    config = {"name": "p", "provider": PROVIDER[quirk], "model": "base", "eos": "</s>"}
    return APIPolicyRunner({**config, "base_url": server.base_url, "timeout": 5.0, **more})


@pytest.mark.parametrize(
    ("quirk", "provider", "form"),
    [
        ("openai", "openai-compatible", "echo1"),
        ("vllm", "vllm", "prompt_logprobs"),
        ("vllm", "openai-compatible", "echo1"),
        ("sglang", "sglang", "sglang"),
        ("sglang", "openai-compatible", "echo1"),
        ("llama-cpp", "llama-cpp", "echo1"),
        ("tgi-prefill", "tgi", "tgi"),
    ],
)
def test_the_probe_finds_a_form_and_the_score_is_exact(
    quirk: str, provider: str, form: str
) -> None:
    with TestServer(quirk=quirk) as server:
        runner = _runner(server, quirk, provider=provider)
        assert run_sync(runner.aprobe()).form == form
        whole = run_sync(runner.alog_prob(ASK, ANSWER))
        cut = run_sync(runner.alog_prob(ASK, ANSWER, complete=False))
        run_sync(runner.aclose())
    exact = NgramPolicy(max_tokens=50).log_prob(ASK, ANSWER)
    assert whole.value == pytest.approx(exact, abs=1e-12)
    assert (whole.n_tokens, whole.boundary) == (7, "offsets")
    assert cut.n_tokens == 6
    assert cut.value > whole.value  # EOS is one factor less


@pytest.mark.parametrize("quirk", ["llama-cpp-shifted", "tgi", "ollama", "chat-only"])
def test_a_server_that_cannot_score_is_reported_and_never_given_a_default(quirk: str) -> None:
    with TestServer(quirk=quirk) as server:
        runner = _runner(server, quirk)
        capability = run_sync(runner.aprobe())
        with pytest.raises(FatalError, match="cannot score") as caught:
            runner.log_prob(ASK, ANSWER)
        run_sync(runner.aclose())
    assert not capability.can_score
    assert len(capability.evidence) == 6  # every form was tried and is explained
    assert "fresh draws" in str(caught.value)


def test_a_shift_by_one_is_found_even_when_the_first_entry_looks_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.server.routes import Routes

    original = Routes._block

    def shifted(self: Routes, *args: object) -> dict[str, list[object]]:
        block = original(self, *args)  # type: ignore[arg-type]
        values = block["token_logprobs"]
        if len(values) > 2 and values[0] is None:
            block["token_logprobs"] = [None, *values[2:], -0.5]
        return block

    monkeypatch.setattr(Routes, "_block", shifted)
    with TestServer() as server:
        runner = _runner(server)
        capability = run_sync(runner.aprobe())
        run_sync(runner.aclose())
    assert capability.form is None
    assert "differs by" in capability.evidence_text()


@pytest.mark.parametrize("shift", [False, True])
def test_a_shift_is_found_where_token_texts_do_not_give_the_text_back(
    shift: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.server.routes import Routes

    original = Routes._vllm_prompt

    def broken(self: Routes, *args: object) -> list[object]:
        entries = original(self, *args)  # type: ignore[arg-type]
        values = [next(iter(entry.values()))["logprob"] for entry in entries[1:]]
        values = [*values[1:], -0.5] if shift else values
        return [None] + [
            {token: {"logprob": value, "decoded_token": "\ufffd"}}
            for entry, value in zip(entries[1:], values, strict=True)
            for token in entry
        ]

    monkeypatch.setattr(Routes, "_vllm_prompt", broken)
    monkeypatch.setattr("cje.policies.probe._FORMS", ("prompt_logprobs",))
    with TestServer(quirk="vllm") as server:
        runner = _runner(server, "vllm")
        capability = run_sync(runner.aprobe())
        scored = None if shift else run_sync(runner.alog_prob(ASK, ANSWER))
        run_sync(runner.aclose())
    assert capability.can_score is not shift
    if scored is None:
        assert "differs by" in capability.evidence_text()
    else:
        assert scored.boundary == "prefix"
        exact = NgramPolicy(max_tokens=50).log_prob(ASK, ANSWER)
        assert scored.value == pytest.approx(exact, abs=1e-12)


def test_asking_llama_cpp_for_no_tokens_is_recognised_as_a_broken_form() -> None:
    with TestServer(quirk="llama-cpp") as server:
        runner = _runner(server, "llama-cpp", scoring="echo0")
        with pytest.raises(BadOutputError) as caught:
            runner.log_prob(ASK, " I do")
        run_sync(runner.aclose())
    assert caught.value.reason == "generated_more"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("nan", "non_finite_logprob"),
        ("missing", "missing_logprobs"),
        ("positive", "positive_logprob"),
        ("sentinel", "sentinel_logprob"),
        ("short", "length_mismatch"),
    ],
)
@pytest.mark.parametrize("quirk", ["openai", "vllm", "sglang"])
def test_a_wrong_log_prob_fails_closed_with_its_reason(quirk: str, fault: str, reason: str) -> None:
    form = {"openai": "echo0", "vllm": "prompt_logprobs", "sglang": "sglang"}[quirk]
    with TestServer(quirk=quirk, faults=Faults({fault: 1.0})) as server:
        runner = _runner(server, quirk, scoring=form)
        with pytest.raises(BadOutputError) as caught:
            runner.log_prob(ASK, ANSWER)
        run_sync(runner.aclose())
    if fault == "short" and quirk != "openai":
        reason = "boundary_unknown"  # the texts no longer give the text back
    assert caught.value.reason in (reason, "length_mismatch")


def test_vllms_word_for_minus_infinity_is_an_error_not_a_number() -> None:
    with TestServer(quirk="vllm") as server:
        runner = _runner(server, "vllm")
        with pytest.raises(BadOutputError) as caught:
            runner.log_prob(ASK, " Zanzibar.")  # unknown to the model: -inf, written as -9999
        run_sync(runner.aclose())
    assert caught.value.reason == "sentinel_logprob"


def test_a_token_across_the_boundary_is_counted_or_refused() -> None:
    # The prompt ends with a space, so " I" is one token on both sides of the boundary.
    with TestServer() as server:
        joined = _runner(server, template="{{ context }} ")
        scored = run_sync(joined.alog_prob(ASK, "I do not know."))
        strict = _runner(server, template="{{ context }} ", boundary="refuse")
        with pytest.raises(BadOutputError) as caught:
            run_sync(strict.alog_prob(ASK, "I do not know."))
        for runner in (joined, strict):
            run_sync(runner.aclose())
    assert scored.boundary == "inside_token"
    assert scored.value == pytest.approx(
        NgramPolicy(max_tokens=50).log_prob(ASK, " I do not know."), abs=1e-12
    )
    assert caught.value.reason == "boundary_inside_token"


@pytest.mark.parametrize(
    ("context", "response", "reason"),
    [("", ANSWER, "empty_prompt"), ("\ud800", ANSWER, "not_unicode"), (ASK, "", "empty_response")],
)
def test_texts_that_cannot_be_scored_are_bad_rows_not_crashes(
    context: str, response: str, reason: str
) -> None:
    with TestServer() as server:
        runner = _runner(server, eos=None)
        with pytest.raises(BadOutputError) as caught:
            runner.log_prob(context, response)
        run_sync(runner.aclose())
    assert caught.value.reason == reason


def test_logged_token_ids_are_scored_as_they_are() -> None:
    with TestServer(quirk="vllm") as server:
        runner = _runner(server, "vllm", max_tokens=12)
        made = run_sync(runner.agenerate(ASK, seed=4))
        assert made.token_ids
        by_ids = run_sync(
            runner.alog_prob(ASK, made.text, token_ids=made.token_ids, complete=made.complete)
        )
        by_text = run_sync(runner.alog_prob(ASK, made.text, complete=made.complete))
        run_sync(runner.aclose())
    assert by_ids.boundary == "token_ids"
    assert by_ids.value == by_text.value


def test_a_server_that_takes_text_only_scores_the_text_of_logged_ids() -> None:
    with TestServer(quirk=replace(QUIRKS["tgi-prefill"], tokenize=True)) as server:
        runner = _runner(server, "tgi-prefill")
        scored = run_sync(runner.alog_prob(ASK, ANSWER, token_ids=[1, 2, 3]))
        run_sync(runner.aclose())
    assert scored.boundary == "offsets"
    assert scored.value == pytest.approx(NgramPolicy(max_tokens=50).log_prob(ASK, ANSWER))


def test_generated_and_rescored_log_probs_agree_over_http() -> None:
    with TestServer(quirk="sglang") as server:
        runner = _runner(server, "sglang", max_tokens=12)
        made = [run_sync(runner.agenerate(ASK, seed=s)) for s in range(10)]
        again = [run_sync(runner.alog_prob(ASK, m.text, complete=m.logprob_has_eos)) for m in made]
        run_sync(runner.aclose())
    np.testing.assert_allclose([m.logprob for m in made], [a.value for a in again], atol=1e-9)


def test_the_sampling_temperature_is_scored_where_the_server_can_and_warned_where_not() -> None:
    exact = NgramPolicy(max_tokens=50, temperature=0.7)
    with TestServer(quirk="sglang") as server:
        runner = _runner(server, "sglang", temperature=0.7)
        capability = run_sync(runner.aprobe())
        value = runner.log_prob(ASK, ANSWER)
        run_sync(runner.aclose())
    assert capability.scores_sampling_distribution is True
    assert value == pytest.approx(exact.log_prob(ASK, ANSWER), abs=1e-12)
    with TestServer(quirk="vllm") as server:
        runner = _runner(server, "vllm", temperature=0.7)
        capability = run_sync(runner.aprobe())
        run_sync(runner.aclose())
    assert capability.scores_sampling_distribution is False
    assert "temperature" in capability.warnings[0]


def test_a_server_that_applies_temperature_but_not_top_p_is_warned_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.server.routes import Routes

    original = Routes._score
    monkeypatch.setattr(
        Routes, "_score", lambda self, a, body, ids: original(self, a, {**body, "top_p": 1.0}, ids)
    )
    with TestServer(quirk=replace(QUIRKS["openai"], scores_at_temperature=True)) as server:
        for top_p, follows in ((1.0, True), (0.8, False)):
            runner = _runner(server, temperature=0.7, top_p=top_p)
            capability = run_sync(runner.aprobe())
            run_sync(runner.aclose())
            assert capability.scores_sampling_distribution is follows
    assert "top_p 0.8" in capability.warnings[0]
    assert "temperature" not in capability.warnings[0]


def test_a_policy_whose_sampling_distribution_cannot_be_scored_is_refused() -> None:
    with TestServer(quirk="vllm") as server:
        for more in (
            {"temperature": 0.7},
            {"top_p": 0.9},
            {"temperature": 0.7, "scoring": "echo1"},
        ):
            runner = _runner(server, "vllm", **more)
            with pytest.raises(FatalError, match="not those of this policy") as caught:
                runner.log_prob(ASK, ANSWER)
            run_sync(runner.aclose())
            assert "direct" in str(caught.value)
            assert caught.value.reason == "cannot_score_sampling"


def _first_token_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's way with a character of several tokens: all but its last token are written as ""."""
    from tests.server.language import Language

    original = Language.tokens

    def split(self: Language, prompt: str | list[int], *, bos: bool) -> tuple[list[str], list[int]]:
        texts, ids = original(self, prompt, bos=bos)
        if isinstance(prompt, str) and " I am" in prompt:
            at = next(i for i, text in enumerate(texts) if text == " I")
            texts = [*texts[:at], "", " I" + texts[at + 1], *texts[at + 2 :]]
        return texts, ids

    monkeypatch.setattr(Language, "tokens", split)


@pytest.mark.parametrize("quirk", ["openai", "vllm"])
def test_a_token_without_text_at_the_cut_belongs_to_the_response(
    quirk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TestServer(quirk=quirk) as server:
        plain = _runner(server, quirk)
        whole = run_sync(plain.alog_prob(ASK, ANSWER))
        _first_token_blank(monkeypatch)
        blank = run_sync(plain.alog_prob(ASK, ANSWER))
        run_sync(plain.aclose())
    assert (blank.value, blank.n_tokens) == (whole.value, whole.n_tokens)


def test_a_form_that_can_be_compared_with_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tests.server.language import Language

    monkeypatch.setattr(Language, "write", lambda *_, **__: ([], [], True))
    for quirk in ("openai", "llama-cpp-shifted"):
        with TestServer(quirk=quirk) as server:
            runner = _runner(server, quirk)
            capability = run_sync(runner.aprobe())
            run_sync(runner.aclose())
        assert capability.form is None
    assert "compare" in capability.evidence_text() or "shifted" in capability.evidence_text()


def test_a_first_sample_that_is_empty_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.server.language import Language

    original, asked = Language.write, []

    def shy(self: Language, ids: list[int], **sampling: object) -> object:
        asked.append(1)
        return ([], [], True) if len(asked) == 1 else original(self, ids, **sampling)  # type: ignore[arg-type]

    monkeypatch.setattr(Language, "write", shy)
    with TestServer() as server:
        runner = _runner(server)
        assert run_sync(runner.aprobe()).form == "echo1"
        run_sync(runner.aclose())


def test_a_server_that_breaks_when_asked_for_no_tokens_cannot_score() -> None:
    with TestServer(quirk=replace(QUIRKS["tgi"], breaks_at_zero=True)) as server:
        runner = _runner(server, "tgi", provider="openai-compatible")
        capability = run_sync(runner.aprobe())
        run_sync(runner.aclose())
    assert capability.form is None


class _Ends:
    """A server whose answers end in a way of our choosing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **choice: object) -> None:
        from tests.server.routes import Routes

        original = Routes._completions

        def completions(routes: Routes, body: dict[str, object], fault: object) -> object:
            answer = original(routes, body, fault)  # type: ignore[arg-type]
            if not body.get("echo") and not body.get("prompt_logprobs"):
                answer["choices"][0] |= choice
            return answer

        monkeypatch.setattr(Routes, "_completions", completions)


def test_a_stop_string_is_part_of_the_event_and_eos_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with TestServer() as server:
        _Ends(monkeypatch, finish_reason="stop", stop_reason=".", text=" I do not know")
        runner = _runner(server, extra_body={"stop": ["."]}, scoring="echo1")
        made = run_sync(runner.agenerate(ASK, seed=1))
        assert (made.ending, made.end_text, made.complete) == ("text", ".", True)
        stopped = run_sync(
            runner.alog_prob(ASK, made.text, ending=made.ending, end_text=made.end_text)
        )
        whole = run_sync(runner.alog_prob(ASK, " I do not know.", complete=False))
        run_sync(runner.aclose())
    assert stopped.value == whole.value


def test_an_end_that_nobody_explains_is_an_error_row(monkeypatch: pytest.MonkeyPatch) -> None:
    with TestServer() as server:
        _Ends(monkeypatch, finish_reason="stop")
        runner = _runner(server, extra_body={"stop": ["."]}, scoring="echo1")
        made = run_sync(runner.agenerate(ASK, seed=1))
        assert made.ending == "unknown"
        with pytest.raises(BadOutputError) as caught:
            run_sync(runner.alog_prob(ASK, made.text, ending=made.ending))
        run_sync(runner.aclose())
    assert caught.value.reason == "unknown_end"


def test_a_second_end_token_is_scored_as_it_was_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    words = NgramModel().encode(" I do not know.")
    with TestServer(quirk="vllm") as server:
        ids = [*words, words[-1]]  # its last word, once more, plays the second end token
        _Ends(monkeypatch, finish_reason="stop", stop_reason=words[-1], token_ids=ids)
        runner = _runner(server, "vllm", scoring="echo1")
        made = run_sync(runner.agenerate(ASK, seed=1))
        assert made.ending == "given"
        scored = run_sync(
            runner.alog_prob(ASK, made.text, token_ids=made.token_ids, ending=made.ending)
        )
        run_sync(runner.aclose())
        assert scored.n_tokens == len(ids)  # and no EOS after it


def test_a_response_that_spells_out_a_control_token_is_scored_by_ids_or_not_at_all() -> None:
    with TestServer(quirk="vllm") as server:
        runner = _runner(server, "vllm")
        ids = NgramModel().encode(" I do not know.")
        text = " I do</s> not know."
        with pytest.raises(BadOutputError) as caught:
            run_sync(runner.alog_prob(ASK, text))
        by_ids = run_sync(runner.alog_prob(ASK, text, token_ids=ids))
        chatml = _runner(server, "vllm", template="chatml", eos="auto", scoring="echo1")
        with pytest.raises(BadOutputError, match="im_start"):
            run_sync(chatml.alog_prob(ASK, "say <|im_start|> aloud"))
        for each in (runner, chatml):
            run_sync(each.aclose())
    assert caught.value.reason == "control_text"
    assert by_ids.boundary == "token_ids"


def test_a_template_of_ones_own_must_say_what_ends_a_turn() -> None:
    with pytest.raises(CJEError, match="needs 'eos'"):
        make_multi_sampler(
            [{"name": "a", "provider": "vllm", "model": "m", "template": "Q: {{ context }}"}]
        )


def test_the_probe_is_not_misled_by_a_server_that_stumbles() -> None:
    faults = Faults({"nan": 0.2, "500": 0.2, "missing": 0.2}, only_first=2)
    for seed in range(5):
        faults.seed = seed
        with TestServer(quirk="sglang", faults=faults) as server:
            runner = _runner(server, "sglang")
            assert run_sync(runner.aprobe()).form == "sglang"
            run_sync(runner.aclose())


def test_many_rows_that_start_together_share_one_probe() -> None:
    with TestServer() as server:
        runner = _runner(server)

        async def rows() -> list[LogProb]:
            return await asyncio.gather(*(runner.alog_prob(ASK, ANSWER) for _ in range(20)))

        assert len({answer.value for answer in run_sync(rows())}) == 1
        run_sync(runner.aclose())
        assert server.app.by_path["/v1/completions"] == 25  # 1 written, 4 probed, 20 rows


def test_a_chat_template_that_differs_from_the_servers_is_warned_about() -> None:
    with TestServer() as server:
        runner = _runner(server, endpoint="chat", template="Question: {{ context }} Answer:")
        capability = run_sync(runner.aprobe())
        run_sync(runner.aclose())
    assert any("template" in warning for warning in capability.warnings)


# the sampler over several policies ------------------------------------------------------------


def test_the_matrix_equals_each_policy_alone_and_rows_go_out_together() -> None:
    contexts = [ASK, "Can you help me?", "What about my refund?"] * 4
    responses = [ANSWER, " I do not know.", " Your refund takes three days."] * 4
    models = {"base": {}, "moderate": HELPFUL}
    with TestServer(latency=0.05) as server:
        sampler = make_multi_sampler(
            [
                {"name": m, "provider": "openai-compatible", "model": m, "eos": "</s>",
                 "base_url": server.base_url, "scoring": "echo0"}
                for m in models
            ]
        )  # fmt: skip
        matrix = sampler.logp_matrix(contexts, responses)
        run_sync(sampler.aclose())
        assert server.app.peak >= 2 * 8  # both policies of many rows at once
    exact = [
        [
            NgramPolicy(NgramModel(boost=boost), max_tokens=50).log_prob(c, r)
            for boost in models.values()
        ]
        for c, r in zip(contexts, responses, strict=True)
    ]
    assert matrix.shape == (12, 2)
    np.testing.assert_allclose(matrix, exact, atol=1e-12)


def test_the_sampler_has_the_founding_documents_names_and_refuses_to_guess() -> None:
    sampler = MultiTargetSampler([NgramPolicy(name="a"), NgramPolicy(name="b", temperature=2.0)])
    assert sampler.K == 2
    many = sampler.logp_many(ASK, ANSWER)
    assert sampler.log_prob([ASK], [ANSWER]).tolist() == [many]
    assert sampler.logp_matrix([], []).shape == (0, 2)
    with pytest.raises(CJEError, match="2 contexts but 1 responses"):
        sampler.log_prob([ASK, ASK], [ANSWER])
    with pytest.raises(CJEError, match="responses must be a list of texts"):
        sampler.log_prob([ASK], ANSWER)
    with pytest.raises(CJEError, match=r"responses must hold texts \[row 1\]"):
        sampler.log_prob([ASK, ASK], [ANSWER, None])  # type: ignore[list-item]
    with pytest.raises(BadOutputError):
        sampler.logp_matrix([ASK], [" Zanzibar."])
    mixed = run_sync(sampler.alogp_many(ASK, " Zanzibar."))
    assert all(isinstance(answer, BadOutputError) for answer in mixed)
    with pytest.raises(CJEError, match="same name"):
        MultiTargetSampler([NgramPolicy(name="a"), NgramPolicy(name="a")])
    with pytest.raises(CJEError, match="at least one"):
        MultiTargetSampler([])


def test_policies_that_disagree_on_eos_cannot_be_compared() -> None:
    configs = [
        {"name": "a", "provider": "vllm", "model": "m", "eos": "</s>"},
        {"name": "b", "provider": "vllm", "model": "m", "eos": None},
    ]
    with pytest.raises(CJEError, match="disagree on eos"):
        make_multi_sampler(configs)


@pytest.mark.parametrize(
    "bad",
    [{"temprature": 1}, {"temperature": -1}, {"provider": "x"}, {"top_p": 0}, {"name": ""}],
)
def test_a_wrong_configuration_is_one_clear_error(bad: dict[str, object]) -> None:
    with pytest.raises(CJEError, match=next(iter(bad))):
        make_multi_sampler([{"name": "a", "provider": "ngram", **bad}])


def test_answers_survive_json_exactly() -> None:
    made = NgramPolicy().generate(ASK, seed=3)
    assert Generation.from_json(made.to_json()) == made
    scored = run_sync(NgramPolicy().alog_prob(ASK, made.text))
    assert LogProb.from_json(scored.to_json()) == scored
    with pytest.raises(BadOutputError):
        LogProb(float("nan"), 3)
    with pytest.raises(BadOutputError):
        LogProb(0.5, 3)


def test_anthropic_generates_but_says_it_cannot_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    with TestServer() as server:
        url = server.base_url.removesuffix("/v1")
        runner = _runner(server, provider="anthropic", base_url=url, max_tokens=8)
        assert run_sync(runner.agenerate(ASK, seed=1)).text
        with pytest.raises(FatalError, match="no log-probs"):
            runner.log_prob(ASK, ANSWER)
        run_sync(runner.aclose())


@pytest.mark.parametrize(
    ("provider", "name"), [("vllm", "top_k"), ("llama-cpp", "min_p"), ("llama-server", "top_k")]
)
def test_what_a_server_cuts_by_itself_is_switched_off_when_writing(
    provider: str, name: str
) -> None:
    with TestServer(quirk="vllm") as server:
        runner = _runner(server, provider=provider)
        sent: list[dict[str, object]] = []
        post = runner.client.post

        async def noted(path: str, body: dict[str, object], **more: object) -> object:
            sent.append(body)
            return await post(path, body, **more)

        runner.client.post = noted
        run_sync(runner.agenerate(ASK, seed=1))
        run_sync(runner.aclose())
    assert sent[0][name] == 0


def test_a_sampling_setting_that_scores_do_not_know_is_refused() -> None:
    with TestServer(quirk="vllm") as server:
        for extra in ({"top_k": 5}, {"repetition_penalty": 1.1}, {"logit_bias": {"5": 1.0}}):
            runner = _runner(server, "vllm", extra_body=extra)
            with pytest.raises(FatalError, match="not those of this policy"):
                runner.log_prob(ASK, ANSWER)
            run_sync(runner.aclose())
        harmless = _runner(server, "vllm", extra_body={"top_k": -1, "priority": 3})
        assert harmless.log_prob(ASK, ANSWER) < 0.0
        run_sync(harmless.aclose())


def test_logged_ids_of_many_responses_cost_one_call_each() -> None:
    with TestServer(quirk="vllm") as server:
        runner = _runner(server, "vllm", scoring="prompt_logprobs")
        texts = [" I am happy to help.", " I do not know.", " No, that is not my problem."]
        for number, text in enumerate(texts * 4):
            context = f"{number}. {ASK}"
            ids = NgramModel().encode(text)
            found = run_sync(runner.alog_prob(context, text, token_ids=ids))
            assert found.boundary == "token_ids"
        run_sync(runner.aclose())
        assert server.app.by_path["/v1/completions"] == 12
        assert server.app.by_path["/tokenize"] == 1  # the end token, once


@pytest.mark.parametrize("quirk", ["openai", "vllm"])
def test_the_end_of_a_response_is_known_apart_from_its_text(quirk: str) -> None:
    with TestServer(quirk=quirk) as server:
        runner = _runner(server, quirk)
        whole = run_sync(runner.alog_prob(ASK, ANSWER))
        cut = run_sync(runner.alog_prob(ASK, ANSWER, complete=False))
        run_sync(runner.aclose())
    assert whole.end is not None
    assert whole.value - whole.end == pytest.approx(cut.value, abs=1e-12)
    assert cut.end is None
    assert LogProb.from_json(whole.to_json()) == whole


def test_a_model_that_the_server_does_not_have_is_named_as_the_cause() -> None:
    with TestServer() as server:
        runner = _runner(server, model="missing-model")
        with pytest.raises(FatalError, match=r"asked to write: .*missing-model does not exist"):
            runner.log_prob(ASK, ANSWER)
        run_sync(runner.aclose())
