"""Grouped commits: many writers wait for one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["GroupCommit"]

T = TypeVar("T")
GROUP_ITEMS = 512
GROUP_SECONDS = 0.01


class GroupCommit(Generic[T]):
    """Collects items and commits them together; each writer hears when its group is safe.

    Parameters
    ----------
    commit : callable
        Writes a list of items; what it raises reaches everyone who waits for that group.
    """

    def __init__(self, commit: Callable[[list[T]], Awaitable[None]]) -> None:
        self._commit = commit
        self._items: list[T] = []
        self._group: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def put(self, item: T) -> None:
        """Queue `item`; return once its group is committed."""
        self._items.append(item)
        if self._group is None:
            loop = asyncio.get_running_loop()
            self._group = loop.create_future()
            self._timer = loop.call_later(GROUP_SECONDS, self._start)
        group = self._group
        if len(self._items) >= GROUP_ITEMS:
            self._start()
        # One writer's cancellation must not cancel the group of the others.
        await asyncio.shield(group)

    def _start(self) -> None:
        items, group = self._items, self._group
        if group is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._items, self._group, self._timer = [], None, None
        task = asyncio.get_running_loop().create_task(self._write(items, group))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _write(self, items: list[T], group: asyncio.Future[None]) -> None:
        try:
            await self._commit(items)
        except BaseException as error:
            group.set_exception(error)
            group.exception()  # seen, even if every writer has been cancelled
        else:
            group.set_result(None)

    async def drain(self) -> None:
        """Commit what is queued and wait until nothing is under way."""
        self._start()
        while self._running:
            await asyncio.gather(*self._running)
