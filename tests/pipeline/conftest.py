"""After every pipeline test: what its servers received stands in the books of its work folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.accounting import attempts_booked, requests_received
from tests.server.http import App
from tests.server.running import SubprocessServer, TestServer


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "accounts_apart(reason): the identity cannot hold over the whole test, and why",
    )


@pytest.fixture(autouse=True)
def the_books_hold_every_request(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Requests received by the servers of this test = attempts booked in the stores under it."""
    received: list[int] = []
    forget = App.forget

    def remembering(app: App) -> None:
        received.append(requests_received(app.report()))
        forget(app)

    monkeypatch.setattr(App, "forget", remembering)
    for kind in (TestServer, SubprocessServer):
        stop = kind.__exit__

        def counting(server, *error, stop=stop):  # type: ignore[no-untyped-def]
            found = server.app.report() if isinstance(server, TestServer) else server.report()
            received.append(requests_received(found))
            stop(server, *error)

        monkeypatch.setattr(kind, "__exit__", counting)
    yield
    if request.node.get_closest_marker("accounts_apart") or not received:
        return
    booked = sum(attempts_booked(path) for path in sorted(tmp_path.rglob("store.sqlite")))
    assert sum(received) == booked, (received, booked)
