"""Requests that may reach the labelling page: hosts, origins, sizes, tokens, safe headers."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

__all__ = ["MOST_BYTES", "Guard", "is_loopback", "served_names"]

MOST_BYTES = 64 * 1024  # of a request's body: an answer with a long note
_METHODS = ("GET", "HEAD", "POST")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADERS = [
    (b"content-security-policy",
     b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     b"img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]  # fmt: skip


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def served_names(host: str) -> set[str]:
    """Host names that requests to a page listening on `host` may use."""
    if is_loopback(host):
        return {"127.0.0.1", "localhost", "::1", host}
    names = {host, socket.gethostname(), socket.getfqdn()}
    if host in ("0.0.0.0", "::", ""):  # every address of this machine
        names |= {"127.0.0.1", "localhost", "::1"}
        # If the machine's own name has no address, --allowed-host names it.
        with contextlib.suppress(OSError):
            names |= {str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None)}
    return names - {"0.0.0.0", "::", ""}


class _Refusal(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Guard:
    """ASGI middleware that checks every request before any part of it is parsed.

    Parameters
    ----------
    app : ASGI application
    hosts : set of str
        Host names that requests may use, without port. Any other name means that another site's
        name points to this machine (DNS rebinding).
    rater_token : str or None
        Required on every page where it is not None.
    organiser_token : str
        Required for the organiser's pages.
    """

    def __init__(
        self, app: App, *, hosts: set[str], rater_token: str | None, organiser_token: str
    ) -> None:
        self._app, self._hosts = app, {host.lower() for host in hosts}
        self._rater, self._organiser = rater_token, organiser_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer with a refusal."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # web sockets are not served
        try:
            self._check(scope)
            await self._app(scope, await _limited(scope, receive), _with_headers(send))
        except _Refusal as refusal:
            await _refuse(send, refusal)

    def _check(self, scope: Scope) -> None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        host = _single(headers, b"host").decode("latin-1")
        name, _, _ = (
            host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
        )
        if name.strip("[]").lower() not in self._hosts:
            raise _Refusal(421, "this host name is not served")
        if scope["method"] not in _METHODS:
            raise _Refusal(405, "method not allowed")
        origins = headers.get(b"origin", [])
        if any(o.decode("latin-1") not in (f"http://{host}", f"https://{host}") for o in origins):
            raise _Refusal(403, "requests from other sites are refused")
        if headers.get(b"sec-fetch-site", [b"none"])[0] == b"cross-site" and scope["path"] != "/":
            raise _Refusal(403, "requests from other sites are refused")
        if scope["method"] == "POST":
            if (
                not origins
                and headers.get(b"sec-fetch-site", [b"same-origin"])[0] != b"same-origin"
            ):
                raise _Refusal(403, "requests from other sites are refused")
            kind = headers.get(b"content-type", [b""])[0].split(b";")[0].strip()
            if kind != b"application/json":
                raise _Refusal(415, "send JSON")
        self._check_token(scope, headers)

    def _check_token(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> None:
        path = scope["path"]
        if path.startswith("/assets/") or path in ("/enter", "/favicon.ico"):
            return
        organiser = path.startswith(("/organiser", "/api/organiser"))
        wanted = self._organiser if organiser else self._rater
        if wanted is None:
            return
        cookie: SimpleCookie = SimpleCookie()
        try:
            for line in headers.get(b"cookie", []):
                cookie.load(line.decode("latin-1"))
        except CookieError:
            cookie = SimpleCookie()
        found = cookie.get("cje_organiser" if organiser else "cje_rater")
        given = "" if found is None else found.value
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            raise _Refusal(401, "open the address with the token that cje label printed")


def _single(headers: dict[bytes, list[bytes]], name: bytes) -> bytes:
    found = headers.get(name, [])
    if len(found) != 1:
        raise _Refusal(400, "the request needs exactly one Host header")
    return found[0]


async def _limited(scope: Scope, receive: Receive) -> Receive:
    """Read the whole body within its limit, and pass it on as one message."""
    if scope["method"] != "POST":
        return receive
    lengths = [v for k, v in scope["headers"] if k.lower() == b"content-length"]
    if lengths and (not lengths[0].isdigit() or int(lengths[0]) > MOST_BYTES):
        raise _Refusal(413, "the request is too large")
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return receive
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MOST_BYTES:
            raise _Refusal(413, "the request is too large")
    sent = False

    async def replay() -> MutableMapping[str, Any]:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _with_headers(send: Send) -> Send:
    async def wrapped(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *_HEADERS]}
        await send(message)

    return wrapped


async def _refuse(send: Send, refusal: _Refusal) -> None:
    body = refusal.text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()), *_HEADERS,
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
