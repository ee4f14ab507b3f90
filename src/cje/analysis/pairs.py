"""Recognise and read comparisons of two responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cje.analysis.inputs import read_source
from cje.data.comparison_reader import is_pairwise, read_comparisons
from cje.data.comparisons import Comparisons
from cje.data.dataset import Dataset
from cje.data.label_store import is_label_store, read_label_store
from cje.data.sources import open_sources
from cje.data.stored_comparisons import stored_comparisons
from cje.data.style import STYLES
from cje.errors import CJEError
from cje.hints import by_interface, option_hint

__all__ = ["check_pairwise", "comparisons_of"]

_CHOICES = ("auto", "pairwise")
_READ = ("fields", "labels", "on", "covariates", "label_map", "sheet", "skip_bad_rows")


def comparisons_of(
    source: Any, groups: list[str], reading: dict[str, Any], estimator: str
) -> Comparisons | None:
    """Comparisons in the data; None if the data are scores of single responses.

    Side-by-side answers of ``cje label --pairs`` turn scored responses into comparisons.
    """
    if source is None or isinstance(source, Comparisons):
        return source
    labels = reading["labels"]
    if is_label_store(labels) and estimator in _CHOICES:
        stored = read_label_store(labels)
        if stored.pairs or estimator == "pairwise":
            styles = [name for name in reading["covariates"] if name in STYLES]
            plain = {**reading, "labels": None, "on": None, "text": bool(styles) or reading["text"]}
            plain["covariates"] = [n for n in reading["covariates"] if n not in STYLES]
            data = read_source(source, groups=groups, **plain)
            assert data is not None
            return stored_comparisons(data, stored, str(labels), styles)
        return None
    if isinstance(source, Dataset):
        if estimator == "pairwise":
            raise CJEError(
                "the data are scores of single responses, not comparisons",
                hint="give rows with two policies and a winner, or labels of comparisons, "
                + by_interface("collected on the labelling page", "cje label --pairs"),
            )
        return None
    if isinstance(source, Mapping):
        return None
    opened = open_sources(source, None, reading["sheet"], skip_bad_rows=reading["skip_bad_rows"])
    if estimator != "pairwise" and not is_pairwise(opened, reading["fields"]):
        return None
    for name in ("judge_scale", "oracle_scale"):
        if reading[name] is not None:
            raise CJEError(
                f"{name} has no meaning for comparisons: a verdict is a win, a tie or a loss",
                value=reading[name], hint="leave it out",
            )  # fmt: skip
    return read_comparisons(opened, groups=groups, **{name: reading[name] for name in _READ})


def check_pairwise(name: str, logged: Any, calibration: Any) -> None:
    """Raise if comparisons are given to another estimator, or together with other data."""
    if name not in _CHOICES:
        raise CJEError(
            f"the estimator '{name}' needs scores of single responses, and the data compare two "
            "responses per row",
            hint=f"use {option_hint('estimator', 'pairwise')}",
        )
    if logged is not None or calibration is not None:
        raise CJEError(
            "comparisons are analyzed by themselves",
            hint="leave out "
            + by_interface("logged_data and calibration_data", "--logged and --calibration"),
        )
