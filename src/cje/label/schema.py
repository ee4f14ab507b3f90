"""The SQLite file of a labelling study: tables, and how a connection is opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from cje.data.label_store import APPLICATION_ID, SCHEMA_VERSION
from cje.errors import CJEError

__all__ = ["create_file", "open_file"]

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);

-- One response to label, or two side by side. `slots`: raters it can still be given to.
CREATE TABLE item (
  id INTEGER PRIMARY KEY, unit INTEGER NOT NULL, prompt_id TEXT NOT NULL, policy TEXT NOT NULL,
  draw_idx INTEGER NOT NULL, policy_b TEXT, draw_b INTEGER, row INTEGER NOT NULL,
  propensity REAL NOT NULL, wanted INTEGER NOT NULL, slots INTEGER NOT NULL,
  prompt TEXT, response TEXT, response_b TEXT
);
CREATE INDEX item_open ON item (id) WHERE slots > 0;

-- Active design: every unit visited, with the probability that the coin was thrown with.
CREATE TABLE visit (
  number INTEGER PRIMARY KEY, unit INTEGER NOT NULL UNIQUE, propensity REAL NOT NULL,
  shown INTEGER NOT NULL
);

-- An item in the hands of a rater. `done` once it is answered or skipped.
CREATE TABLE assignment (
  item INTEGER NOT NULL REFERENCES item, rater TEXT NOT NULL, tab TEXT NOT NULL,
  role TEXT NOT NULL, sides TEXT NOT NULL, since REAL NOT NULL, done INTEGER NOT NULL,
  PRIMARY KEY (item, rater)
) WITHOUT ROWID;
CREATE INDEX assignment_open ON assignment (rater, since) WHERE done = 0;

-- Every answer ever given; the last one of an item and rater counts. Nothing is deleted.
CREATE TABLE answer (
  id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL REFERENCES item,
  rater TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('label', 'skip', 'undo')),
  value REAL, word TEXT, note TEXT NOT NULL, at TEXT NOT NULL, seconds REAL NOT NULL,
  sides TEXT NOT NULL, role TEXT NOT NULL, design TEXT NOT NULL, propensity REAL NOT NULL,
  rubric TEXT NOT NULL, key TEXT NOT NULL UNIQUE
);
CREATE INDEX answer_item ON answer (item, rater, id);

CREATE VIEW latest AS SELECT a.* FROM answer a WHERE a.kind != 'undo' AND a.id =
  (SELECT max(b.id) FROM answer b WHERE b.item = a.item AND b.rater = a.rater);
"""


def create_file(path: Path) -> sqlite3.Connection:
    """Create a new, empty store at `path`."""
    if path.exists():
        raise CJEError("the labels file exists already", where=str(path))
    connection = _connect(path)
    connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.commit()
    # The header identifies the file; without a checkpoint it would be in the log beside it.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return connection


def open_file(path: Path) -> sqlite3.Connection:
    """Open an existing store, after checking that it is one."""
    if not path.exists():
        raise CJEError("no such labels file", where=str(path), hint="create one with cje label")
    connection = _connect(path)
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if found != APPLICATION_ID:
        connection.close()
        raise CJEError("not a labels file of cje label", where=str(path))
    if version != SCHEMA_VERSION:
        connection.close()
        raise CJEError("the labels file has another version", where=str(path), value=version)
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    """Write-ahead log, and every commit on disk before it returns."""
    try:
        connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        raise CJEError(f"cannot open the labels file: {error}", where=str(path)) from error
    connection.row_factory = sqlite3.Row
    return connection
