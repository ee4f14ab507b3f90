"""The store of calls under threads and processes that write at the same time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cje.errors import CJEError
from cje.pipeline.hashing import CallKeys
from cje.pipeline.store import CallRecord, CallStore

KEYS = CallKeys("judge", {"judge": "offline", "seed": 1})
PER_WRITER, SHARED = 60, 20

_WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from tests.robustness.test_store_safety import write
    write(Path(sys.argv[1]), int(sys.argv[2]))
    """
)


def _key(name: str) -> bytes:
    return name.encode().ljust(16, b".")


def write(path: Path, writer: int) -> None:
    """Calls of this writer alone, and calls that every writer answers."""
    store = CallStore(path)
    store.register(KEYS)
    names = [f"w{writer}.{i}" for i in range(PER_WRITER)] + [f"shared.{i}" for i in range(SHARED)]
    for start in range(0, len(names), 7):
        store.put_many(
            [
                CallRecord(_key(name), KEYS.digest, {"name": name}, prompt_tokens=1, cost=0.5)
                for name in names[start : start + 7]
            ]
        )
    store.close()


def _check(path: Path, writers: int) -> None:
    store = CallStore(path)
    keys = [key for (key,) in store.all_keys()]
    assert len(keys) == len(set(keys)) == writers * PER_WRITER + SHARED
    answers = store.get_many(keys)
    assert all(_key(answer["name"]) == key for key, answer in answers.items())
    (totals,) = store.totals()
    assert totals.calls == writers * PER_WRITER + SHARED  # a shared call counts once
    assert totals.attempts == writers * (PER_WRITER + SHARED)  # every attempt was paid for
    assert totals.cost == 0.5 * totals.attempts
    store.close()


def test_threads_with_stores_of_their_own_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    failures: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            write(path, writer)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    _check(path, 4)


def test_a_store_shared_by_threads_is_refused_with_a_message(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "store.sqlite")
    store.register(KEYS)
    record = CallRecord(_key("a"), KEYS.digest, {})
    messages: list[str] = []

    def work(call: Callable[[], object]) -> None:
        try:
            call()
        except CJEError as error:
            messages.append(str(error))

    calls: list[Callable[[], object]] = [
        lambda: store.put_many([record]), lambda: store.get_many([_key("a")]), store.totals,
        store.close,
    ]  # fmt: skip
    for call in calls:
        thread = threading.Thread(target=work, args=(call,))
        thread.start()
        thread.join()
    assert len(messages) == len(calls)
    assert all("open one in each thread" in text for text in messages)
    store.put_many([record])  # its own thread goes on
    store.close()
    store.close()
    with pytest.raises(CJEError, match="closed"):
        store.totals()


def test_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    root = Path(__file__).resolve().parents[2]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), str(writer)], cwd=root,
            stderr=subprocess.PIPE, text=True,
        )
        for writer in range(3)
    ]  # fmt: skip
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    _check(path, 3)


def test_many_tasks_of_one_loop_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = CallStore(path)
    store.register(KEYS)

    async def work() -> None:
        records = [CallRecord(_key(str(i)), KEYS.digest, {"name": str(i)}) for i in range(200)]
        await asyncio.gather(*(store.put(record) for record in records))

    asyncio.run(work())
    assert store.count_known([_key(str(i)) for i in range(200)]) == 200
    store.close()
