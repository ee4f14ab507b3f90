"""Real servers' own answers, replayed: what `make servers` recorded of each of them."""

from __future__ import annotations

import pytest

from cje.models import BadOutputError, FatalError, run_sync
from cje.policies import APIPolicyRunner
from tests.server import TestServer
from tests.server.replay import FOLDER, Recorded

SCORES = {
    "vllm": "prompt_logprobs", "llama-cpp-base": "echo1", "llama-cpp-spm": "echo1",
    "llama-server-base": "llama_server", "llama-server-spm": "llama_server",
}  # fmt: skip
REFUSED = ("transformers", "llama-cpp-base-nobos")
# llama-server is told to write plain text; the others read a control token, and are not asked.
SPLITS_CONTROL_TEXT = ("llama-server-base", "llama-server-spm")


def _runner(server: TestServer, kept: Recorded) -> APIPolicyRunner:
    known = kept.kept
    return APIPolicyRunner(
        {
            "name": "p", "provider": known["provider"], "model": "base", "timeout": 5.0,
            "base_url": server.base_url, "template": known["template"], "eos": known["eos"],
        }
    )  # fmt: skip


def test_every_recorded_server_is_replayed() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {*SCORES, *REFUSED}


@pytest.mark.parametrize("name", SCORES)
def test_a_real_servers_scores_are_the_exact_models(name: str) -> None:
    kept = Recorded(name)
    with TestServer(routes=kept) as server:
        runner = _runner(server, kept)
        assert run_sync(runner.aprobe()).form == SCORES[name]
        assert run_sync(runner.aprobe()).warnings == ()
        for case in kept.kept["cases"]:
            control = runner.config.control_text_in(case["response"]) is not None
            if control and name not in SPLITS_CONTROL_TEXT:
                with pytest.raises(BadOutputError) as caught:
                    runner.log_prob(case["question"], case["response"])
                assert caught.value.reason == "control_text"
                continue
            found = runner.log_prob(case["question"], case["response"])
            assert found == pytest.approx(case["logprob"], abs=1e-3), case["kind"]
        run_sync(runner.aclose())


@pytest.mark.parametrize("name", REFUSED)
def test_a_real_server_that_cannot_score_is_refused(name: str) -> None:
    kept = Recorded(name)
    with TestServer(routes=kept) as server:
        runner = _runner(server, kept)
        with pytest.raises(FatalError, match="cannot score"):
            runner.log_prob("How do I change my password?", "I am happy to help.")
        assert run_sync(runner.aprobe()).form is None
        run_sync(runner.aclose())
