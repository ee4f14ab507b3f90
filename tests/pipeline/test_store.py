"""The store: what is committed stays, what is counted is committed, keys hold all that matters."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest

from cje.errors import CJEError
from cje.pipeline.chunks import (
    RowStream,
    chunk_exists,
    chunk_path,
    find_chunk,
    load_chunk,
    write_chunk,
)
from cje.pipeline.hashing import CallKeys, canonical_json, compute_contexts_hash
from cje.pipeline.lock import WorkFolderLock
from cje.pipeline.store import CallRecord, CallStore

SCHEMA = {"context": pl.String, "value": pl.Float64, "error": pl.String}


def _keys(**changes: object) -> CallKeys:
    return CallKeys("judge", {"model": "m", "temperature": 0.0, "template": "t", **changes})


def _fill(store: CallStore, n: int) -> list[bytes]:
    keys = _keys()
    store.register(keys)
    made = [keys.key(f"context {i}", "r", 0) for i in range(n)]

    async def put() -> None:
        await asyncio.gather(
            *(
                store.put(CallRecord(key, keys.digest, {"value": 0.1 + i}, 1, 3, 2, 0.5))
                for i, key in enumerate(made)
            )
        )

    asyncio.run(put())
    return made


def test_key_changes_with_every_part_of_a_call() -> None:
    base = _keys().key("context", "response", 0)
    others = {
        _keys(model="other").key("context", "response", 0),
        _keys(temperature=0.1).key("context", "response", 0),
        _keys(template="u").key("context", "response", 0),
        CallKeys("oracle", {"model": "m", "temperature": 0.0, "template": "t"}).key(
            "context", "response", 0
        ),
        _keys().key("contextr", "esponse", 0),
        _keys().key("context", "response", 1),
        _keys().key("context", "response", "0"),
        _keys().key("context", "response", [0]),
        _keys().key("context", "response", None),
    }
    assert base not in others
    assert len(others) == 9


def test_identity_order_does_not_change_a_key() -> None:
    a = CallKeys("s", {"a": 1, "b": 2}).key("x")
    assert a == CallKeys("s", {"b": 2, "a": 1}).key("x")
    assert canonical_json({"b": 1, "a": 2}) == '{"a":2,"b":1}'


def test_put_returns_only_after_another_connection_can_read_the_call(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "store.sqlite")
    made = _fill(store, 700)
    other = sqlite3.connect(tmp_path / "store.sqlite")
    assert other.execute("SELECT count(*) FROM calls").fetchone()[0] == 700
    found = store.get_many(made)
    assert found[made[3]] == {"value": 3.1}
    assert store.count_known([*made, b"x" * 16]) == 700
    total = store.totals()[0]
    assert (total.calls, total.prompt_tokens, total.completion_tokens, total.cost) == (
        700, 2100, 1400, 350.0,
    )  # fmt: skip
    assert store.spent() == (700, 350.0)


def test_a_failed_call_is_remembered_but_not_finished(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "store.sqlite")
    keys = _keys()
    store.register(keys)
    key = keys.key("c")
    store.put_many([CallRecord(key, keys.digest, {}, 6, reason="http_500", message="broken")])
    assert store.get_many([key]) == {}
    assert store.failures() == [("judge", "http_500", 1)]


def test_every_call_acknowledged_before_kill_9_is_in_the_store(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from cje.pipeline.hashing import CallKeys
        from cje.pipeline.store import CallRecord, CallStore
        store = CallStore(Path(sys.argv[1]))
        keys = CallKeys("judge", {"model": "m"})
        store.register(keys)
        async def one(i):
            await store.put(CallRecord(keys.key(i), keys.digest, {"value": i}))
            print(i, flush=True)
        async def main():
            for start in range(0, 10**6, 50):
                await asyncio.gather(*(one(i) for i in range(start, start + 50)))
        asyncio.run(main())
        """
    )
    path = tmp_path / "store.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    seen = [int(process.stdout.readline()) for _ in range(500)]
    os.kill(process.pid, signal.SIGKILL)
    seen += [int(line) for line in process.stdout.read().split("\n")[:-1] if line]
    process.wait()
    store = CallStore(path)
    keys = CallKeys("judge", {"model": "m"})
    assert store.count_known([keys.key(i) for i in seen]) == len(seen) >= 500
    check = sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone()[0]
    assert check == "ok"


