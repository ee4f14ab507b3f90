"""Run coroutines from synchronous code, concurrently and with retries."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from cje.models.call_errors import ModelCallError, RetryableError

__all__ = ["gather_bounded", "run_sync", "with_retries"]

T = TypeVar("T")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _background_loop() -> asyncio.AbstractEventLoop:
    """One event loop in a daemon thread, which keeps connections open between synchronous calls."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="cje-models", daemon=True).start()
        return _loop


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine from synchronous code, also inside a running loop (a notebook).

    Examples
    --------
    >>> async def seven() -> int:
    ...     return 7
    >>> run_sync(seven())
    7
    """
    loop = _background_loop()
    if asyncio._get_running_loop() is loop:
        coroutine.close()
        raise RuntimeError("run_sync was called from its own loop: await the coroutine instead")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def with_retries(
    make_call: Callable[[], Awaitable[T]],
    *,
    attempts: int = 6,
    seed: int = 0,
    base: float = 0.5,
    again: Callable[[ModelCallError], bool] = lambda _: True,
) -> T:
    """Await `make_call()` up to `attempts` times: exponential waits with full jitter.

    The server's Retry-After is a minimum. An unusable answer is also asked for again, because a
    sampling model may do better. A fatal error is raised at once, and so is an error for which
    `again` returns False.
    """
    jitter = random.Random(seed)
    for attempt in range(attempts):
        try:
            return await make_call()
        except ModelCallError as error:
            if error.kind == "fatal" or attempt + 1 == attempts or not again(error):
                raise
            wait = jitter.uniform(0.0, min(30.0, base * 2.0**attempt))
            if isinstance(error, RetryableError) and error.retry_after is not None:
                wait += error.retry_after
            await asyncio.sleep(0.0 if error.kind == "bad_answer" else wait)
    raise AssertionError("attempts must be at least 1")


async def gather_bounded(calls: Sequence[Callable[[], Awaitable[T]]], concurrency: int) -> list[T]:
    """Run all calls, at most `concurrency` at a time, and return results in order.

    The first failure cancels the calls still waiting and is raised.
    """
    results: list[T | None] = [None] * len(calls)
    remaining = iter(range(len(calls)))

    async def worker() -> None:
        for index in remaining:
            results[index] = await calls[index]()

    tasks = [asyncio.ensure_future(worker()) for _ in range(min(concurrency, len(calls)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return results  # type: ignore[return-value]  # every slot was filled above
