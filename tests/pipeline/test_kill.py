"""kill -9 at random points of a run against a faulty server: nothing lost, nothing paid twice."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from tests.pipeline.accounting import assert_accounts
from tests.pipeline.scenes import results_of, server_settings, write_config, write_prompts
from tests.server.running import SubprocessServer

ROOT = Path(__file__).resolve().parents[2]
ROWS = 385  # 385 x (1 generated + 1 judged + 3 scored) + 77 labels + 3 trial calls: 2,005 calls
CALLS = ROWS * 5 + 77 + 3
KILLS = 20
FAULTS = {  # one request in ten fails
    "429": 0.02, "429-retry-after": 0.01, "500": 0.02, "503": 0.01, "reset": 0.01,
    "truncated": 0.01, "content-type": 0.008, "hang": 0.001, "short": 0.01, "non-score": 0.01,
}  # fmt: skip


def _finished(store: Path) -> int:
    """Calls committed so far, read beside the running run."""
    try:
        db = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
        try:
            return int(db.execute("SELECT coalesce(sum(calls), 0) FROM recipes").fetchone()[0])
        finally:
            db.close()
    except sqlite3.OperationalError:
        return 0  # not created yet


def _settings(url: str) -> dict[str, Any]:
    """With a time limit that a busy machine does not reach: a time-out is a second call."""
    settings = server_settings(url)
    for part in (settings["logging_policy"], settings["judge"], settings["oracle_config"]["judge"],
                 *settings["target_policies"]):  # fmt: skip
        part["timeout"] = 10.0
    return settings


class Forker:
    def __enter__(self) -> Forker:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.forker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert self._line() == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(self, config: Path) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{config}\n")
        self.process.stdin.flush()
        return int(self._line())

    def wait(self) -> int:
        return int(self._line())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.accounts_apart("what was under way at each kill is bounded in the test")
def test_twenty_kills_of_a_faulty_run_lose_and_repeat_nothing(tmp_path: Path) -> None:
    calm, hard = tmp_path / "calm", tmp_path / "hard"
    for folder in (calm, hard):
        write_prompts(folder, ROWS)
    with SubprocessServer() as server:
        url = server.base_url
        CJEPipeline(load_config(write_config(calm, _settings(url)))).run()
        assert sum(server.report()["answered"].values()) == CALLS

    faults = [part for name, share in FAULTS.items() for part in ("--fault", f"{name}={share}")]
    port = url.rsplit(":", 1)[1].removesuffix("/v1")
    config = write_config(hard, _settings(url))
    store = hard / "run" / "store.sqlite"
    points = sorted(random.Random(6).sample(range(1, CALLS - 10), KILLS))
    snapshots = []
    with SubprocessServer("--port", port, *faults) as server, Forker() as forker:
        for point in points:
            child = forker.start(config)
            patience = time.monotonic() + 100.0
            while _finished(store) < point:
                assert time.monotonic() < patience, "the run makes no progress"
                time.sleep(0.002)
            os.kill(child, signal.SIGKILL)
            assert forker.wait() == signal.SIGKILL
            snapshots.append((_finished(store), server.report()))
        forker.start(config)
        assert forker.wait() == 0
        last = server.report()

    # None is lost: every call is finished, and the result is the undisturbed one, bit for bit.
    assert _finished(store) == CALLS
    assert results_of(hard / "run") == results_of(calm / "run")
    assert json.loads((hard / "run/result/calibrated-ips.json").read_text())
    assert sum(last["struck"].values()) > 0.08 * CALLS
    # 16 calls under way at each kill, and those answered within the group not yet written.
    assert_accounts(last, hard / "run", in_flight=48 * KILLS, exact=False)
    # None is repeated: of the calls answered before a kill, exactly those whose answer had not been
    # committed are made again.
    assert snapshots[0][0] < snapshots[-1][0]
    for finished, report in snapshots:
        again = [key for key in report["answered"] if last["calls"][key] > report["calls"][key]]
        assert len(again) == len(report["answered"]) - finished
