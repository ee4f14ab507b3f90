"""Token ids from a server's tokeniser, in three dialects, with one request per text."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cje.models import JSON, BadOutputError, FatalError
from cje.policies.config import PolicyConfig

__all__ = ["ServerTokenizer"]

_MOST_KEPT = 4096  # texts whose ids are kept, because all responses to a prompt are scored after it


@dataclass(frozen=True)
class _Dialect:
    """The request for token ids of one kind of server."""

    path: str
    text: str  # the body's field for the text
    specials: str | None  # the field for "with BOS", where there is one
    control: str | None  # the field for "read control tokens", where there is one

    def body(self, model: str, text: str, specials: bool, control: bool) -> dict[str, JSON]:
        body: dict[str, JSON] = {"model": model, self.text: text}
        if self.specials is not None:
            body[self.specials] = specials
        if self.control is not None:
            body[self.control] = control
        return body


_VLLM = _Dialect("//tokenize", "prompt", "add_special_tokens", None)
_LLAMA_SERVER = _Dialect("//tokenize", "content", "add_special", "parse_special")
_LLAMA_CPP_PYTHON = _Dialect("//extras/tokenize", "input", None, None)
_FIRST: Mapping[str, tuple[_Dialect, ...]] = {
    "vllm": (_VLLM,),
    "llama-cpp": (_LLAMA_CPP_PYTHON,),
    "llama-server": (_LLAMA_SERVER,),
}
_ALL = (_VLLM, _LLAMA_SERVER, _LLAMA_CPP_PYTHON)


class ServerTokenizer:
    """The tokeniser of one policy's server.

    Parameters
    ----------
    config : PolicyConfig
    client : client of `cje.models`
    """

    def __init__(self, config: PolicyConfig, client: Any) -> None:
        self._config, self._client = config, client
        self._untried = _FIRST.get(config.provider, _ALL)
        self._kept: dict[tuple[str, bool], list[int]] = {}
        self._asked: dict[tuple[str, bool], asyncio.Task[list[int] | None]] = {}
        self._front: list[int] | None = None

    def known(self, text: str) -> bool:
        """Whether the ids of a prompt are known."""
        return (text, True) in self._kept

    async def ids(self, text: str, *, specials: bool = True, keep: bool = True) -> list[int] | None:
        """Ids of a text with its control tokens, or None if the server has no such route.

        Parameters
        ----------
        specials : bool
            Whether to put BOS in front, as the server does for a prompt.
        keep : bool
            Whether the text will be needed again.
        """
        key = (text, specials)
        if (found := self._kept.get(key)) is not None:
            return list(found)
        task = self._asked.get(key)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.ensure_future(self._ask(text, specials, control=True))
            self._asked[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        found = await asyncio.shield(task)
        if found is not None and keep:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = found
        return None if found is None else list(found)

    async def plain_ids(self, text: str) -> list[int] | None:
        """Ids of a text in which control tokens are only text; None if the server cannot."""
        if await self.ids("", specials=False) is None or self._untried[0].control is None:
            return None
        return await self._ask(text, specials=False, control=False)

    def _forget(self, key: tuple[str, bool], done: asyncio.Task[list[int] | None]) -> None:
        if self._asked.get(key) is done:
            del self._asked[key]

    async def _ask(self, text: str, specials: bool, *, control: bool) -> list[int] | None:
        """Ids in the first dialect that the server supports, which is then the only one used."""
        with_bos = specials if self._config.bos is None else specials and self._config.bos
        while self._untried:
            dialect = self._untried[0]
            body = dialect.body(self._config.model, text, with_bos, control)
            try:
                ids = _read(await self._client.post(dialect.path, body, billed=False), text)
            except FatalError:
                ids = None
            if ids is not None:
                self._untried = (dialect,)
                return await self._without_bos(ids) if dialect is _LLAMA_CPP_PYTHON else ids
            self._untried = self._untried[1:]
        return None

    async def _without_bos(self, ids: list[int]) -> list[int]:
        """Ids without BOS: llama-cpp-python adds it to every text, and omits it from every echo."""
        if self._front is None:
            body = _LLAMA_CPP_PYTHON.body(self._config.model, "", False, True)
            self._front = _read(await self._client.post(_LLAMA_CPP_PYTHON.path, body, billed=False))
        front = self._front or []
        return ids[len(front) :] if ids[: len(front)] == front else ids


def _read(answer: Mapping[str, JSON], text: str = "") -> list[int] | None:
    """The ids of an answer; None if a text got none, as from a server that ignores the field."""
    ids = answer.get("tokens")
    if not isinstance(ids, list) or not all(type(i) is int for i in ids):
        raise BadOutputError("the tokeniser's answer has no ids", reason="broken_tokenise")
    return ids if ids or not text else None
