"""A small HTTP/1.1 server on asyncio: keep-alive, fast, and able to misbehave on purpose."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import zlib
from collections import Counter
from functools import cache
from hashlib import sha256
from typing import Any

from tests.server.faults import IN_ANSWER, Faults
from tests.server.odd import make_odd
from tests.server.routes import JUDGES, Refused, Routes

__all__ = ["App", "Connection"]

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 422: "Unprocessable", 429: "Busy",
            500: "Internal Server Error", 503: "Unavailable", 401: "Unauthorized"}  # fmt: skip


@cache
def _bomb() -> bytes:
    """A body of 256 KB that unpacks to 256 MB."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)  # in parts: the bomb is not held unpacked
    parts = [packer.compress(b'{"choices": "')]
    parts += [packer.compress(bytes(2**20)) for _ in range(256)]
    return b"".join([*parts, packer.compress(b'"}'), packer.flush()])


class App:
    """What all connections share: routes, faults, counts."""

    def __init__(
        self, routes: Routes, faults: Faults, latency: float = 0.0, key: str | None = None
    ):
        self.routes, self.faults, self.latency, self.required_key = routes, faults, latency, key
        self.calls: Counter[str] = Counter()  # requests received, by key
        self.answered: Counter[str] = Counter()  # requests answered well, by key
        self.struck: Counter[str] = Counter()  # faults injected, by name
        self.by_path: Counter[str] = Counter()
        self.billed: Counter[str] = Counter()  # tokens of the answers sent
        self.active = 0
        self.peak = 0

    def report(self) -> dict[str, Any]:
        return {
            "calls": dict(self.calls),
            "answered": dict(self.answered),
            "struck": dict(self.struck),
            "by_path": dict(self.by_path),
            "billed": dict(self.billed),
            "total": sum(self.calls.values()),
            "peak": self.peak,
        }

    def forget(self) -> None:
        for counter in (self.calls, self.answered, self.struck, self.by_path, self.billed):
            counter.clear()
        self.peak = 0


def call_key(path: str, raw: bytes) -> str:
    """The identity of a request: path and body, as sent."""
    return sha256(path.encode() + b"\n" + raw).hexdigest()[:24]


class Connection(asyncio.Protocol):
    """One keep-alive connection; requests on it are answered in order."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.buffer = b""
        self.task: asyncio.Task[None] | None = None
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, gap, rest = self.buffer.partition(b"\r\n\r\n")
        if not gap:
            return
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        body, self.buffer = rest[:length], rest[length:]
        self._begin(method, path, headers, body)

    def _begin(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> None:
        if method == "GET":
            self._get(path)
            return
        app = self.app
        key = call_key(path, raw)
        app.calls[key] += 1
        app.by_path[path] += 1
        token = headers.get("authorization", headers.get("x-api-key", "")).removeprefix("Bearer ")
        if app.required_key is not None and token != app.required_key:
            self._send(401, {"error": {"message": f"wrong key {token}"}})
            return
        try:
            body = json.loads(raw)
        except ValueError:
            self._send(400, {"error": {"message": "the body is not JSON"}})
            return
        fault = app.faults.pick(key, app.calls[key], app.routes.kind(path, body))
        if fault is not None:
            app.struck[fault] += 1
        if fault is None or fault in IN_ANSWER:
            if app.latency:
                self.task = asyncio.ensure_future(self._later(path, body, key, fault))
            else:
                self._answer(path, body, key, fault)
        else:
            self._misbehave(fault, path, body)

    async def _later(self, path: str, body: dict[str, Any], key: str, fault: str | None) -> None:
        self.app.active += 1
        self.app.peak = max(self.app.peak, self.app.active)
        try:
            await asyncio.sleep(self.app.latency)
            self._answer(path, body, key, fault)
        finally:
            self.app.active -= 1

    def _answer(self, path: str, body: dict[str, Any], key: str, fault: str | None) -> None:
        try:
            answer = self.app.routes.answer(path, body, fault)
        except Refused as refused:
            self._send(refused.status, {"error": {"message": refused.message}})
            return
        except (KeyError, TypeError, ValueError) as error:
            self._send(400, {"error": {"message": f"bad request: {error!r}"}})
            return
        if fault is None:
            self.app.answered[key] += 1
        usage = answer.get("usage") or {}
        self.app.billed["prompt_tokens"] += usage.get("prompt_tokens", 0)
        self.app.billed["completion_tokens"] += usage.get("completion_tokens", 0)
        self._send(200, make_odd(answer, fault))

    def _get(self, path: str) -> None:
        if path == "/_calls":
            self._send(200, self.app.report())
        elif path == "/v1/models":
            names = [*self.app.routes.languages, *JUDGES]
            self._send(
                200, {"object": "list", "data": [{"id": n, "object": "model"} for n in names]}
            )
        else:
            self._send(404, {"error": {"message": f"no route {path}"}})

    def _misbehave(self, fault: str, path: str, body: dict[str, Any]) -> None:
        if fault == "429":
            self._send(429, {"error": {"message": "slow down"}})
        elif fault == "429-retry-after":
            wait = {"Retry-After": f"{self.app.faults.retry_after:g}"}
            self._send(429, {"error": {"message": "slow down"}}, wait)
        elif fault in ("500", "503"):
            self._send(int(fault), {"error": {"message": "something broke"}})
        elif fault == "reset":
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif fault == "content-type":
            self._write(200, b"<html>Our gateway is resting.</html>", "text/html")
        elif fault == "truncated":
            data = json.dumps(self.app.routes.answer(path, body, None)).encode()
            self._write(200, data[: len(data) // 2], "application/json")
        elif fault == "drip":
            data = json.dumps(self.app.routes.answer(path, body, None)).encode()
            self.task = asyncio.ensure_future(self._drip(data))
        elif fault == "redirect":
            self._write(307, b"", "text/plain", {"Location": self.app.faults.redirect_to + path})
        elif fault == "wait-for-ever":
            self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": "100000000"})
        elif fault == "gzip-bomb":
            self._write(200, _bomb(), "application/json", {"Content-Encoding": "gzip"})
        elif fault == "endless-body":
            self.task = asyncio.ensure_future(self._pour())
        # "hang": nothing is ever sent.

    async def _pour(self) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
        self.transport.write(head.encode())
        part = b'{"choices": "' + b"x" * 2**18
        for _ in range(4000):  # 1 GB
            if self.transport.is_closing():
                return
            self.transport.write(part)
            # A server of its own process would wait, too: unsent bytes count against this one.
            while self.transport.get_write_buffer_size() > 2**22:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)

    async def _drip(self, data: bytes) -> None:
        head = self._head(200, len(data), "application/json", {})
        self.transport.write(head)
        for at in range(len(data)):
            self.transport.write(data[at : at + 1])
            await asyncio.sleep(0.05)

    def _send(self, status: int, body: dict[str, Any], more: dict[str, str] | None = None) -> None:
        self._write(status, json.dumps(body).encode(), "application/json", more)

    def _write(
        self, status: int, data: bytes, kind: str, more: dict[str, str] | None = None
    ) -> None:
        self.transport.write(self._head(status, len(data), kind, more or {}) + data)

    @staticmethod
    def _head(status: int, length: int, kind: str, more: dict[str, str]) -> bytes:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}", f"Content-Type: {kind}"]
        lines += [f"Content-Length: {length}", *(f"{k}: {v}" for k, v in more.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
