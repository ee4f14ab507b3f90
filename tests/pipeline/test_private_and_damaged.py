"""Work folders: private, swept, and, when damaged, refused with a message and the way out."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from cje.errors import CJEError
from cje.pipeline.config import PipelineConfig, load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.status import read_status
from tests.pipeline.scenes import ngram_settings, results_of, write_config, write_prompts


def _config(folder: Path) -> PipelineConfig:
    write_prompts(folder, 30)
    return load_config(write_config(folder, ngram_settings()))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    CJEPipeline(_config(folder)).run()
    return folder


def _copy(finished: Path, to: Path) -> PipelineConfig:
    shutil.copytree(finished, to, dirs_exist_ok=True)
    return load_config(to / "config.yaml")


def _looked_at(config: PipelineConfig) -> list[str]:
    """What the status and another run say against the folder: nothing, or error messages."""
    said = []
    for look in (lambda: read_status(config.work_dir), CJEPipeline(config).run):
        try:
            look()
        except CJEError as error:
            said.append(str(error))
    assert all("What to do" in text and "[" in text for text in said), said
    return said


def test_a_work_folder_can_be_read_by_its_owner_only(finished: Path) -> None:
    work_dir = finished / "run"
    assert work_dir.stat().st_mode & 0o777 == 0o700
    for path in work_dir.rglob("*"):
        wanted = 0o700 if path.is_dir() else 0o600
        assert path.stat().st_mode & 0o777 == wanted, path


def test_files_left_by_a_kill_are_swept_and_nothing_else_is(finished: Path, tmp_path: Path) -> None:
    config = _copy(finished, tmp_path)
    left = [config.work_dir / "chunks/judge/.abc.parquet.4242.tmp", config.work_dir / ".x.7.tmp"]
    mine = config.work_dir / "notes.tmp"
    for path in (*left, mine):
        path.write_bytes(b"half")
    CJEPipeline(config).run()
    assert not any(path.exists() for path in left)
    assert mine.exists()


@pytest.mark.parametrize("name", ["run #3", "50% done?", "a b&mode=rw", "ünï"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    write_prompts(tmp_path, 30)
    config = load_config(write_config(tmp_path, ngram_settings(), work_dir=name))
    CJEPipeline(config).run()
    before = {path.name for path in tmp_path.iterdir()}
    assert read_status(config.work_dir).finished
    assert {path.name for path in tmp_path.iterdir()} == before


DAMAGE = {
    "store.sqlite": [b"", b"not a database at all, but longer than a header" * 9, b"\0" * 4096],
    "lock.sqlite": [b"garbage " * 200],
    "manifest.json": [b"", b"[]", b"{}", b'{"stages": 3, "files": []}', b"\xff\xfe", b"[" * 99999,
                      b'{"stages": {"judge": {}}, "files": {}}'],
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_a_clear_error_or_is_made_again(
    finished: Path, tmp_path: Path, name: str
) -> None:
    wanted = results_of(finished / "run")
    for index, content in enumerate(DAMAGE[name]):
        config = _copy(finished, tmp_path / str(index))
        for extra in ("store.sqlite-wal", "store.sqlite-shm"):
            (config.work_dir / extra).unlink(missing_ok=True)
        (config.work_dir / name).write_bytes(content)
        said = _looked_at(config)
        assert said or results_of(config.work_dir) == wanted
        if name == "lock.sqlite":
            assert any("delete it" in text for text in said)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE calls SET answer = '{'", "UPDATE calls SET answer = '[]'",
        "UPDATE calls SET answer = '{}'", "UPDATE calls SET answer = x'ff'",
        "UPDATE calls SET answer = '{\"score\": 1e999}'",
        "UPDATE recipes SET cost = 'much'", "UPDATE recipes SET calls = 'many'",
        "UPDATE recipes SET identity = 'x'", "UPDATE chunks SET bytes = 'x'",
        "UPDATE chunks SET sha256 = 'x'", "DROP TABLE calls", "DROP TABLE recipes",
        "UPDATE stages SET chunks = 'x'", "UPDATE meta SET value = 'x'", "DELETE FROM meta",
        "DROP TABLE models", "UPDATE recipes SET attempts = NULL",
    ],
)  # fmt: skip
def test_a_store_changed_by_hand_is_refused_with_a_message(
    finished: Path, tmp_path: Path, change: str
) -> None:
    config = _copy(finished, tmp_path)
    with contextlib.closing(sqlite3.connect(config.work_dir / "store.sqlite")) as db:
        with contextlib.suppress(sqlite3.IntegrityError):
            db.execute(change)
        db.commit()
    for path in (config.work_dir / "chunks").rglob("*.parquet"):
        path.unlink()  # the answers are read again
    _looked_at(config)


def test_random_changes_of_bytes_are_clear_errors_or_harmless(
    finished: Path, tmp_path: Path
) -> None:
    rng = random.Random(20261118)
    for number in range(40):
        config = _copy(finished, tmp_path / str(number))
        targets = sorted(p for p in config.work_dir.rglob("*") if p.is_file())
        path = rng.choice(targets)
        data = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 8)):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(data))
        for look in (
            lambda c=config: read_status(c.work_dir),
            lambda c=config: CJEPipeline(c).run(),
        ):
            with contextlib.suppress(CJEError):
                look()
        shutil.rmtree(tmp_path / str(number))


def test_an_existing_folder_keeps_its_permissions(tmp_path: Path) -> None:
    config = _config(tmp_path)
    config.work_dir.mkdir(mode=0o755)
    os.chmod(config.work_dir, 0o755)
    CJEPipeline(config).run()
    assert config.work_dir.stat().st_mode & 0o777 == 0o755
    assert (config.work_dir / "store.sqlite").stat().st_mode & 0o777 == 0o600
