"""Export and import labels, and write sheets for raters who label offline."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cje.data.label_store import read_label_store
from cje.errors import CJEError
from cje.label.sheets import read_table, write_table
from cje.label.store import Conflict, Store

__all__ = ["Imported", "export_labels", "import_labels", "write_sheet"]

_SHEET = ("item", "prompt", "response", "response_b", "label", "note")
_HISTORY = (
    "id", "item", "rater", "kind", "value", "word", "note", "at", "seconds", "sides", "role",
    "design", "propensity", "rubric",
)  # fmt: skip


@dataclass(frozen=True)
class Imported:
    """Outcome of an import: labels kept, rows without a label, and refused rows with the reason."""

    kept: int
    empty: int
    refused: tuple[str, ...]


def export_labels(store: Path, out: Path, *, history: bool = False) -> int:
    """Write the labels to a CSV, Parquet or Excel file (by extension); return the number of rows.

    With `history`, write every answer ever given, including changed and withdrawn ones and skips.
    CSV and Excel cells that a spreadsheet would run as a formula are written as text.
    """
    if history:
        query = f"SELECT {', '.join(_HISTORY)} FROM answer ORDER BY id"
        opened = Store.open(store)
        rows = [dict(row) for row in opened.read(query)]
        opened.close()
        return write_table(out, _HISTORY, rows)
    stored = read_label_store(store)
    if stored.pairs:
        columns = ("prompt_id", "policy_a", "policy_b", "draw_a", "draw_b", "rater", "winner",
                   "value", "sides", "propensity")  # fmt: skip
        return write_table(out, columns, stored.pairs)
    single = ("prompt_id", "policy", "draw_idx", "rater", "oracle_label", "propensity")
    return write_table(out, single, stored.rows)


def write_sheet(store: Path, out: Path, rater: str) -> int:
    """Write items for one rater to label offline: blind, with an empty column for the label.

    The items are reserved for this rater: nobody else is given them.

    Raises
    ------
    CJEError
        No item is free for this rater; an active study has none before its page asks for one.
    """
    opened = Store.open(store)
    try:
        rows: list[dict[str, Any]] = []
        while (item := opened.take(rater, f"sheet-{len(rows)}", steal=False)) is not None:
            sides = [item.response, item.response_b]
            if item.response_b is not None and item.sides == "ba":
                sides.reverse()
            rows.append({"item": item.id, "prompt": item.prompt, "response": sides[0],
                         "response_b": sides[1], "label": "", "note": ""})  # fmt: skip
        if not rows:
            raise _nothing_to_hand_out(opened, store)
        pairs = opened.meta["pairs"] == "1"
        columns = _SHEET if pairs else tuple(name for name in _SHEET if name != "response_b")
        assert opened.scale is not None
        return write_table(out, columns, rows, note=f"label: {opened.scale.describe()}")
    finally:
        opened.close()


def _nothing_to_hand_out(opened: Store, store: Path) -> CJEError:
    if opened.meta["design"] == "active":
        return CJEError(
            "an active study has no items for a sheet: it chooses the rows one by one, from the "
            "labels given before", where=str(store),
            hint=f"label on the page (cje label DATA --labels {store}), or begin a study whose "
            "rows are chosen in advance (--design random or stratified, another --labels)",
        )  # fmt: skip
    return CJEError(
        "no item is left to hand out: every item is labelled or with a rater", where=str(store),
        hint="import the sheets that are out (cje labels import)",
    )  # fmt: skip


def import_labels(store: Path, source: Path, *, rater: str | None = None) -> Imported:
    """Import labels from a sheet, a CSV file by key, or a Label Studio export (JSON).

    A row is found by its ``item`` number, or by prompt_id and policy (and draw_idx). The rater is
    the ``rater`` column's, or `rater`. Each label is checked against the scale; refused rows are
    reported, and the others are kept.

    Raises
    ------
    CJEError
        The file has no column to find rows by, no label column, or names no rater.
    """
    entries = _label_studio(source) if source.suffix.lower() == ".json" else _table_entries(source)
    opened = Store.open(store)
    kept = empty = 0
    refused: list[str] = []
    try:
        place = _places(opened)
        for number, entry in enumerate(entries, start=1):
            label = entry.get("label")
            if label is None or not str(label).strip():
                empty += 1
                continue
            who = str(entry.get("rater") or rater or "")
            if not who:
                raise CJEError("no rater is named", where=str(source), hint="give --rater NAME")
            try:
                _keep(opened, place, entry, str(label).strip(), who)
                kept += 1
            except CJEError as error:
                refused.append(f"row {number}: {error}")
    finally:
        opened.close()
    return Imported(kept, empty, tuple(refused))


def _places(store: Store) -> dict[Any, int]:
    """Item number by its number and by its key."""
    found: dict[Any, int] = {}
    for row in store.read("SELECT id, prompt_id, policy, draw_idx FROM item ORDER BY id"):
        found[row["id"]] = row["id"]
        found[row["prompt_id"], row["policy"], row["draw_idx"]] = row["id"]
    return found


def _keep(
    store: Store, place: Mapping[Any, int], entry: Mapping[str, Any], label: str, rater: str
) -> None:
    key: Any = _whole(entry.get("item"))
    if key is None:
        key = (
            str(entry.get("prompt_id")),
            str(entry.get("policy")),
            _whole(entry.get("draw_idx")) or 0,
        )  # fmt: skip
    if key not in place:
        raise CJEError("no item of this labels file", value=key)
    item = place[key]
    held = store.claim(rater, item)
    if held.answer is not None:
        assert store.scale is not None
        if held.answer == label or (
            "skip" not in (held.answer, label)
            and store.scale.kind != "pair"
            and store.scale.value_of(held.answer) == store.scale.value_of(label)
        ):
            return
        raise Conflict(f"item {item} has another answer by {rater} already: {held.answer}")
    store.answer(
        rater, item, word=label, revision=held.revision,
        key=f"import-{uuid.uuid4()}",
        note=str(entry.get("note") or ""),
    )  # fmt: skip


def _whole(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() else None


def _table_entries(source: Path) -> list[dict[str, Any]]:
    rows = read_table(source)
    if not rows:
        raise CJEError("the file has no rows", where=str(source))
    names = {name.strip().lower(): name for name in rows[0]}
    label = next(
        (names[n] for n in ("label", "oracle_label", "value", "rating") if n in names), None
    )
    if label is None or not ("item" in names or {"prompt_id", "policy"} <= set(names)):
        raise CJEError(
            "the file needs a column 'label', and 'item' or 'prompt_id' and 'policy'",
            where=str(source), value=list(rows[0]),
        )  # fmt: skip
    wanted = ("item", "prompt_id", "policy", "draw_idx", "rater", "note")
    return [
        {"label": row[label], **{n: row[names[n]] for n in wanted if n in names}} for row in rows
    ]


def _label_studio(source: Path) -> Iterable[dict[str, Any]]:
    """One entry per annotation: its task's data with the first rating, choice or number."""
    try:
        tasks = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CJEError(f"cannot read the export: {error}", where=str(source)) from error
    if not isinstance(tasks, list) or not all(map(_is_task, tasks)):
        raise CJEError(
            "not a Label Studio export", where=str(source),
            hint="export as JSON: a list of tasks with 'data' and 'annotations'",
        )  # fmt: skip
    for task in tasks:
        for annotation in task.get("annotations") or []:
            if annotation.get("was_cancelled"):
                continue
            who = annotation.get("completed_by")
            who = who.get("email") or who.get("id") if isinstance(who, dict) else who
            yield dict(task["data"]) | {
                "label": _annotated(annotation.get("result") or []),
                "rater": None if who is None else str(who),
            }


def _is_task(task: Any) -> bool:
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        return False
    annotations = task.get("annotations") or []
    return isinstance(annotations, list) and all(isinstance(a, dict) for a in annotations)


def _annotated(result: Any) -> Any:
    for part in result if isinstance(result, list) else []:
        value = part.get("value") if isinstance(part, dict) else None
        if not isinstance(value, dict):
            continue
        for name in ("rating", "number", "choices", "text"):
            found = value.get(name)
            found = found[0] if isinstance(found, list) and found else found
            if found not in (None, []):
                return found
    return None
