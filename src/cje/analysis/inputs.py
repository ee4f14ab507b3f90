"""One source of rows, in any form that the functions of this package take, as a `Dataset`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.hints import option_hint

__all__ = ["as_table", "read_source"]


def read_source(source: Any, **reading: Any) -> Dataset | None:
    """Read any accepted source as a `Dataset`; None stays None."""
    if source is None or (isinstance(source, Dataset) and reading.get("labels") is None):
        return source
    from cje.data.label_store import attach_labels, is_label_store, read_label_store
    from cje.data.reader import read

    if is_label_store(reading.get("labels")):
        stored, path = read_label_store(reading["labels"]), str(reading["labels"])
        # A labels file records the rows and the scale of its labels.
        plain = reading | {"labels": None, "on": None}
        data = read_source(source, **plain)
        assert data is not None
        return attach_labels(data, stored, path)
    if is_label_store(source):
        raise CJEError(
            "a labels file holds no judge scores", where=str(source),
            hint="give the data it was made from, and this file as labels: "
            f"{option_hint('labels', str(source))}",
        )  # fmt: skip
    if isinstance(source, Dataset):
        raise CJEError(
            "labels cannot be joined to data that were read already",
            hint="read both at once: cje.data.read(data, labels=...)",
        )
    if reading.get("labels") is not None:
        reading = reading | _label_table(reading["labels"], reading)
    return read(as_table(source), **reading)


def as_table(source: Any) -> Any:
    """Convert a dict of columns to a frame; return anything else unchanged."""
    if isinstance(source, Mapping) and _is_dict_of_columns(source):
        return _frame_of(source)
    return source


def _label_table(labels: Any, reading: dict[str, Any]) -> dict[str, Any]:
    """A folder of labelled files, one per policy (a probe slice), as one table to join by key."""
    is_folder = isinstance(labels, str | Path) and Path(labels).is_dir()
    if not (isinstance(labels, Mapping | Dataset) or is_folder):
        return {}
    import polars as pl

    probe = read_source(labels, oracle_scale=reading["oracle_scale"], min_rows=1, require=())
    assert probe is not None
    table = {
        "policy": probe.policy.decode(),
        "prompt_id": probe.prompt_id.decode(),
        "draw_idx": probe.draw_idx,
        "oracle_label": probe.oracle_scale.from_unit(probe.oracle_label),
    }
    on = reading["on"] or ("policy", "prompt_id", "draw_idx")
    return {"labels": pl.DataFrame(table).filter(pl.col("oracle_label").is_not_nan()), "on": on}


def _is_dict_of_columns(source: Mapping[Any, Any]) -> bool:
    """Whether the values are lists of cells, arrays or series, and not one source per policy."""
    values = list(source.values())
    lists = [v for v in values if isinstance(v, Sequence) and not isinstance(v, str | bytes)]
    arrays = [v for v in values if len(getattr(v, "shape", ())) == 1]
    plain = arrays or any(len(v) and not isinstance(v[0], Mapping) for v in lists)
    return bool(plain) and len(lists) + len(arrays) == len(values)


def _frame_of(columns: Mapping[Any, Any]) -> Any:
    """A dict of columns as a frame; NaN means missing, as in a data frame."""
    import polars as pl

    from cje.data.frames import column_series

    lengths = {str(name): len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise CJEError(
            "the columns have different lengths",
            value=lengths,
            hint="a dict of columns needs one value per row in each; rows of policies come as "
            "{policy: [row, ...]}",
        )
    return pl.DataFrame([column_series(str(name), column) for name, column in columns.items()])
