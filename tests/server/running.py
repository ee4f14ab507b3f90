"""Start the server inside the test process (a thread) or outside it (a subprocess)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from tests.server.faults import Faults
from tests.server.http import App, Connection
from tests.server.quirks import QUIRKS, Quirks
from tests.server.routes import Routes

__all__ = ["SubprocessServer", "TestServer", "serve"]


class TestServer:
    """The server in a thread of this process, on a free port.

    Examples
    --------
    >>> with TestServer(quirk="vllm") as server:  # doctest: +SKIP
    ...     server.base_url, server.app.calls
    """

    __test__ = False  # not a test case, whatever its name suggests to pytest

    def __init__(
        self,
        *,
        quirk: str | Quirks = "openai",
        faults: Faults | None = None,
        latency: float = 0.0,
        key: str | None = None,
        routes: Routes | None = None,
    ) -> None:
        quirks = QUIRKS[quirk] if isinstance(quirk, str) else quirk
        self.app = App(routes or Routes(quirks), faults or Faults(), latency, key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def calls(self) -> dict[str, int]:
        """Requests received, by key."""
        return dict(self.app.calls)

    def __enter__(self) -> TestServer:
        self._thread.start()
        future = asyncio.run_coroutine_threadsafe(_listen(self.app, 0), self._loop)
        self._server = future.result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _listen(app: App, port: int) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: Connection(app), "127.0.0.1", port, backlog=1024)


async def serve(app: App, port: int) -> None:
    """Serve until killed; the first line printed is the base URL."""
    server = await _listen(app, port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


class SubprocessServer:
    """The server in a process of its own: it outlives a client that is killed."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments
        self.base_url = ""

    def __enter__(self) -> SubprocessServer:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.server", *self.arguments],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert self._process.stdout is not None
        self.base_url = self._process.stdout.readline().strip()
        if not self.base_url:
            raise RuntimeError("the test server did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def report(self) -> dict[str, Any]:
        """Counts of calls so far."""
        url = self.base_url.removesuffix("/v1") + "/_calls"
        with urllib.request.urlopen(url) as answer:
            body: dict[str, Any] = json.load(answer)
        return body
