"""Columns that are checked without being asked for, by their names: lengths, times, clusters."""

from __future__ import annotations

from typing import Any

from cje.data.field_names import may_be_cluster, may_be_length, may_be_time
from cje.data.field_plan import Plan
from cje.data.problems import BadRows

__all__ = ["cluster_columns", "factor_columns"]


def factor_columns(source: Any) -> list[str]:
    """Lengths and times of an opened source, by their names, to test the labelling against.

    Only columns with a finite number in every row are used. Dates as text and columns with gaps are
    not, because the user did not ask to read them.
    """
    leaves = [
        leaf
        for leaf in source.table.leaves()
        if leaf.only("number") and (may_be_length(leaf.display) or may_be_time(leaf.display))
    ]
    return [leaf.display for leaf in leaves if _all_numbers(source, leaf.path)]


def cluster_columns(source: Any) -> list[str]:
    """Columns without gaps, by their names, that may define clusters of prompts."""
    leaves = [
        leaf
        for leaf in source.table.leaves()
        if leaf.only("text", "number") and may_be_cluster(leaf.display)
    ]
    return [leaf.display for leaf in leaves if _all_names(source, leaf.path)]


def _all_names(source: Any, path: tuple[str, ...]) -> bool:
    bad = BadRows(skip=True)
    names = source.table.load(Plan({"group:it": path}), bad).frame["group:it"]
    return not bad.reasons and names.null_count() == 0 and "" not in names.unique().to_list()


def _all_numbers(source: Any, path: tuple[str, ...]) -> bool:
    bad = BadRows(skip=True)
    frame = source.table.load(Plan({"covariate:it": path}), bad).frame
    numbers = frame["covariate:it"]
    return not bad.reasons and numbers.null_count() == 0 and bool(numbers.is_finite().all())
