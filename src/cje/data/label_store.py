"""A labels file of `cje label`, read: labels with raters, probabilities and skips."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cje.data.dataset import Dataset
from cje.data.label_keys import place_entries, row_keys
from cje.data.opening import open_file
from cje.data.raters import RaterLabels
from cje.data.scale import Scale
from cje.errors import CJEError
from cje.hints import option_hint

__all__ = [
    "APPLICATION_ID",
    "SCHEMA_VERSION",
    "StoredLabels",
    "attach_labels",
    "is_label_store",
    "read_label_store",
]

APPLICATION_ID = 0x434A454C  # "CJEL"
SCHEMA_VERSION = 1
_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True)
class StoredLabels:
    """What a labels file holds, ready to be joined to the data it was made from.

    Attributes
    ----------
    rows : list of dict
        One per counted label: prompt_id, policy, draw_idx, rater, oracle_label, propensity.
        The third rater of a disagreement is left out unless the target is the majority.
    pairs : list of dict
        Side-by-side answers: prompt_id, policy_a, policy_b, draw_a, draw_b, rater, winner, value (1
        where `policy_a` won, 1/2 for a tie and for both bad), sides, propensity.
    skips : list of dict
        prompt_id, policy, draw_idx, rater of answers that were skipped.
    meta : dict
        What the study fixed: design, count, seed, scale, rubric fingerprint, target.
    """

    rows: list[dict[str, Any]]
    pairs: list[dict[str, Any]]
    skips: list[dict[str, Any]]
    meta: dict[str, str]


def is_label_store(source: Any) -> bool:
    """Whether `source` is the path of a labels file."""
    if not isinstance(source, str | Path) or not Path(source).is_file():
        return False
    with open_file(Path(source)) as file:
        head = file.read(72)
    return head.startswith(_MAGIC) and head[68:72] == APPLICATION_ID.to_bytes(4, "big")


def read_label_store(path: str | Path) -> StoredLabels:
    """The answers that count: the last one of each rater and item.

    The probability of a row is that of the design times the share of the drawn (or, in an active
    design, of all) units that were visited by now: the order was random, so this is exact for a
    study stopped at any time.

    Raises
    ------
    CJEError
        Not a labels file, or one that cannot be read.
    """
    where = str(path)
    if not is_label_store(path):
        raise CJEError("not a labels file of cje label", where=where)
    try:
        uri = f"{Path(path).absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=30)
        connection.row_factory = sqlite3.Row
        try:
            return _read(connection, where)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise CJEError(f"cannot read the labels file: {error}", where=where) from error


def attach_labels(data: Dataset, stored: StoredLabels, where: str = "the labels file") -> Dataset:
    """`data` with the stored labels, every rater's, and each row's labelling probability.

    Existing labels of the data are set aside: the design does not know how they were chosen.

    Raises
    ------
    CJEError
        A label of a row that the data do not have and did not skip; a file of side-by-side
        answers only.
    """
    if stored.pairs and not stored.rows:
        raise CJEError(
            "the file holds side-by-side comparisons, not labels of single responses", where=where,
            hint=f"use {option_hint('estimator', 'pairwise')}",
        )  # fmt: skip
    place = {key: row for row, key in enumerate(row_keys(data))}
    keys = [(e["prompt_id"], e["policy"], e["draw_idx"]) for e in stored.rows]
    found, rows, lost = place_entries(keys, place, data, where, "label")
    entries = [stored.rows[i] for i in found]
    values = [entry["oracle_label"] for entry in entries]
    kept = json.loads(stored.meta["scale"])
    scale = Scale(kept["low"], kept["high"])
    order = np.argsort(np.asarray(rows, dtype=np.int64), kind="stable")
    at = np.asarray(rows, dtype=np.int64)[order]
    unit = scale.to_unit(np.asarray(values, dtype=float)[order])
    raters = [entries[i]["rater"] for i in order]
    propensity = np.full(len(data), np.nan)
    if stored.meta["design"] == "random" and stored.rows:
        propensity[:] = stored.rows[0]["propensity"]
    propensity[at] = [entries[i]["propensity"] for i in order]
    labels = RaterLabels.from_arrays(at, unit, raters)
    several = len(np.unique(at)) < len(at)
    notes = [*data.metadata.get("reading", ()), f"{len(np.unique(at))} rows labelled in {where}"]
    notes += lost
    if data.n_labelled:
        notes.append(f"{data.n_labelled} labels of the data themselves were set aside")
    return data.with_columns(
        oracle_label=labels.row_means(len(data)), rater_labels=labels if several else None,
        label_propensity=propensity, oracle_scale=scale,
    ).with_metadata(
        reading=notes, label_skips=_by_policy(stored.skips), label_counts=_by_policy(entries)
    )  # fmt: skip


def _by_policy(entries: list[dict[str, Any]]) -> dict[str, int]:
    """Rows of each policy among the entries, each row once."""
    rows = {(e["policy"], e["prompt_id"], e["draw_idx"]) for e in entries}
    counts: dict[str, int] = {}
    for policy, _, _ in rows:
        counts[policy] = counts.get(policy, 0) + 1
    return counts


def _read(db: sqlite3.Connection, where: str) -> StoredLabels:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != SCHEMA_VERSION:
        raise CJEError("the labels file has another version", where=where, value=version)
    meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
    share = _visited_share(db, meta)
    rows: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    skips: list[dict[str, Any]] = []
    query = """SELECT l.*, i.prompt_id, i.policy, i.draw_idx, i.policy_b, i.draw_b
               FROM latest l JOIN item i ON i.id = l.item ORDER BY l.item, l.id"""
    for r in db.execute(query):
        if r["role"] == "third" and meta.get("target") != "majority":
            continue
        key = {"prompt_id": r["prompt_id"], "rater": r["rater"]}
        if r["kind"] == "skip":
            skips.append(key | {"policy": r["policy"], "draw_idx": r["draw_idx"]})
        elif r["policy_b"] is not None:
            pairs.append(key | _pair(r, r["propensity"] * share))
        else:
            rows.append(key | {
                "policy": r["policy"], "draw_idx": r["draw_idx"], "oracle_label": r["value"],
                "propensity": min(r["propensity"] * share, 1.0),
            })  # fmt: skip
    if meta.get("target") == "majority":
        rows = _majority(rows)
    return StoredLabels(rows, pairs, skips, meta)


def _visited_share(db: sqlite3.Connection, meta: dict[str, str]) -> float:
    if meta["design"] == "active":
        (visited,) = db.execute("SELECT count(*) FROM visit").fetchone()
        return min(visited / int(meta["n_units"]), 1.0) if visited else 1.0
    answered, every = db.execute(
        "SELECT (SELECT count(DISTINCT item) FROM latest), (SELECT count(*) FROM item)"
    ).fetchone()
    return answered / every if answered else 1.0


def _pair(r: sqlite3.Row, propensity: float) -> dict[str, Any]:
    winner = r["word"]
    if winner in ("A", "B"):  # what the rater saw; the sides say which policy that was
        winner = "a" if (winner == "A") == (r["sides"] == "ab") else "b"
    return {
        "policy_a": r["policy"], "policy_b": r["policy_b"], "draw_a": r["draw_idx"],
        "draw_b": r["draw_b"], "winner": winner, "value": r["value"], "sides": r["sides"],
        "propensity": min(propensity, 1.0),
    }  # fmt: skip


def _majority(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One label per row: the most frequent value, the middle one where all differ."""
    grouped: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["prompt_id"], row["policy"], row["draw_idx"]), []).append(row)
    found = []
    for group in grouped.values():
        values = sorted(row["oracle_label"] for row in group)
        best = max(values, key=lambda v: (values.count(v), -abs(v - values[len(values) // 2])))
        found.append(group[0] | {"oracle_label": best, "rater": "majority"})
    return found
