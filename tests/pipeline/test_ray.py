"""The Ray executor: a real Ray, a worker killed in the middle, the bytes of a local run."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from tests.pipeline.scenes import ngram_settings, results_of, write_config, write_prompts
from tests.server.running import TestServer

pytest.importorskip("ray")
ROWS = 160


def _workers() -> list[psutil.Process]:
    """Processes below this one that Ray runs our chunks in."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "ChunkWorker" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


class Killer(threading.Thread):
    """Kills one worker as soon as the judge has answered some calls."""

    def __init__(self, server: TestServer, after: int) -> None:
        super().__init__(daemon=True)
        self.server, self.after, self.killed = server, after, 0

    def run(self) -> None:
        while not self.killed:
            time.sleep(0.02)
            if len(self.server.calls) < self.after:
                continue
            for process in _workers()[:1]:
                os.kill(process.pid, signal.SIGKILL)
                self.killed = process.pid


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.accounts_apart("what was under way at the kill, and models of this process, differ")
def test_a_killed_ray_worker_changes_no_byte(tmp_path: Path) -> None:
    with TestServer(latency=0.05) as server:
        settings = ngram_settings()
        settings["judge"] = {
            "provider": "openai-compatible", "base_url": server.base_url, "model": "judge",
            "variance": "none", "template": "rubric_score",
        }  # fmt: skip
        settings["limits"] = {"default": {"max_concurrency": 8}}
        settings["chunk_rows"] = 20
        folders = {name: tmp_path / name for name in ("local", "ray")}
        for name, folder in folders.items():
            write_prompts(folder, ROWS)
            write_config(folder, settings, executor=name, ray={"workers": 2}, oracle_config=None)
        CJEPipeline(load_config(folders["local"] / "config.yaml")).run()
        assert len(server.calls) == ROWS + 1  # the judge is tried before the run
        server.app.forget()
        killer = Killer(server, after=ROWS // 3)
        killer.start()
        CJEPipeline(load_config(folders["ray"] / "config.yaml")).run()
        assert killer.killed
        calls = server.calls
    assert results_of(folders["ray"] / "run") == results_of(folders["local"] / "run")
    # Only what the dead worker had not yet committed was asked again.
    assert len(calls) == ROWS + 1
    assert sum(calls.values()) - ROWS - 1 <= 20


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_pairwise_run_on_ray_has_the_result_of_a_local_one(tmp_path: Path) -> None:
    settings = ngram_settings()
    settings["estimation"] = {"estimators": ["pairwise"]}
    settings["oracle_config"] = {
        "source": "model", "fraction": 0.5, "judge": {"provider": "offline", "noise": 0.01},
    }  # fmt: skip
    results = {}
    for name in ("local", "ray"):
        write_prompts(tmp_path / name, 40)
        write_config(tmp_path / name, settings, executor=name, ray={"workers": 2})
        config = load_config(tmp_path / name / "config.yaml")
        results[name] = CJEPipeline(config).run().files()["pairwise.json"]
    assert results["ray"] == results["local"]
