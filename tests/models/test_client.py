"""One call, one typed error: what each fault of a server becomes."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback

import pytest

from cje.errors import CJEError
from cje.models import (
    BadOutputError,
    Endpoint,
    FatalError,
    ModelCallError,
    RetryableError,
    gather_bounded,
    make_client,
    run_sync,
    with_retries,
)
from tests.server import Faults, Quirks, TestServer

ASK = [{"role": "user", "content": "Can you help me?"}]


def _chat(base_url: str, *, timeout: float = 0.4, model: str = "base", **more: object) -> object:
    client = make_client(
        Endpoint("openai-compatible", model, base_url=base_url, timeout=timeout, **more)  # type: ignore[arg-type]
    )

    async def call() -> object:
        try:
            return await client.chat(ASK, max_tokens=8, seed=1)
        finally:
            await client.aclose()

    return run_sync(call())


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        ("429", "rate_limit", "http_429"),
        ("429-retry-after", "rate_limit", "http_429"),
        ("500", "transient", "http_500"),
        ("503", "transient", "http_503"),
        ("hang", "transient", "timeout"),
        ("drip", "transient", "timeout"),
        ("reset", "transient", "connection"),
        ("truncated", "transient", "broken_json"),
        ("content-type", "transient", "content_type"),
    ],
)
def test_each_fault_becomes_one_typed_error_with_a_stable_reason(
    fault: str, kind: str, reason: str
) -> None:
    with TestServer(faults=Faults({fault: 1.0}, retry_after=1.5)) as server:
        start = time.monotonic()
        with pytest.raises(RetryableError) as caught:
            _chat(server.base_url)
        assert time.monotonic() - start < 5.0
    assert (caught.value.kind, caught.value.reason) == (kind, reason)
    assert caught.value.retry_after == (1.5 if fault == "429-retry-after" else None)


def test_a_model_that_does_not_exist_is_fatal() -> None:
    with TestServer() as server, pytest.raises(FatalError, match="does not exist"):
        _chat(server.base_url, model="missing-model")


def test_a_refusal_is_distinguished_from_text() -> None:
    with TestServer(faults=Faults({"refusal": 1.0})) as server:
        answer = _chat(server.base_url)
    assert answer.finish_reason == "refusal"  # type: ignore[attr-defined]


def test_a_wrong_key_is_fatal_and_the_key_is_in_no_message_and_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("MY_KEY", secret)
    caplog.set_level(logging.DEBUG)
    with TestServer(key="another") as server:
        with pytest.raises(FatalError) as caught:
            _chat(server.base_url, api_key_env="MY_KEY")
        endpoint = Endpoint("openai", "m", base_url=server.base_url, api_key_env="MY_KEY")
    assert caught.value.status == 401
    assert "environment variable" in str(caught.value)
    printed = "".join(traceback.format_exception(caught.value))
    for text in (printed, repr(endpoint), str(endpoint.identity()), caplog.text):
        assert secret not in text


def test_a_key_quoted_in_an_error_of_status_200_is_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.server.routes import Routes

    monkeypatch.setenv("MY_KEY", "sk-very-secret-0123456789")
    failed = {"error": {"code": 401, "message": "wrong key sk-very-secret-0123456789"}}
    monkeypatch.setattr(Routes, "answer", lambda *_: failed)
    with TestServer() as server, pytest.raises(FatalError) as caught:
        _chat(server.base_url, api_key_env="MY_KEY")
    assert "[key]" in str(caught.value)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_reasoning_models_get_the_new_name_of_the_token_limit() -> None:
    with TestServer(quirk="reasoning") as server:
        client = make_client(Endpoint("openai-compatible", "base", base_url=server.base_url))
        for seed in range(3):
            assert run_sync(client.chat(ASK, max_tokens=8, seed=seed)).text
        run_sync(client.aclose())
        assert sum(server.calls.values()) == 4  # refused once, then known


def test_one_text_that_is_too_long_is_a_bad_row_not_the_end_of_the_run() -> None:
    with TestServer(quirk=Quirks(context_limit=10)) as server, pytest.raises(BadOutputError) as e:
        _chat(server.base_url)
    assert e.value.reason == "context_too_long"


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(CJEError, match="OPENAI_API_KEY is not set"):
        Endpoint("openai", "gpt-4").read_key()


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://a/v1", "http://me:pw@host/v1", "ftp://me:pw@host", "me:pw@host/v1"],
)
def test_base_urls_that_cannot_be_used_or_would_leak_are_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    for look in (
        lambda: Endpoint("openai", "m", base_url=url),
        lambda: Endpoint("openai", "m").url,
    ):
        with pytest.raises(CJEError) as caught:
            look()
        assert ":pw@" not in str(caught.value)


def test_unknown_providers_are_refused_with_the_list() -> None:
    with pytest.raises(CJEError, match="vllm"):
        Endpoint("no-such", "m")


def test_retries_end_well_when_the_server_recovers_and_wait_as_asked() -> None:
    faults = Faults({"429-retry-after": 1.0}, only_first=2, retry_after=0.1)
    with TestServer(faults=faults) as server:
        client = make_client(Endpoint("openai-compatible", "base", base_url=server.base_url))
        start = time.monotonic()
        answer = run_sync(with_retries(lambda: client.chat(ASK, seed=1), base=0.001))
        run_sync(client.aclose())
        assert answer.text
        assert time.monotonic() - start >= 0.2  # twice the server's own wait
        assert list(server.calls.values()) == [3]


def test_fatal_errors_are_not_retried() -> None:
    tried = []

    async def call() -> None:
        tried.append(1)
        raise FatalError("no", reason="http_400")

    with pytest.raises(FatalError):
        run_sync(with_retries(call))
    assert len(tried) == 1


def test_unusable_answers_are_asked_for_again_and_then_raised() -> None:
    tried = []

    async def call() -> None:
        tried.append(1)
        raise BadOutputError("not a score", reason="no_score")

    with pytest.raises(ModelCallError, match="not a score"):
        run_sync(with_retries(call, attempts=3))
    assert len(tried) == 3


def test_bounded_gathering_keeps_order_and_its_bound() -> None:
    active = peak = 0

    async def call(i: int) -> int:
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        await asyncio.sleep(0.001)
        active -= 1
        return i

    results = run_sync(gather_bounded([lambda i=i: call(i) for i in range(50)], 7))  # type: ignore[misc]
    assert results == list(range(50))
    assert peak == 7


def test_one_client_serves_several_event_loops() -> None:
    with TestServer() as server:
        client = make_client(Endpoint("openai-compatible", "base", base_url=server.base_url))
        texts = {asyncio.run(client.chat(ASK, seed=5)).text for _ in range(3)}
        texts.add(run_sync(client.chat(ASK, seed=5)).text)
    assert len(texts) == 1


def test_the_anthropic_protocol_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    with TestServer() as server:
        url = server.base_url.removesuffix("/v1")
        client = make_client(Endpoint("anthropic", "base", base_url=url))
        answer = run_sync(client.chat(ASK, max_tokens=8, seed=1))
    assert answer.finish_reason in ("stop", "length")
    assert answer.usage.prompt_tokens > 0
