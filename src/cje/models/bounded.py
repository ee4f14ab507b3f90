"""Limits on what a server may send: bytes, decompressed bytes, redirects.

A response hook reads every body before the HTTP client does, so that no body is held or unpacked
beyond `MOST_BYTES`.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from cje.models.call_errors import BadOutputError, FatalError, RetryableError

__all__ = ["ENCODINGS", "MOST_BYTES", "bounds_hook"]

#: The largest body read, packed or unpacked. The log-probs of a prompt of 100,000 tokens with
#: their texts take about 10 MB.
MOST_BYTES = 32 * 2**20
#: Encodings that a client with these bounds can unpack, for the Accept-Encoding header.
ENCODINGS = "gzip, deflate"
_PART = 2**16


def bounds_hook(http: ModuleType) -> Callable[[Any], Awaitable[None]]:
    """A response hook that keeps the bounds, for a client of the HTTP library `http`.

    The hook raises `FatalError` for a redirect: following it would send prompts, and perhaps the
    key, to an address that the configuration does not name.
    """

    class Bounded(_Bounded, http.AsyncByteStream):  # type: ignore[name-defined,misc]
        """The library requires a subclass of its stream."""

    async def keep_bounds(response: Any) -> None:
        if 300 <= response.status_code < 400:
            raise _redirect(response)
        encoding = response.headers.pop("content-encoding", "identity").strip().lower()
        response.stream = Bounded(response.stream, encoding)

    return keep_bounds


def _redirect(response: Any) -> FatalError:
    to = urlsplit(response.headers.get("location", ""))
    target = f"{to.scheme}://{to.netloc}" if to.netloc else "another path of the same server"
    return FatalError(
        f"the server redirects the call (status {response.status_code}) to {target}",
        reason="redirect",
        status=response.status_code,
        hint="redirects are not followed: set base_url to the address that answers",
    )


class _Bounded:
    """The unpacked body of a response; raises beyond `MOST_BYTES`."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream, self._encoding = stream, encoding

    async def __aiter__(self) -> AsyncIterator[bytes]:
        packed = unpacked = 0
        unpack = _unpacker(self._encoding)
        async for part in self._stream:
            packed += len(part)
            if packed > MOST_BYTES:
                raise _too_large()
            for piece in unpack(part):
                unpacked += len(piece)
                if unpacked > MOST_BYTES:
                    raise _too_large()
                yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _unpacker(encoding: str) -> Any:
    if encoding in ("identity", ""):
        return lambda part: (part,)
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise RetryableError(
            f"the answer is packed as {encoding!r}, which was not asked for", reason="encoding"
        )
    inflater = zlib.decompressobj(wbits=47 if encoding != "deflate" else zlib.MAX_WBITS)

    def unpack(part: bytes) -> Any:
        while part:
            try:
                piece = inflater.decompress(part, _PART)
            except zlib.error as error:
                raise RetryableError("the packed answer is broken", reason="encoding") from error
            yield piece
            part = inflater.unconsumed_tail

    return unpack


def _too_large() -> BadOutputError:
    return BadOutputError(
        f"the answer is larger than {MOST_BYTES // 2**20} MiB",
        reason="too_large",
        hint="check that base_url points at a model server, or send shorter texts",
    )
