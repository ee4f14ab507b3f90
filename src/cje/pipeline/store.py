"""The store of model calls: one SQLite file, written in grouped commits, that survives ``kill -9``.

Design
------
* The key of a call contains everything that matters to its answer (`CallKeys`), so a call whose key
  is present is never paid for again.
* Write-ahead logging with ``synchronous=NORMAL``: a commit survives the death of the process,
  however it dies. After a power cut the file is intact, but the last fraction of a second may be
  missing; ``durability: full`` in the configuration makes every commit call fsync.
* Answers are committed in groups (`GroupCommit`). `put` returns only after its group is committed,
  so only what is on disk is counted.
* Recipes carry running totals (calls, tokens, money), updated in the same transaction, so a status
  or a budget check reads a handful of rows whatever the size of the run.

Answers are JSON text. There is no pickle anywhere.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cje.errors import CJEError
from cje.pipeline.disk import create_private, damaged, disk_error, make_private_folder
from cje.pipeline.grouping import GroupCommit
from cje.pipeline.hashing import CallKeys
from cje.pipeline.records import CallRecord

__all__ = ["CallRecord", "CallStore", "RecipeTotals"]

N = TypeVar("N", int, float)
SCHEMA_VERSION = 1
_LOOKUP = 900  # keys in one SELECT: below the variable limit of every SQLite build

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS recipes (
  id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, stage TEXT NOT NULL, identity TEXT NOT NULL,
  calls INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
  prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,
  cost REAL NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS calls (
  id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, recipe INTEGER NOT NULL, answer TEXT NOT NULL,
  attempts INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS failures (
  key BLOB PRIMARY KEY, recipe INTEGER NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL,
  attempts INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS models (
  recipe INTEGER NOT NULL, model TEXT NOT NULL, calls INTEGER NOT NULL,
  PRIMARY KEY (recipe, model));
CREATE TABLE IF NOT EXISTS chunks (
  stage TEXT NOT NULL, name TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,
  rows INTEGER NOT NULL, errors INTEGER NOT NULL, calls INTEGER NOT NULL,
  PRIMARY KEY (stage, name));
CREATE TABLE IF NOT EXISTS stages (
  stage TEXT NOT NULL, fingerprint TEXT NOT NULL, chunks INTEGER NOT NULL,
  PRIMARY KEY (stage, fingerprint));
"""


@dataclass(frozen=True, slots=True)
class RecipeTotals:
    """Usage of one recipe so far."""

    stage: str
    identity: dict[str, Any]
    digest: bytes
    calls: int
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    cost: float


