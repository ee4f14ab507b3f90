"""Grouped commits: many writers share one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["GroupCommit", "commit_each"]

T = TypeVar("T")
GROUP_ITEMS = 512
GROUP_SECONDS = 0.01


async def commit_each(
    commit: Callable[[list[T]], Awaitable[None]], items: list[T]
) -> dict[int, Exception]:
    """Commit `items` together, or one by one if the group as a whole is refused.

    One item that cannot be written, or one statement that fails once, must not lose the others:
    each of them has been paid for.

    Returns
    -------
    dict
        The error of each item that could not be committed, by its position; empty without errors.
    """
    try:
        await commit(items)
        return {}
    except Exception as error:
        if len(items) == 1:
            return {0: error}
    failed: dict[int, Exception] = {}
    for index, item in enumerate(items):
        try:
            await commit([item])
        except Exception as error:
            failed[index] = error
    return failed


class GroupCommit(Generic[T]):
    """Collects items and commits them together; each writer waits for the commit of its item.

    Parameters
    ----------
    commit : callable
        Writes a list of items, all or none. If it raises, each item is written by itself, and
        an error reaches only the writers whose items cannot be written (`commit_each`).
    """

    def __init__(self, commit: Callable[[list[T]], Awaitable[None]]) -> None:
        self._commit = commit
        self._queue: list[tuple[T, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def put(self, item: T) -> None:
        """Queue `item` and return after its commit.

        A cancelled writer stops waiting; its item is committed nevertheless.
        """
        loop = asyncio.get_running_loop()
        committed = loop.create_future()
        self._queue.append((item, committed))
        if len(self._queue) == 1:
            self._timer = loop.call_later(GROUP_SECONDS, self._start)
        if len(self._queue) >= GROUP_ITEMS:
            self._start()
        await committed

    def _start(self) -> None:
        if not self._queue:
            return
        if self._timer is not None:
            self._timer.cancel()
        group, self._queue, self._timer = self._queue, [], None
        task = asyncio.get_running_loop().create_task(self._write(group))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _write(self, group: list[tuple[T, asyncio.Future[None]]]) -> None:
        failed = await commit_each(self._commit, [item for item, _ in group])
        for index, (_, committed) in enumerate(group):
            if committed.done():
                continue  # its writer was cancelled
            if index in failed:
                committed.set_exception(failed[index])
            else:
                committed.set_result(None)

    async def drain(self) -> None:
        """Commit the queue and wait until no commit is in progress."""
        self._start()
        while self._running:
            await asyncio.gather(*self._running)
