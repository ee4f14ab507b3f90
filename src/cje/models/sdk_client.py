"""The common part of the two SDK clients: one POST, one time limit, plain JSON, typed errors."""

from __future__ import annotations

import asyncio
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from cje.errors import require_extra
from cje.models.bounded import ENCODINGS, bounds_hook
from cje.models.call_errors import (
    BadOutputError,
    FatalError,
    ModelCallError,
    RetryableError,
    error_from_status,
)
from cje.models.endpoint import JSON, Endpoint
from cje.models.metering import Meter, current_meter
from cje.models.secrets import looks_secret

__all__ = ["SDKClient"]


class SDKClient(ABC):
    """Makes one attempt of one call; the body is read as plain JSON and checked here.

    The SDK does the transport (keys, addresses, connection pool) with `max_retries=0`. Its typed
    models are not used: they accept a body with missing fields, and lack the fields of vLLM and
    SGLang.
    """

    module: str
    extra: str
    models_path = "/models"

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._sdk: Any = require_extra(self.module, self.extra, f"calling {endpoint.label}")
        self._http = _http_library(self._sdk)
        self._base_error: type[Exception] = self._sdk.APIError
        # A connection pool belongs to one event loop: keep one SDK client per loop.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    @abstractmethod
    def _build(self, options: dict[str, Any]) -> Any:
        """The SDK's client for this endpoint."""

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            key, timeout = self.endpoint.read_key(), self.endpoint.timeout
            client = self._build(
                {
                    "api_key": key,
                    "timeout": timeout,
                    "max_retries": 0,
                    "http_client": self._transport(),
                }
            )
            self._clients[loop] = client
        return client

    def _transport(self) -> Any:
        """The SDK's HTTP client, with limits on what a server may send."""
        return self._sdk.DefaultAsyncHttpxClient(
            follow_redirects=False,
            headers={"Accept-Encoding": ENCODINGS},
            event_hooks={"response": [bounds_hook(self._http)]},
        )

    async def post(
        self, path: str, body: Mapping[str, JSON], *, billed: bool = True
    ) -> dict[str, JSON]:
        """POST to a path below the base URL; a path that starts with ``//`` is below its root.

        vLLM's ``/tokenize`` and SGLang's ``/generate`` live beside ``/v1``, not in it. What a
        `billed` answer used is counted (`cje.models.metering`) before anything else is read in it.
        """
        meter = current_meter() if billed else Meter()
        client = self._client()
        full = {**body, **(self.endpoint.extra_body or {})}
        return await self._exchange(
            lambda: client.post(self._below(path), cast_to=self._http.Response, body=full),
            f"{self.endpoint.label} {path.lstrip('/')}", meter, self.endpoint.timeout,
        )  # fmt: skip

    async def models(self, *, within: float = 10.0) -> list[str]:
        """The names in the server's own list of models (nothing is billed).

        Raises
        ------
        FatalError
            With status 404 where the server has no such list, or where base_url lacks ``/v1``
            (reason ``missing_v1``).
        """
        path = self.models_path
        try:
            return _names(await self._get(path, within))
        except FatalError as error:
            if error.status != 404 or str(self.endpoint.url).endswith("/v1"):
                raise
            try:
                _names(await self._get(f"/v1{path}", within))
            except ModelCallError:
                raise error from None
        raise FatalError(
            "base_url lacks /v1: the server answers below it", reason="missing_v1",
            hint=f"set base_url: {self.endpoint.url}/v1",
        )  # fmt: skip

    async def _get(self, path: str, within: float) -> dict[str, JSON]:
        client = self._client()
        return await self._exchange(
            lambda: client.get(path, cast_to=self._http.Response),
            f"{self.endpoint.label} {path.lstrip('/')}", Meter(), within,
        )  # fmt: skip

    def _below(self, path: str) -> str:
        """A path below the base URL; with ``//`` in front, below the root of its server."""
        if not path.startswith("//"):
            return path
        return str(self._client().base_url).rstrip("/").removesuffix("/v1") + path[1:]

    async def _exchange(
        self, send: Callable[[], Awaitable[Any]], where: str, meter: Meter, within: float
    ) -> dict[str, JSON]:
        """One request and the JSON of its answer, within one time limit."""
        meter.requests += 1
        try:
            # One time limit for the whole call: the SDK's timeout restarts with every byte.
            async with asyncio.timeout(within):
                response = await send()
        except TimeoutError as error:
            meter.lost()
            raise _timed_out(where, within) from error
        except UnicodeEncodeError as error:
            meter.requests -= 1
            raise BadOutputError(
                "the text holds a lone surrogate and cannot be sent", reason="not_unicode",
                where=where,
            ) from error  # fmt: skip
        except self._base_error as error:
            typed = self._typed(error, where)
            if _never_sent(error):
                meter.requests -= 1
            elif typed.status is None:
                meter.lost()
            # Not "from error": the SDK's text may quote the key, and a traceback prints causes.
            raise typed from None
        return self._read_json(response, where, meter)

    def _typed(self, error: Any, where: str) -> ModelCallError:
        if isinstance(error, self._sdk.APITimeoutError):
            return _timed_out(where, self.endpoint.timeout)
        if isinstance(error, self._sdk.APIStatusError):
            text = self._without_key(error.response.text)
            return error_from_status(error.status_code, error.response.headers, text, where=where)
        if isinstance(error.__cause__, ModelCallError):  # raised by `bounds_hook`
            error.__cause__.args = (f"{error.__cause__} [{where}]",)
            return error.__cause__
        # Only the type of the cause is shown, because its text may quote the request.
        cause = type(error.__cause__ or error).__name__
        return RetryableError(
            f"the connection failed ({cause})", reason="connection", where=where,
            hint="check that the server runs and that base_url is right",
        )  # fmt: skip

    def _without_key(self, text: str) -> str:
        """Remove keys from a message: some servers quote a refused key, or an address with one."""
        url = self.endpoint.url or ""
        for part in urlsplit(url).path.split("/"):
            if looks_secret(part):
                text = text.replace(part, "[key]")
        if self.endpoint.key_variable() is None:
            return text
        return text.replace(self.endpoint.read_key(), "[key]")

    def _read_json(self, response: Any, where: str, meter: Meter) -> dict[str, JSON]:
        """The body as a JSON object; anything else is a broken body, which is retryable."""
        try:
            body = self._json_object(response, where)
        except RetryableError:
            meter.lost()
            raise
        failure = body if body.get("object") == "error" else body.get("error")
        if isinstance(failure, dict):
            # Some servers report a failure with status 200.
            code = failure.get("code")
            status = code if isinstance(code, int) else 500
            text = self._without_key(str(failure))
            raise error_from_status(status, response.headers, text, where=where)
        meter.answered(body)
        return body

    @staticmethod
    def _json_object(response: Any, where: str) -> dict[str, JSON]:
        kind = response.headers.get("content-type", "")
        if "json" not in kind.lower():
            raise RetryableError(
                f"the answer is not JSON (its type: {kind or 'not stated'})", reason="content_type",
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
        return body

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


def _http_library(sdk: Any) -> ModuleType:
    """The HTTP library of this SDK version (it differs between versions)."""
    for base in sdk.DefaultAsyncHttpxClient.__mro__:
        package = base.__module__.partition(".")[0]
        if package.startswith("httpx"):
            return importlib.import_module(package)
    raise AssertionError("the SDK's client is not built on httpx")


def _timed_out(where: str, within: float) -> RetryableError:
    return RetryableError(
        f"no complete answer within {within:g} s", reason="timeout",
        where=where, hint="raise timeout, or lower max_tokens",
    )  # fmt: skip


def _names(body: Mapping[str, JSON]) -> list[str]:
    """Model names of a list in OpenAI's form (Anthropic's is the same)."""
    data = body.get("data")
    if not isinstance(data, list):
        raise FatalError("the server's list of models has another form", reason="no_list")
    return [str(item["id"]) for item in data if isinstance(item, Mapping) and "id" in item]


def _never_sent(error: BaseException) -> bool:
    """Whether no connection was made, so that the request cannot have reached a model."""
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout", "PoolTimeout")