def test_store_of_another_version_is_refused(tmp_path: Path) -> None:
    CallStore(tmp_path / "store.sqlite").close()
    with sqlite3.connect(tmp_path / "store.sqlite") as db:
        db.execute("UPDATE meta SET value = '99' WHERE name = 'schema'")
    with pytest.raises(CJEError, match="another version"):
        CallStore(tmp_path / "store.sqlite")


def test_non_finite_answers_cannot_enter_the_store(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "store.sqlite")
    keys = _keys()
    store.register(keys)
    with pytest.raises(ValueError, match="JSON"):
        store.put_many([CallRecord(keys.key("c"), keys.digest, {"value": float("nan")})])
    store.put_many([CallRecord(keys.key("d"), keys.digest, {"value": 1.0})])
    assert store.spent()[0] == 1


def test_a_second_run_in_one_work_folder_is_refused(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from cje.pipeline.lock import WorkFolderLock\n"
        "with WorkFolderLock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        with pytest.raises(CJEError, match=f"another run.*process {process.pid}"):
            WorkFolderLock(tmp_path).__enter__()
    finally:
        process.kill()
        process.wait()
    with WorkFolderLock(tmp_path):
        pass  # free again as soon as its holder is dead, even by kill -9


def test_same_rows_give_the_same_bytes_and_a_changed_file_is_noticed(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "store.sqlite")
    rows = [{"context": "é\u2028<b>", "value": 0.1, "error": None}, {"context": "b", "value": None}]
    a = write_chunk(tmp_path, store, "judge", "aa", rows, SCHEMA)
    b = write_chunk(tmp_path, store, "judge", "bb", rows, SCHEMA)
    assert a.sha256 == b.sha256
    assert chunk_exists(tmp_path, "judge", "aa")
    assert not chunk_exists(tmp_path, "judge", "cc")
    assert load_chunk(tmp_path, "judge", "aa")[0] == rows[0]
    stream = RowStream(tmp_path, "judge", (a, b))
    assert len(stream) == 4
    assert [row["context"] for row in stream] == ["é\u2028<b>", "b"] * 2
    path = chunk_path(tmp_path, "judge", "aa")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(CJEError, match="changed after it was written"):
        stream.load(a)
    path.unlink()
    assert find_chunk(tmp_path, store, "judge", "aa") is None


@pytest.mark.parametrize("part", ["", ".", "..", "../aa", "/etc/aa", "a/b", "a\\b", "a\0", 3, None])
def test_a_chunk_stays_in_its_folder(tmp_path: Path, part: object) -> None:
    for stage, name in ((part, "aa"), ("judge", part)):
        for call in (chunk_path, chunk_exists, load_chunk):
            with pytest.raises(CJEError, match="one plain name"):
                call(tmp_path, stage, name)  # type: ignore[arg-type]


def test_a_chunk_that_is_not_a_parquet_file_is_an_error(tmp_path: Path) -> None:
    path = chunk_path(tmp_path, "judge", "aa")
    path.parent.mkdir(parents=True)
    for content in (b"", b"PAR1", b"not parquet at all", b"PAR1" + bytes(40) + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(CJEError, match="delete this file"):
            load_chunk(tmp_path, "judge", "aa")
    path.unlink()
    path.mkdir()
    with pytest.raises(CJEError, match="cannot be read"):
        load_chunk(tmp_path, "judge", "aa")
    with pytest.raises(CJEError, match="cannot be read"):
        load_chunk(tmp_path, "judge", "a" * 300)


def test_contexts_hash_takes_any_text_and_refuses_other_values() -> None:
    assert compute_contexts_hash([{"context": "\ud800"}]) != compute_contexts_hash([{}])
    with pytest.raises(CJEError, match="row 0"):
        compute_contexts_hash(["text"])  # type: ignore[list-item]


def test_contexts_hash_sees_order_context_response_and_draw() -> None:
    rows = [{"context": "a", "response": "x"}, {"context": "b", "response": "y"}]
    base = compute_contexts_hash(rows)
    assert base == compute_contexts_hash([dict(row) for row in rows])
    assert base != compute_contexts_hash(rows[::-1])
    assert base != compute_contexts_hash([rows[0], {"context": "b", "response": "z"}])
    assert base != compute_contexts_hash([rows[0], {**rows[1], "draw_idx": 1}])
