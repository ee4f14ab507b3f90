"""What a server may do to us: nothing beyond a bound."""

from __future__ import annotations

import contextlib
import resource
import time

import pytest

from cje.models import BadOutputError, Endpoint, FatalError, RetryableError, make_client, run_sync
from cje.models.bounded import MOST_BYTES
from cje.models.metering import metered, read_usage
from tests.server import Faults, TestServer

ASK = [{"role": "user", "content": "Can you help me?"}]


def _call(server: TestServer) -> object:
    client = make_client(
        Endpoint("openai-compatible", "base", base_url=server.base_url, timeout=30.0)
    )

    async def call() -> object:
        try:
            return await client.chat(ASK, max_tokens=8, seed=1)
        finally:
            await client.aclose()

    return run_sync(call())


@pytest.mark.parametrize("fault", ["endless-body", "gzip-bomb"])
def test_a_body_beyond_the_bound_is_refused_and_not_held(fault: str) -> None:
    with TestServer(faults=Faults({fault: 1.0})) as server:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.monotonic()
        with pytest.raises(BadOutputError, match="larger than 32 MiB") as caught:
            _call(server)
        assert caught.value.reason == "too_large"
        assert time.monotonic() - began < 15.0
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert grown < 12 * MOST_BYTES  # the server's own copies are in this process too


def test_a_redirect_is_refused_and_its_target_is_never_called() -> None:
    with (
        TestServer() as elsewhere,
        TestServer(
            faults=Faults({"redirect": 1.0}, redirect_to=elsewhere.base_url.removesuffix("/v1"))
        ) as server,
    ):
        with pytest.raises(FatalError, match="redirects are not followed") as caught:
            _call(server)
        assert caught.value.reason == "redirect"
        assert not elsewhere.calls
        assert f":{elsewhere.port}" in str(caught.value)


def test_a_server_that_asks_for_years_of_patience_ends_the_run() -> None:
    with (
        TestServer(faults=Faults({"wait-for-ever": 1.0})) as server,
        pytest.raises(FatalError, match=r"wait 1157 days.*again later"),
    ):
        _call(server)
    with TestServer(faults=Faults({"429-retry-after": 1.0}, retry_after=30.0)) as server:
        with pytest.raises(RetryableError) as caught:
            _call(server)
        assert caught.value.retry_after == 30.0


@pytest.mark.parametrize(
    "usage",
    [
        None, {}, [], "7", {"prompt_tokens": -1, "completion_tokens": 3},
        {"prompt_tokens": 1e300}, {"prompt_tokens": 2**40}, {"prompt_tokens": True},
        {"prompt_tokens": float("nan")}, {"prompt_tokens": "7"}, {"prompt_tokens": 1.5},
        {"prompt_tokens": 7, "completion_tokens": -2},
    ],
)  # fmt: skip
def test_counts_that_cannot_be_true_are_not_counts(usage: object) -> None:
    assert read_usage({"usage": usage}) is None


def test_every_answer_is_metered_usable_or_not() -> None:
    with TestServer() as server, metered() as meter:
        _call(server)
        assert (meter.requests, meter.unreported) == (1, 0)
        assert meter.usage.prompt_tokens == server.app.billed["prompt_tokens"]
        assert meter.model == "base"
    for fault, unreported in (("truncated", 1), ("500", 0), ("negative-usage", 1), ("hang", 1)):
        with TestServer(faults=Faults({fault: 1.0})) as server, metered() as meter:
            client = make_client(
                Endpoint("openai-compatible", "base", base_url=server.base_url, timeout=0.5)
            )
            with contextlib.suppress(RetryableError):
                run_sync(client.chat(ASK, max_tokens=8, seed=1))
            assert (meter.requests, meter.unreported) == (1, unreported), fault
    with metered() as meter:  # nobody listens: nothing was sent, nothing was billed
        client = make_client(Endpoint("openai-compatible", "b", base_url="http://127.0.0.1:9/v1"))
        with pytest.raises(RetryableError):
            run_sync(client.chat(ASK))
        assert (meter.requests, meter.unreported) == (0, 0)
