"""The arguments of `analyze_dataset`, checked and read: sources, options, level and margin."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.estimators.registry import REGISTRY, EstimatorEntry
from cje.hints import option_hint

__all__ = ["as_table", "check_options", "read_source"]

# Set by analyze_dataset from its own arguments.
_DATA = frozenset({"self", "data", "dataset", "sampler", "fresh_draws", "calibration_data"})


# ---- options --------------------------------------------------------------------------------


def check_options(
    entry: EstimatorEntry, options: Mapping[str, Any], targets: Sequence[str]
) -> dict[str, Any]:
    """The estimator's options by known names; `targets` are the policies of the log."""
    known = _options_of(entry)
    for name in options:
        if name in known:
            continue
        having = [e.name for e in REGISTRY.values() if name in _options_of(e)]
        hint = f"its options are {', '.join(known)}"
        if having:
            hint += f"; estimators with {name}: {', '.join(having)}"
        raise CJEError(f"the estimator '{entry.name}' has no such option", value=name, hint=hint)
    checked = dict(options)
    if "same_as_logging" in checked:
        checked["same_as_logging"] = _targets(checked["same_as_logging"], targets)
    return checked


def _options_of(entry: EstimatorEntry) -> list[str]:
    """Keyword options of the constructor, those passed on to its bases included."""
    names: dict[str, None] = {}
    for cls in entry.load().__mro__:
        if "__init__" not in vars(cls):
            continue
        kinds = {p.name: p.kind for p in inspect.signature(cls.__init__).parameters.values()}
        names |= dict.fromkeys(
            name
            for name, kind in kinds.items()
            if name not in _DATA and kind not in (inspect.Parameter.VAR_POSITIONAL,
                                                  inspect.Parameter.VAR_KEYWORD)
        )  # fmt: skip
        if inspect.Parameter.VAR_KEYWORD not in kinds.values():
            break
    return list(names)


def _targets(given: Any, targets: Sequence[str]) -> tuple[str, ...]:
    """Names of target policies: one string is one name, an unknown name an error."""
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in targets:
            raise CJEError(
                "same_as_logging names a policy that the logged data have no log-probs of",
                value=name,
                hint=f"target policies: {', '.join(targets) or 'none'}",
            )
    return names


# ---- sources --------------------------------------------------------------------------------


def read_source(source: Any, **reading: Any) -> Dataset | None:
    """Whatever was given as a `Dataset`; None stays None."""
    if source is None or (isinstance(source, Dataset) and reading.get("labels") is None):
        return source
    from cje.data.label_store import attach_labels, is_label_store, read_label_store
    from cje.data.reader import read

    if is_label_store(reading.get("labels")):
        stored, path = read_label_store(reading["labels"]), str(reading["labels"])
        # A labels file says itself which rows its labels belong to, and on which scale they are.
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
    """A dict of columns as a frame; anything else as it is."""
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
    """Lists of cells, arrays or series; otherwise it is rows, a frame or a path for each policy."""
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
