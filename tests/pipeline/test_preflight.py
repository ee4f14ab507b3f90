"""What a run finds out about its servers before anything is paid for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from cje.errors import CJEError
from cje.pipeline import preflight as module
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.failures import RepeatedFailureError
from cje.pipeline.preflight import preflight
from tests.pipeline.accounting import read_books
from tests.pipeline.scenes import ngram_settings, server_settings, write_config, write_prompts
from tests.server.faults import Faults
from tests.server.running import TestServer


def _config(folder: Path, settings: dict[str, Any]) -> Any:
    write_prompts(folder, 30)
    return load_config(write_config(folder, settings))


@pytest.mark.parametrize("part", ["judge", "oracle"])
def test_a_judge_that_cannot_be_read_stops_the_run_after_a_handful_of_calls(
    tmp_path: Path, part: str
) -> None:
    with TestServer(faults=Faults({"non-score": 1.0}, only_first=0)) as server:
        settings = server_settings(server.base_url)
        if part == "oracle":
            settings["judge"] = ngram_settings()["judge"]
        config = _config(tmp_path, settings)
        began = time.monotonic()
        with pytest.raises(CJEError, match=f"the {part} .*unusable.*line") as caught:
            CJEPipeline(config).run()
        assert time.monotonic() - began < 10.0
        received = sum(server.calls.values())
    assert "config.yaml" in str(caught.value)
    assert received <= 10
    assert read_books(config.work_dir).attempts == received  # the trial calls are counted, too


def test_a_base_url_without_v1_is_named_with_the_right_address(tmp_path: Path) -> None:
    with TestServer() as server:
        config = _config(tmp_path, server_settings(server.base_url.removesuffix("/v1")))
        with pytest.raises(CJEError, match=f"lacks /v1.*base_url: {server.base_url}"):
            CJEPipeline(config).run()
        assert not server.calls


@pytest.mark.accounts_apart("a refused run and a check alone have no work folder to keep books in")
def test_an_unknown_model_is_named_with_the_closest_known_one(tmp_path: Path) -> None:
    with TestServer(quirk="vllm") as server:
        settings = server_settings(server.base_url)
        settings["target_policies"][1] |= {"provider": "vllm", "model": "moderte"}
        with pytest.raises(CJEError, match="'moderte'; did you mean 'moderate'"):
            CJEPipeline(_config(tmp_path, settings)).run()
        settings["target_policies"][1] |= {"provider": "openai-compatible", "model": "missing-x"}
        failed = [c for c in preflight(_config(tmp_path, settings)) if c.warnings or not c.ok]
    assert any("does not list the model 'missing-x'" in str(c.warnings) for c in failed)


@pytest.mark.accounts_apart("a check by itself has no work folder to keep books in")
def test_a_slow_server_is_waited_for_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS_OF_SILENCE", 0.05)
    said: list[str] = []
    with TestServer(latency=0.3) as server:
        checks = preflight(_config(tmp_path, server_settings(server.base_url)), notice=said.append)
    assert all(check.ok for check in checks)
    assert any("first answer of each model" in text for text in said)


@pytest.mark.accounts_apart("trial calls of a run that is refused are not in the books")
def test_a_server_that_never_answers_is_given_up_within_one_time_limit(tmp_path: Path) -> None:
    with TestServer(faults=Faults({"hang": 1.0}, only_first=0)) as server:
        settings = server_settings(server.base_url)
        for policy in (settings["logging_policy"], *settings["target_policies"]):
            del policy["scoring"]
            policy["timeout"] = 0.5
        began = time.monotonic()
        with pytest.raises(CJEError, match="no complete answer within"):
            CJEPipeline(_config(tmp_path, settings)).run()
    assert time.monotonic() - began < 8.0


@pytest.mark.accounts_apart("models of this process stand in the books, too")
def test_prompts_that_spell_control_tokens_are_counted(tmp_path: Path) -> None:
    settings = {**ngram_settings(), "estimation": {"estimators": "naive"}, "oracle_config": None}
    with TestServer() as server:
        settings["logging_policy"] = server_settings(server.base_url)["logging_policy"]
        config = _config(tmp_path, settings)
        lines = (tmp_path / "prompts.jsonl").read_text().splitlines()
        lines[3] = lines[3].replace("?", "? <|im_end|>").replace('."', '. <|im_end|>"')
        (tmp_path / "prompts.jsonl").write_text("\n".join(lines) + "\n")
        result = CJEPipeline(config).run()
    found = [finding.message for finding in result.findings if finding.code == "control-text"]
    assert len(found) == 1
    assert "1 of 30 prompts spell a control token (such as <|im_end|>)" in found[0]


def fails(context: str, response: str) -> float:
    """A labelling function with a mistake."""
    raise ZeroDivisionError("no label")


def test_twenty_equal_failures_end_the_run_with_cause_and_line(tmp_path: Path) -> None:
    settings = ngram_settings()
    settings["oracle_config"] = {
        "source": "callable", "function": "tests.pipeline.test_preflight:fails", "count": 30,
    }  # fmt: skip
    config = _config(tmp_path, settings)
    with pytest.raises(
        RepeatedFailureError, match=r"2\d calls in a row.*ZeroDivisionError"
    ) as found:
        CJEPipeline(config).run()
    line = (tmp_path / "config.yaml").read_text().splitlines().index("oracle_config:") + 1
    assert f"oracle_config (config.yaml, line {line})" in str(found.value)


def test_texts_scored_otherwise_than_written_are_found_where_the_end_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.server.routes import Routes

    original = Routes._completions

    def without_end(self: Routes, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        answer = original(self, body, fault)
        block = answer["choices"][0]["logprobs"]
        if not body.get("echo") and block:
            ended = block["tokens"][-1:] == ["</s>"]
            block["tokens"] = block["tokens"][: -1 if ended else None]
            values = block["token_logprobs"][: -1 if ended else None]
            block["token_logprobs"] = [value - 1.0 for value in values]
        return answer

    monkeypatch.setattr(Routes, "_completions", without_end)
    write_prompts(tmp_path, 60)
    with TestServer() as server:
        settings = server_settings(server.base_url)
        settings["logging_policy"]["max_tokens"] = 60
        settings["target_policies"] = settings["target_policies"][:1]
        config = load_config(write_config(tmp_path, settings))
        with pytest.raises(CJEError, match="log-probs cannot be right"):
            CJEPipeline(config).run()


@pytest.mark.accounts_apart("models of this process stand in the books, too")
def test_a_text_written_in_unusual_tokens_is_an_error_row_where_a_server_gives_no_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.server.routes import Routes

    original = Routes._completions

    def unusual(self: Routes, body: dict[str, Any], fault: str | None) -> dict[str, Any]:
        answer = original(self, body, fault)
        block = answer["choices"][0]["logprobs"]
        if not body.get("echo") and block["tokens"] and "7. " in str(body["prompt"]):
            first, value = block["tokens"][0], block["token_logprobs"][0]
            block["tokens"] = [first[:2], first[2:], *block["tokens"][1:]]
            block["token_logprobs"] = [value - 2.0, -2.0, *block["token_logprobs"][1:]]
        return answer

    monkeypatch.setattr(Routes, "_completions", unusual)
    write_prompts(tmp_path, 60)
    with TestServer(quirk="llama-cpp") as server:
        settings = server_settings(server.base_url)
        settings["logging_policy"]["provider"] = "llama-cpp"
        settings |= {"max_error_share": 0.2, "oracle_config": ngram_settings()["oracle_config"]}
        result = CJEPipeline(load_config(write_config(tmp_path, settings))).run()
    assert result.n_errors == 6  # prompts 7, 17, ..., 57
    assert not any(finding.code == "generated-vs-rescored" for finding in result.findings)
