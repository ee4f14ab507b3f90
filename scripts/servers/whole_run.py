"""A whole run against a real server: calm, and again through faults and ``kill -9``.

``python scripts/servers/whole_run.py URL PROVIDER MODEL ROW``: both runs must score every response
alike. What came of it is added to the conformance suite's row. Traffic goes to loopback only.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import yaml

ROWS, KILLS = 40, 3
EVERY = 9  # one request in nine fails: reset, 503 or a body cut short


def settings(url: str, provider: str, model: str) -> dict[str, Any]:
    policy = {
        "provider": provider, "model": model, "base_url": url, "max_tokens": 16, "timeout": 60.0,
        "endpoint_id": "real", "template": "chatml",
    }  # fmt: skip
    return {
        "work_dir": "run",
        "dataset": {"path": "prompts.jsonl", "id_field": "id"},
        "logging_policy": {"name": "plain", **policy},
        "target_policies": [{"name": "kind", **policy, "system_prompt": "You are kind."}],
        "judge": {"provider": "offline", "n_repeats": 2, "bias": [0.2, 0.6], "noise": 0.05},
        "oracle_config": {
            "source": "callable", "function": "cje.judges:lexical_quality", "fraction": 0.5,
        },
        "estimation": {"estimators": ["calibrated-ips"]},
        "limits": {"default": {"retry_seconds": 0.05, "breaker_pause": 0.2}},
        "max_error_share": 0.2,
    }  # fmt: skip


class Proxy:
    """Passes requests on, one connection each, and spoils some."""

    def __init__(self, url: str) -> None:
        self._port = int(url.split(":")[2].split("/")[0])
        self._count = itertools.count(1)
        self.spoilt = 0
        self.port = 0
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True).start()
        ready.wait()

    async def _serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = [line for line in head.split(b"\r\n") if line]
            length = next(
                (int(x.split(b":")[1]) for x in lines if x.lower().startswith(b"content-length")), 0
            )
            body = await reader.readexactly(length)
            number = next(self._count)
            fault = number // EVERY % 3 if number % EVERY == 0 else None
            self.spoilt += fault is not None
            if fault == 1:
                writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            elif fault != 0:
                kept = [x for x in lines if not x.lower().startswith(b"connection")]
                sent = b"\r\n".join([*kept, b"Connection: close"]) + b"\r\n\r\n" + body
                answer = await self._ask(sent)
                writer.write(answer[: len(answer) // 2] if fault == 2 else answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the other side is gone; the run under test deals with it
        finally:
            writer.close()

    async def _ask(self, sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(sent)
        answer = await reader.read()
        writer.close()
        return answer


def start(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "cje.cli.main", "run", str(folder / "config.yaml"), "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finished(folder: Path) -> int:
    try:
        with sqlite3.connect(f"file:{folder}/run/store.sqlite?mode=ro", uri=True) as db:
            return int(db.execute("SELECT count(*) FROM calls").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def scores(folder: Path) -> pl.DataFrame:
    parts = sorted((folder / "run" / "chunks" / "target_policy").glob("*.parquet"))
    return pl.concat(pl.read_parquet(part) for part in parts).sort("row_id")


def prepare(folder: Path, url: str, provider: str, model: str) -> Path:
    folder.mkdir()
    questions = ("How do I change my password?", "Where is my refund?", "Où est la gare ? 駅 🙂")
    rows = [
        {"id": f"p{i}", "context": f"{i}. {questions[i % len(questions)]}"} for i in range(ROWS)
    ]
    text = "\n".join(json.dumps(row) for row in rows)
    (folder / "prompts.jsonl").write_text(text + "\n", encoding="utf-8")
    config = yaml.safe_dump(settings(url, provider, model), sort_keys=False)
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    return folder


def main() -> None:
    url, provider, model, row = sys.argv[1:5]
    found = json.loads(Path(row).read_text(encoding="utf-8"))
    if found.get("form") is None or "spm" in model:  # nothing to score with; no chat template
        return
    with tempfile.TemporaryDirectory() as place:
        calm = prepare(Path(place) / "calm", url, provider, model)
        run = start(calm)
        said = run.communicate()[1].decode(errors="replace")
        if run.returncode != 0:
            # A server that gives no ids, and a tiny model that writes odd tokens: rightly refused.
            found["whole_run"] = f"refused: {said.strip().splitlines()[-1]}"
        else:
            proxy = Proxy(url)
            hard = prepare(
                Path(place) / "hard", f"http://127.0.0.1:{proxy.port}/v1", provider, model
            )
            found["whole_run"] = _hard(calm, hard, proxy)
    Path(row).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(found["whole_run"])


def _hard(calm: Path, hard: Path, proxy: Proxy) -> str:
    total, kills = finished(calm), 0
    for kill in range(1, KILLS + 1):
        run = start(hard)
        patience = time.monotonic() + 300.0
        while finished(hard) < kill * total // (KILLS + 1) and run.poll() is None:
            if time.monotonic() > patience:
                run.kill()
                return "no progress through the proxy"
            time.sleep(0.02)
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
            kills += 1
        run.wait()
    if start(hard).wait() != 0:
        return "the disturbed run failed"
    one, other = scores(calm), scores(hard)
    same = one["response"].equals(other["response"])
    gap = (one["logp_logging"] - other["logp_logging"]).abs().max()
    verdict = "the same responses" if same else "other responses"
    return f"{kills} kills, {proxy.spoilt} faults: {verdict}, largest gap {gap or 0.0:.1e}"


if __name__ == "__main__":
    main()
