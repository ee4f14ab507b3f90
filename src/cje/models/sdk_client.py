"""What the two SDK clients share: one POST, one clock, plain JSON out, typed errors."""

from __future__ import annotations

import asyncio
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from cje.errors import require_extra
from cje.models.call_errors import (
    BadOutputError,
    ModelCallError,
    RetryableError,
    error_from_status,
)
from cje.models.endpoint import JSON, Endpoint

__all__ = ["SDKClient"]


class SDKClient(ABC):
    """One attempt of one call; the body is read as plain JSON and checked by us.

    The SDK does the transport (keys, addresses, connection pool) with `max_retries=0`. Its typed
    models are not used: they accept a body with fields missing, and they know neither vLLM's nor
    SGLang's fields.
    """

    module: str
    extra: str

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._sdk: Any = require_extra(self.module, self.extra, f"calling {endpoint.label}")
        self._response_type = _http_response_type(self._sdk)
        self._base_error: type[Exception] = self._sdk.APIError
        # A connection pool belongs to one event loop: keep one SDK client a loop.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    @abstractmethod
    def _build(self, options: dict[str, Any]) -> Any:
        """The SDK's client for this endpoint."""

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            key, timeout = self.endpoint.read_key(), self.endpoint.timeout
            client = self._build({"api_key": key, "timeout": timeout, "max_retries": 0})
            self._clients[loop] = client
        return client

    async def post(self, path: str, body: Mapping[str, JSON]) -> dict[str, JSON]:
        """POST to a path below the base URL; a path that starts with ``//`` is below its root.

        vLLM's ``/tokenize`` and SGLang's ``/generate`` live beside ``/v1``, not in it.
        """
        client = self._client()
        where = f"{self.endpoint.label} {path.lstrip('/')}"
        url = path
        if path.startswith("//"):
            url = str(client.base_url).rstrip("/").removesuffix("/v1") + path[1:]
        full = {**body, **(self.endpoint.extra_body or {})}
        try:
            # One clock for the whole call: the SDK's own timeout restarts with every byte.
            async with asyncio.timeout(self.endpoint.timeout):
                response = await client.post(url, cast_to=self._response_type, body=full)
        except TimeoutError as error:
            raise self._timed_out(where) from error
        except UnicodeEncodeError as error:
            raise BadOutputError(
                "the text holds a lone surrogate and cannot be sent", reason="not_unicode",
                where=where,
            ) from error  # fmt: skip
        except self._base_error as error:
            # Not "from error": the SDK's text may quote the key, and a traceback prints causes.
            raise self._typed(error, where) from None
        return self._read_json(response, where)

    def _typed(self, error: Any, where: str) -> ModelCallError:
        if isinstance(error, self._sdk.APITimeoutError):
            return self._timed_out(where)
        if isinstance(error, self._sdk.APIStatusError):
            text = self._without_key(error.response.text)
            return error_from_status(error.status_code, error.response.headers, text, where=where)
        # The cause's type says enough; its text may quote the request.
        cause = type(error.__cause__ or error).__name__
        return RetryableError(
            f"the connection failed ({cause})", reason="connection", where=where,
            hint="check that the server runs and that base_url is right",
        )  # fmt: skip

    def _without_key(self, text: str) -> str:
        """Some servers quote the key they did not like."""
        if self.endpoint.key_variable() is None:
            return text
        return text.replace(self.endpoint.read_key(), "[key]")

    def _timed_out(self, where: str) -> RetryableError:
        return RetryableError(
            f"no complete answer within {self.endpoint.timeout:g} s", reason="timeout",
            where=where, hint="raise timeout, or lower max_tokens",
        )  # fmt: skip

    def _read_json(self, response: Any, where: str) -> dict[str, JSON]:
        """The body as a JSON object; anything else is a broken body, worth another attempt."""
        kind = response.headers.get("content-type", "")
        if "json" not in kind.lower():
            raise RetryableError(
                f"the answer is not JSON but {kind or 'of no stated type'}", reason="content_type",
                where=where, hint="check that base_url points at the API and not at a web page",
            )  # fmt: skip
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise RetryableError(
                f"the answer is broken JSON ({len(response.content)} bytes)", reason="broken_json",
                where=where,
            ) from error  # fmt: skip
        if not isinstance(body, dict):
            raise RetryableError(
                "the answer is not a JSON object",
                reason="broken_body",
                where=where,
                value=type(body).__name__,
            )
        failure = body if body.get("object") == "error" else body.get("error")
        if isinstance(failure, dict):
            # Some servers report a failure with status 200.
            code = failure.get("code")
            status = code if isinstance(code, int) else 500
            text = self._without_key(str(failure))
            raise error_from_status(status, response.headers, text, where=where)
        return body

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


def _http_response_type(sdk: Any) -> Any:
    """The response class of the HTTP library this SDK version uses (it has changed once)."""
    for base in sdk.DefaultAsyncHttpxClient.__mro__:
        package = base.__module__.partition(".")[0]
        if package.startswith("httpx"):
            return importlib.import_module(package).Response
    raise AssertionError("the SDK's client is not built on httpx")