class CallStore:
    """The calls of one work folder.

    A store belongs to the thread that opened it, like its SQLite connection; other threads are
    refused. Each thread or process opens its own store on the same file: they may write at the same
    time, and a call answered by several of them counts once.

    Parameters
    ----------
    path : Path
        The SQLite file; created when absent.
    durability : {"normal", "full"}
        See the module docstring.
    read_only : bool
        Open an existing file without writing (for ``cje status`` beside a running run).
    """

    def __init__(self, path: Path, *, durability: str = "normal", read_only: bool = False) -> None:
        self.path, self._read_only = path, read_only
        self._thread, self._closed = threading.get_ident(), False
        self._groups = GroupCommit(self.commit)
        self._recipes: dict[bytes, int] = {}
        with disk_error(path.parent):
            self._connection = _open(path, durability, read_only)
        try:
            found = self._rows("SELECT value FROM meta WHERE name='schema'")
            version = str(found[0][0]) if found else None
            if version != str(SCHEMA_VERSION):
                raise CJEError(
                    "the store was written by another version of this package",
                    where=str(path),
                    value=version,
                    hint=f"this version reads schema {SCHEMA_VERSION}; use another work_dir",
                )
        except CJEError:
            self._connection.close()
            raise

    @property
    def _db(self) -> sqlite3.Connection:
        """The connection, for the thread that may use it."""
        if threading.get_ident() != self._thread:
            raise CJEError(
                "a store of calls was used by another thread than the one that opened it",
                where=str(self.path),
                hint="open one in each thread, CallStore(path): several may write to one file",
            )
        if self._closed:
            raise CJEError("the store of calls is closed", where=str(self.path), hint="open it")
        return self._connection

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Rows of a SELECT; raises an error about the file."""
        with disk_error(self.path.parent):
            return self._db.execute(statement, values).fetchall()

    def _change(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Make and commit one change."""
        with disk_error(self.path.parent):
            self._db.execute(statement, values)

    # -- reading -----------------------------------------------------------------------------

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, dict[str, Any]]:
        """Answers of the finished calls among `keys`."""
        found: dict[bytes, dict[str, Any]] = {}
        for part in _parts(keys):
            marks = ",".join("?" * len(part))
            rows = self._rows(f"SELECT key, answer FROM calls WHERE key IN ({marks})", part)
            found.update((key, self._object(answer)) for key, answer in rows)
        return found

    def _object(self, text: Any) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise damaged(self.path, "an entry is not JSON") from error
        if not isinstance(value, dict):
            raise damaged(self.path, "an entry is not a JSON object")
        return value

    async def fetch(self, keys: Sequence[bytes]) -> dict[bytes, dict[str, Any]]:
        """`get_many`, under the name that a remote store also has."""
        return self.get_many(keys)

    def count_known(self, keys: Sequence[bytes]) -> int:
        """Number of finished calls among `keys` (reads only the index)."""
        return len(self._known(keys))

    def _known(self, keys: Sequence[bytes]) -> set[bytes]:
        found: set[bytes] = set()
        for part in _parts(keys):
            marks = ",".join("?" * len(part))
            rows = self._rows(f"SELECT key FROM calls WHERE key IN ({marks})", part)
            found.update(row[0] for row in rows)
        return found

    def all_keys(self) -> Iterable[tuple[bytes]]:
        """Every finished key, in the order of SQLite."""
        return self._rows("SELECT key FROM calls")

    def totals(self) -> list[RecipeTotals]:
        """Running totals of every recipe, in the order in which they first appeared."""
        rows = self._rows(
            "SELECT stage, identity, digest, calls, attempts, prompt_tokens, completion_tokens,"
            " cost FROM recipes ORDER BY id"
        )
        made = []
        for stage, identity, digest, *counts, cost in rows:
            calls, attempts, prompt, completion = (self._number(n, int) for n in counts)
            made.append(
                RecipeTotals(
                    str(stage), self._object(identity), digest, calls, attempts, prompt,
                    completion, self._number(cost, float),
                )
            )  # fmt: skip
        return made

    def _number(self, value: Any, kind: type[N]) -> N:
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise damaged(self.path, "an entry is not a number")
        return kind(value)

    def spent(self) -> tuple[int, float]:
        """Attempts made and money spent so far, over all runs in this folder."""
        row = self._rows("SELECT coalesce(sum(attempts), 0), coalesce(sum(cost), 0) FROM recipes")[
            0
        ]
        return self._number(row[0], int), self._number(row[1], float)

    def failures(self) -> list[tuple[str, str, int]]:
        """Calls given up: (stage, reason, count), most frequent first."""
        rows = self._rows(
            "SELECT r.stage, f.reason, count(*) AS n FROM failures f JOIN recipes r"
            " ON r.id = f.recipe GROUP BY r.stage, f.reason ORDER BY n DESC, 1, 2"
        )
        return [(str(stage), str(reason), int(n)) for stage, reason, n in rows]

    # -- writing -----------------------------------------------------------------------------

    def register(self, keys: CallKeys) -> None:
        """Record a recipe for its calls to refer to."""
        if keys.digest in self._recipes:
            return
        self._change(
            "INSERT OR IGNORE INTO recipes (digest, stage, identity) VALUES (?, ?, ?)",
            (keys.digest, keys.stage, keys.identity),
        )
        row = self._rows("SELECT id FROM recipes WHERE digest = ?", (keys.digest,))[0]
        self._recipes[keys.digest] = int(row[0])

    async def put(self, record: CallRecord) -> None:
        """Queue `record` and return after its group is committed."""
        await self._groups.put(record)

    async def drain(self) -> None:
        """Commit the queue."""
        await self._groups.drain()

    async def commit(self, records: list[CallRecord]) -> None:
        """`put_many`, under the name that a remote store also has."""
        self.put_many(records)

    def put_many(self, records: Sequence[CallRecord]) -> None:
        """Commit `records` in one transaction."""
        with disk_error(self.path.parent):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._write(records)
                self._db.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back by itself (a full disk does that).
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _write(self, records: Sequence[CallRecord]) -> None:
        # Two workers may answer one call (if the first seemed dead); it counts once.
        answered = {r.key: r for r in records if r.reason is None}
        known = self._known(list(answered))
        done = [r for key, r in answered.items() if key not in known]
        lost = [r for r in records if r.reason is not None]
        self._db.executemany(
            "INSERT INTO calls (key, recipe, answer, attempts) VALUES (?, ?, ?, ?)",
            [(r.key, self._recipes[r.recipe], r.text, r.attempts) for r in done],
        )
        # A call given up in an earlier run and answered now is no longer a failure.
        self._db.executemany("DELETE FROM failures WHERE key = ?", [(r.key,) for r in done])
        if lost:
            self._db.executemany(
                "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?)",
                [(r.key, self._recipes[r.recipe], r.reason, r.message, r.attempts) for r in lost],
            )
        totals: dict[bytes, list[float]] = {}
        for r in records:
            sums = totals.setdefault(r.recipe, [0, 0, 0, 0, 0.0])
            sums[1] += r.attempts
            sums[2] += r.prompt_tokens
            sums[3] += r.completion_tokens
            sums[4] += r.cost
        for r in done:
            totals[r.recipe][0] += 1
        self._db.executemany(
            "UPDATE recipes SET calls = calls + ?, attempts = attempts + ?,"
            " prompt_tokens = prompt_tokens + ?, completion_tokens = completion_tokens + ?,"
            " cost = cost + ? WHERE id = ?",
            [(*sums, self._recipes[digest]) for digest, sums in totals.items()],
        )
        answered_by = Counter((self._recipes[r.recipe], r.model) for r in done if r.model)
        self._db.executemany(
            "INSERT INTO models VALUES (?, ?, ?)"
            " ON CONFLICT (recipe, model) DO UPDATE SET calls = calls + excluded.calls",
            [(recipe, model, n) for (recipe, model), n in answered_by.items()],
        )

    def close(self) -> None:
        """Fold the log into the file (unless read-only) and close."""
        if self._closed:
            return
        db = self._db
        try:
            if not self._read_only:
                with disk_error(self.path.parent):
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._closed = True
            db.close()

    # -- chunks of stage output --------------------------------------------------------------

    def record_chunk(self, stage: str, name: str, facts: tuple[str, int, int, int, int]) -> None:
        """Record a complete chunk file: (sha256, bytes, rows, errors, calls)."""
        self._change(
            "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?)", (stage, name, *facts)
        )

    def find_chunk(self, stage: str, name: str) -> tuple[str, int, int, int, int] | None:
        """(sha256, bytes, rows, errors, calls) of a recorded chunk."""
        rows = self._rows(
            "SELECT sha256, bytes, rows, errors, calls FROM chunks WHERE stage = ? AND name = ?",
            (stage, name),
        )
        if not rows:
            return None
        size, n_rows, errors, calls = (self._number(value, int) for value in rows[0][1:])
        return str(rows[0][0]), size, n_rows, errors, calls

    def record_stage(self, stage: str, fingerprint: str, n_chunks: int) -> None:
        """Record a complete stage and its number of chunks."""
        self._change(
            "INSERT OR REPLACE INTO stages VALUES (?, ?, ?)", (stage, fingerprint, n_chunks)
        )

    def find_stage(self, stage: str, fingerprint: str) -> int | None:
        """Number of chunks of a complete stage, or None."""
        rows = self._rows(
            "SELECT chunks FROM stages WHERE stage = ? AND fingerprint = ?", (stage, fingerprint)
        )
        return self._number(rows[0][0], int) if rows else None

    def note(self, name: str) -> str | None:
        """The short text stored as `name`, or None."""
        rows = self._rows("SELECT value FROM meta WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def write_note(self, name: str, text: str) -> None:
        """Store a short text as `name`."""
        self._change("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, text))


def _parts(keys: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    return (keys[start : start + _LOOKUP] for start in range(0, len(keys), _LOOKUP))


def _open(path: Path, durability: str, read_only: bool) -> sqlite3.Connection:
    if read_only:
        # As an escaped URI: a folder may be called "run #3" or "50%".
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None
        )
    make_private_folder(path.parent)
    create_private(path)
    db = sqlite3.connect(path, isolation_level=None, timeout=10)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")
        db.execute("PRAGMA cache_size=-65536")  # 64 MiB: the key index of about a million calls
        db.executescript(_SCHEMA)
        db.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION),))
    except sqlite3.Error:
        db.close()
        raise
    return db
