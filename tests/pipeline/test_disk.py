"""A full disk and a read-only folder: a clear error, an intact store, and a run that can go on."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cje.pipeline.config import PipelineConfig, load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.disk import DiskError
from tests.pipeline.scenes import ngram_settings, results_of, write_config, write_prompts

ROWS = 200


@contextmanager
def _mounted(folder: Path, *options: str) -> Iterator[None]:
    """A file system of our own at `folder`; skips where this process may not mount."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        made = subprocess.run(["mount", *options, str(folder)], capture_output=True)
    except OSError:
        pytest.skip("there is no mount command")
    if made.returncode != 0:
        pytest.skip("this process may not mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _config(folder: Path, work_dir: str = "run") -> PipelineConfig:
    write_prompts(folder, ROWS)
    return load_config(write_config(folder, ngram_settings(), work_dir=work_dir))


def _intact(work_dir: Path) -> int:
    """Finished calls in a store that passes SQLite's own check."""
    with closing(sqlite3.connect(work_dir / "store.sqlite")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return int(db.execute("SELECT count(*) FROM calls").fetchone()[0])


def test_a_full_disk_is_an_error_and_the_run_resumes_once_there_is_space(tmp_path: Path) -> None:
    calm = _config(tmp_path / "calm")
    CJEPipeline(calm).run()
    tight = _config(tmp_path / "tight", work_dir="disk/run")
    with _mounted(tmp_path / "tight" / "disk", "-t", "tmpfs", "-o", "size=700k", "tmpfs"):
        with pytest.raises(DiskError, match=r"full.*finished calls are kept"):
            CJEPipeline(tight).run()
        kept = _intact(tight.work_dir)
        assert kept > 0
        remount = ["mount", "-o", "remount,size=64m", str(tmp_path / "tight" / "disk")]
        subprocess.run(remount, check=True)
        CJEPipeline(tight).run()
        assert results_of(tight.work_dir) == results_of(calm.work_dir)
        assert _intact(tight.work_dir) == _intact(calm.work_dir) > kept


def test_a_file_size_limit_ends_a_run_with_an_intact_store(tmp_path: Path) -> None:
    config = _config(tmp_path)
    script = (
        "import resource, sys\n"
        "from cje.pipeline.config import load_config\n"
        "from cje.pipeline.coordinator import CJEPipeline\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "CJEPipeline(load_config(sys.argv[1])).run()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "config.yaml")],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert "DiskError" in ended.stderr
    assert "finished calls are kept" in ended.stderr
    before = _intact(config.work_dir)
    assert before > 0
    assert CJEPipeline(config).run().n_rows == ROWS


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    if os.geteuid() != 0:
        folder.chmod(0o555)
        try:
            yield
        finally:
            folder.chmod(0o755)
        return
    with _mounted(folder, "--bind", str(folder)):
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield


def test_a_read_only_folder_is_an_error(tmp_path: Path) -> None:
    config = _config(tmp_path)
    config.work_dir.mkdir()
    with _read_only(config.work_dir), pytest.raises(DiskError, match="cannot be"):
        CJEPipeline(config).run()


def test_a_finished_run_in_a_folder_turned_read_only_stays_intact(tmp_path: Path) -> None:
    config = _config(tmp_path)
    CJEPipeline(config).run()
    before = results_of(config.work_dir)
    with _read_only(config.work_dir), pytest.raises(DiskError, match="cannot be written"):
        CJEPipeline(config).run()
    assert results_of(config.work_dir) == before
    assert CJEPipeline(config).run().n_errors == 0
