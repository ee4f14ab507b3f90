"""`Store`: who labels which item, and every answer ever given, one commit each."""

from __future__ import annotations

import datetime
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cje.errors import CJEError
from cje.label.scale import AnswerScale
from cje.label.schema import create_file, open_file

__all__ = ["Conflict", "Item", "Store"]

LEASE_SECONDS = 1_800.0
_FIRST, _THIRD = "rater", "third"


class Conflict(CJEError):
    """The item was answered elsewhere, or is no longer assigned to this rater."""


@dataclass(frozen=True)
class Item:
    """An item in a rater's hands.

    Attributes
    ----------
    id : int
    sides : str
        ``"ab"`` or ``"ba"``: which response stands on the left of a pair.
    revision : int
        Number of the rater's last answer to it, 0 before the first.
    answer : str or None
        Their current answer, as they see it; ``"skip"`` for a skip.
    """

    id: int
    sides: str
    prompt: str
    response: str
    response_b: str | None
    revision: int
    answer: str | None
    note: str


class Store:
    """The labels file. Safe to use from several threads of one process.

    An item is given to as many raters as it needs and no more. An answer counts once, from
    whatever tab or retry it comes; a changed answer is appended to the history.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._lock = threading.RLock()
        self.meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        self.scale = AnswerScale.from_json(self.meta["scale"]) if "scale" in self.meta else None

    @classmethod
    def create(
        cls, path: Path, meta: Mapping[str, str], items: Iterable[Mapping[str, Any]] = ()
    ) -> Store:
        """Create a file with the settings of the study, and its items in labelling order."""
        connection = create_file(path)
        with connection:  # one commit: a killed command cannot leave a study with half its items
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
            _insert_items(connection, items)
        return cls(connection)

    @classmethod
    def open(cls, path: Path) -> Store:
        """An existing file.

        Raises
        ------
        CJEError
            No such file, another kind of file, or a file whose command was stopped before it
            held an item.
        """
        store = cls(open_file(path))
        if not store.meta:
            store.close()
            raise CJEError(
                "the labels file is empty: cje label was stopped while making it",
                where=str(path), hint="delete it and start again",
            )  # fmt: skip
        return store

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db

    def read(self, query: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Rows of a query."""
        with self._lock:
            return self._db.execute(query, tuple(values)).fetchall()

    def pace(self) -> float | None:
        """Median seconds per answer; None before any was timed."""
        rows = self.read("SELECT seconds FROM latest WHERE seconds > 0 ORDER BY seconds")
        return float(rows[len(rows) // 2][0]) if rows else None

    # ---- items ------------------------------------------------------------------------------

    def add_visit(
        self, unit: int, propensity: float, shown: bool, rows: Iterable[Mapping[str, Any]]
    ) -> None:
        """Record one coin of an active design together with the items it showed."""
        with self._write() as db:
            db.execute(
                "INSERT INTO visit (unit, propensity, shown) VALUES (?, ?, ?)",
                (unit, propensity, int(shown)),
            )
            _insert_items(db, rows)

    # ---- giving out -------------------------------------------------------------------------

    def take(self, rater: str, tab: str, *, steal: bool = True) -> Item | None:
        """The item this tab holds, or a new one; None if no item is left for the rater.

        With `steal`, take an item from another tab of the same rater if nothing else is left.
        """
        with self._write() as db:
            now = time.time()
            held = db.execute(
                "SELECT item FROM assignment WHERE done = 0 AND rater = ? AND tab = ?", (rater, tab)
            ).fetchone()
            if held is None:
                held = self._give(db, rater, tab, now, steal)
            return None if held is None else self._item(db, held[0], rater)

    def _give(self, db: sqlite3.Connection, rater: str, tab: str, now: float, steal: bool) -> Any:
        fresh = """SELECT id FROM item WHERE slots > 0 AND NOT EXISTS (SELECT 1 FROM assignment a
                   WHERE a.item = item.id AND a.rater = ?) ORDER BY id LIMIT 1"""
        found = db.execute(fresh, (rater,)).fetchone()
        if found is None:
            # Then items not answered within the lease, then those of the rater's other tabs.
            self._release(db, now - LEASE_SECONDS)
            found = db.execute(fresh, (rater,)).fetchone()
        if found is not None:
            self._assign(db, found[0], rater, tab, now)
            return found
        if not steal:
            return None
        other = db.execute(
            "SELECT item FROM assignment WHERE done = 0 AND rater = ? ORDER BY since LIMIT 1",
            (rater,),
        ).fetchone()
        if other is not None:
            db.execute(
                "UPDATE assignment SET tab = ?, since = ? WHERE item = ? AND rater = ?",
                (tab, now, other[0], rater),
            )
        return other

    def _assign(self, db: sqlite3.Connection, item: int, rater: str, tab: str, now: float) -> None:
        (others,) = db.execute("SELECT count(*) FROM assignment WHERE item = ?", (item,)).fetchone()
        role = _THIRD if others >= 2 and self.meta.get("third") == "1" else _FIRST
        sides = "ba" if secrets.randbits(1) else "ab"
        db.execute(
            "INSERT INTO assignment VALUES (?, ?, ?, ?, ?, ?, 0)",
            (item, rater, tab, role, sides, now),
        )
        db.execute("UPDATE item SET slots = slots - 1 WHERE id = ?", (item,))

    def _release(self, db: sqlite3.Connection, before: float) -> None:
        stale = db.execute(
            """SELECT item, rater FROM assignment WHERE done = 0 AND since < ?
               AND tab NOT LIKE 'sheet-%' AND NOT EXISTS
               (SELECT 1 FROM answer WHERE answer.item = assignment.item
                AND answer.rater = assignment.rater)""", (before,)
        ).fetchall()  # fmt: skip
        for item, rater in stale:
            db.execute("DELETE FROM assignment WHERE item = ? AND rater = ?", (item, rater))
            db.execute("UPDATE item SET slots = slots + 1 WHERE id = ?", (item,))

    def claim(self, rater: str, item: int) -> Item:
        """The item for this rater (an import), assigned unless it is theirs already.

        Raises
        ------
        Conflict
            Other raters have all its slots.
        """
        with self._write() as db:
            held = db.execute(
                "SELECT 1 FROM assignment WHERE item = ? AND rater = ?", (item, rater)
            ).fetchone()
            if held is None:
                (slots,) = db.execute("SELECT slots FROM item WHERE id = ?", (item,)).fetchone()
                if slots < 1:
                    raise Conflict(f"item {item} was given to other raters")
                self._assign(db, item, rater, "import", time.time())
            return self._item(db, item, rater)

    def look(self, rater: str, item: int) -> Item:
        """An item this rater was given before."""
        with self._lock:
            return self._item(self._db, item, rater)

    def _item(self, db: sqlite3.Connection, item: int, rater: str) -> Item:
        row = db.execute(
            """SELECT i.*, a.sides FROM item i JOIN assignment a ON a.item = i.id
               WHERE i.id = ? AND a.rater = ?""", (item, rater)
        ).fetchone()  # fmt: skip
        if row is None:
            raise Conflict("this item is not assigned to you")
        last = _last(db, item, rater)
        shown = None
        if last is not None and last["kind"] != "undo":
            shown = last["word"] if last["kind"] == "label" else "skip"
        return Item(
            row["id"], row["sides"], row["prompt"] or "", row["response"] or "",
            row["response_b"], 0 if last is None else last["id"], shown,
            "" if last is None else last["note"],
        )  # fmt: skip

    # ---- answers ----------------------------------------------------------------------------

    def answer(
        self, rater: str, item: int, *, word: str | None, revision: int, key: str,
        seconds: float = 0.0, note: str = "",
    ) -> int:  # fmt: skip
        """Store one answer (`word` None: a skip) and return its number.

        `revision` is the number of the last answer the rater has seen for the item; `key` names
        this answer, so that sending it again changes nothing.

        Raises
        ------
        Conflict
            The item was answered in another tab, or is no longer assigned to the rater.
        CJEError
            The answer is not on the scale.
        """
        assert self.scale is not None
        with self._write() as db:
            known = db.execute(
                "SELECT id, item, rater FROM answer WHERE key = ?", (key,)
            ).fetchone()
            if known is not None:
                if (known["item"], known["rater"]) != (item, rater):
                    raise Conflict("this answer was stored for another item")
                return int(known["id"])
            held = db.execute(
                "SELECT * FROM assignment WHERE item = ? AND rater = ?", (item, rater)
            ).fetchone()
            if held is None:
                raise Conflict("this item is not assigned to you: another rater has it")
            last = _last(db, item, rater)
            if revision != (0 if last is None else last["id"]):
                raise Conflict("this item was answered in another tab")
            value = None if word is None else self._value(word, held["sides"])
            number = self._append(
                db, held, "skip" if word is None else "label", value, word, note, seconds, key
            )
            db.execute("UPDATE assignment SET done = 1 WHERE item = ? AND rater = ?", (item, rater))
            self._ask_third(db, item)
            return number

    def undo(self, rater: str, key: str) -> Item | None:
        """Withdraw the rater's last answer and return its item; None if there is no answer.

        `key` identifies this request: sending it again withdraws nothing more.
        """
        with self._write() as db:
            known = db.execute("SELECT item, rater FROM answer WHERE key = ?", (key,)).fetchone()
            if known is not None:
                if known["rater"] != rater:
                    raise Conflict("this key was used by another rater")
                return self._item(db, known["item"], rater)
            last = db.execute(
                "SELECT * FROM latest WHERE rater = ? ORDER BY id DESC LIMIT 1", (rater,)
            ).fetchone()
            if last is None:
                return None
            held = db.execute(
                "SELECT * FROM assignment WHERE item = ? AND rater = ?", (last["item"], rater)
            ).fetchone()
            self._append(db, held, "undo", None, None, last["note"], 0.0, key)
            db.execute(
                "UPDATE assignment SET done = 0, since = ? WHERE item = ? AND rater = ?",
                (time.time(), last["item"], rater),
            )
            return self._item(db, last["item"], rater)

    def _append(
        self, db: sqlite3.Connection, held: sqlite3.Row, kind: str, value: float | None,
        word: str | None, note: str, seconds: float, key: str,
    ) -> int:  # fmt: skip
        (propensity,) = db.execute(
            "SELECT propensity FROM item WHERE id = ?", (held["item"],)
        ).fetchone()
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        made = db.execute(
            """INSERT INTO answer (item, rater, kind, value, word, note, at, seconds, sides, role,
               design, propensity, rubric, key) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)""",
            (held["item"], held["rater"], kind, value, word, note, now, seconds, held["sides"],
             held["role"], self.meta["design"], propensity, self.meta["rubric_fingerprint"], key),
        )  # fmt: skip
        assert made.lastrowid is not None
        return made.lastrowid

    def _value(self, word: str, sides: str) -> float:
        assert self.scale is not None
        if self.scale.kind != "pair":
            return self.scale.value_of(word)
        if word not in self.scale.words:
            raise CJEError("the answer is not on the scale", value=word, hint=self.scale.describe())
        if word in ("tie", "both bad"):
            return 0.5
        return 1.0 if (word == "A") == (sides == "ab") else 0.0

    def _ask_third(self, db: sqlite3.Connection, item: int) -> None:
        """Open an item to a third rater if the first two disagree and the study asks for it."""
        if self.meta.get("third") != "1" or self.scale is None:
            return
        values = [r[0] for r in db.execute(
            "SELECT value FROM latest WHERE item = ? AND kind = 'label' AND role = 'rater'", (item,)
        )]  # fmt: skip
        width = self.scale.high - self.scale.low
        far = 0.25 * width if self.scale.kind == "number" else 0.0
        if len(values) == 2 and abs(values[0] - values[1]) > far:
            db.execute(
                "UPDATE item SET wanted = 3, slots = slots + 1 WHERE id = ? AND wanted = 2", (item,)
            )

    # ---- what there is ----------------------------------------------------------------------

    def progress(self, rater: str) -> dict[str, Any]:
        """Progress that a rater may see: their own answers, items left, their pace."""
        own = self.read(
            "SELECT item, kind, seconds FROM latest WHERE rater = ? ORDER BY id", (rater,)
        )
        seconds = sorted(r["seconds"] for r in own if r["seconds"] > 0.0)
        return {
            "done": len(own),
            "skipped": sum(r["kind"] == "skip" for r in own),
            "items": [r["item"] for r in own],
            "pace": seconds[len(seconds) // 2] if seconds else None,
            "goal": int(self.meta["count"]),
        }


def _insert_items(db: sqlite3.Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    db.executemany(
        """INSERT INTO item (unit, prompt_id, policy, draw_idx, policy_b, draw_b, row, propensity,
           wanted, slots, prompt, response, response_b) VALUES (:unit, :prompt_id, :policy,
           :draw_idx, :policy_b, :draw_b, :row, :propensity, :wanted, :wanted, :prompt, :response,
           :response_b)""",
        list(rows),
    )  # fmt: skip


def _last(db: sqlite3.Connection, item: int, rater: str) -> Any:
    return db.execute(
        "SELECT * FROM answer WHERE item = ? AND rater = ? ORDER BY id DESC LIMIT 1", (item, rater)
    ).fetchone()
