"""100 raters at once against one labelling server: none lost, none doubled, and how fast.

Each rater asks for an item and answers it, one request after the other, over its own connection.
Every answer is one commit on disk. The floor beside it is the same number of commits of
one row to a file of its own, by one writer in the same run.

    python -m benchmarks.labelling [--quick]
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from cje.data.label_store import read_label_store

__all__ = ["run"]


def _write_data(folder: Path, n: int) -> None:
    import polars as pl

    pl.DataFrame({
        "prompt_id": [f"p{i}" for i in range(n)], "policy": "new", "judge_score": 0.5,
        "prompt": "question", "response": [f"answer {i}" for i in range(n)],
    }).write_parquet(folder / "data.parquet")  # fmt: skip


def _serve(folder: Path, count: int) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "cje.cli.main", "label", "data.parquet", "--count", str(count),
               "--scale", "1-5", "--port", "0"]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
    assert found is not None
    process.stdout.readline()
    return process, int(found[1])


async def _call(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, path: str, body: str = ""
) -> str:
    kind = "POST" if body else "GET"
    head = f"{kind} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
    if body:
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    writer.write(f"{head}\r\n{body}".encode())
    await writer.drain()
    start = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", start.lower())
    assert length is not None
    content = await reader.readexactly(int(length[1]))
    if not start.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"{path}: {start[:40]!r} {content[:200]!r}")
    return content.decode()


async def _rater(name: int, port: int, answers: int, took: list[float]) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    kept = 0
    for k in range(answers):
        found = await _call(reader, writer, port, f"/api/next?rater=r{name}&tab=tab-{name:06d}")
        item = re.search(r'"item":\{"id":(\d+)', found)
        if item is None:
            break
        body = (
            f'{{"rater":"r{name}","item":{item[1]},"revision":0,"word":"{1 + k % 5}",'
            f'"key":"key-{name:06d}-{k:06d}","note":"","seconds":1.0}}'
        )
        start = time.perf_counter()
        await _call(reader, writer, port, "/api/answer", body)
        took.append(time.perf_counter() - start)
        kept += 1
    writer.close()
    return kept


async def _all(port: int, raters: int, answers: int) -> tuple[int, list[float], float]:
    took: list[float] = []
    start = time.perf_counter()
    kept = await asyncio.gather(*(_rater(k, port, answers, took) for k in range(raters)))
    return sum(kept), took, time.perf_counter() - start


def _commit_floor(folder: Path, n: int) -> float:
    """Seconds per commit of one small row, write-ahead log, on disk before it returns."""
    db = sqlite3.connect(folder / "floor.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE t (x TEXT)")
    start = time.perf_counter()
    for k in range(n):
        db.execute("INSERT INTO t VALUES (?)", (f"answer {k}",))
    return (time.perf_counter() - start) / n


def run(quick: bool) -> list[dict[str, Any]]:
    """Answers lost and doubled, and the latency of an answer."""
    raters, answers = (20, 50) if quick else (100, 1_000)
    total = raters * answers
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_data(folder, total)
        floor = _commit_floor(folder, 300)
        process, port = _serve(folder, total)
        try:
            kept, took, seconds = asyncio.run(_all(port, raters, answers))
        finally:
            process.kill()
            process.wait()
        rows = read_label_store(folder / "labels.db").rows
    distinct = len({row["prompt_id"] for row in rows})
    p50, p99 = np.quantile(took, [0.5, 0.99])
    note = f"{raters} raters x {answers} answers; {kept / seconds:.0f} answers per second; "
    return [
        {"bar": "answers lost", "value": kept - len(rows), "limit": 0,
         "ok": kept == len(rows) == total,
         "note": f"{kept} acknowledged, {len(rows)} stored"},
        {"bar": "answers doubled", "value": len(rows) - distinct, "limit": 0,
         "ok": len(rows) == distinct, "note": ""},
        {"bar": "p99 latency of an answer in seconds", "value": float(p99), "limit": 2.0,
         "ok": p99 <= 2.0, "note": f"{note}median {p50:.3f} s; a bare commit {floor * 1e3:.2f} ms"},
    ]  # fmt: skip


def main() -> None:
    """Print every row."""
    for row in run("--quick" in sys.argv):
        mark = "ok  " if row["ok"] else "MISS"
        print(f"{mark} {row['bar']}: {row['value']:.4g} (<= {row['limit']}) {row['note']}")


if __name__ == "__main__":
    main()
