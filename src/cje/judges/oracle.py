"""Sources of trusted labels: a stronger model, a table of human labels, a function."""

from __future__ import annotations

import csv
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from cje.data.parsing import csv_lines, csv_records
from cje.data.scale import Scale
from cje.errors import CJEError
from cje.judges.base import Judge, function_name
from cje.judges.verdict import Verdict
from cje.models import JSON

__all__ = ["CSVOracle", "CallableOracle", "JoinReport", "ModelOracle", "OracleSource"]

Row = Mapping[str, Any]


class OracleSource(Protocol):
    """Labels rows with ``context``, ``response`` and (for tables) an id."""

    async def alabel(self, row: Row, *, seed: int) -> Verdict | None: ...

    def identity(self) -> dict[str, JSON]: ...


class ModelOracle:
    """A stronger model's judgement as the label: one call per row."""

    def __init__(self, judge: Judge) -> None:
        self.judge, self.provider = judge, judge.provider

    async def alabel(self, row: Row, *, seed: int) -> Verdict | None:
        """One judgement."""
        return await self.judge.ajudge(row["context"], row["response"], seed=seed)

    def identity(self) -> dict[str, JSON]:
        return {"oracle": "model", **self.judge.identity()}

    async def aclose(self) -> None:
        await self.judge.aclose()


class CallableOracle:
    """A function of (context, response) that gives the label, on `scale`."""

    provider = "callable"

    def __init__(
        self, function: Callable[[str, str], float], *, scale: Scale | None = None
    ) -> None:
        self.function, self.scale = function, scale or Scale(0.0, 1.0)

    async def alabel(self, row: Row, *, seed: int) -> Verdict | None:
        """The function's number (awaited if it is a coroutine); None means no label."""
        value: Any = self.function(row["context"], row["response"])
        if inspect.isawaitable(value):
            value = await value
        return None if value is None else Verdict(_unit(float(value), self.scale, "oracle"))

    def identity(self) -> dict[str, JSON]:
        name = function_name(self.function)
        return {"oracle": "callable", "function": name, "scale": str(self.scale)}


@dataclass(frozen=True)
class JoinReport:
    """How a table of labels matches the rows.

    Attributes
    ----------
    matched : int
        Rows with a label.
    unlabelled : tuple of str
        Ids of rows that are not in the table.
    unused : tuple of str
        Ids of the table that match no row.
    averaged : tuple of str
        Ids with several labels, averaged.
    """

    matched: int
    unlabelled: tuple[str, ...]
    unused: tuple[str, ...]
    averaged: tuple[str, ...]

    def __str__(self) -> str:
        text = (
            f"{self.matched} rows have a label, {len(self.unlabelled)} have none; "
            f"{len(self.unused)} labels match no row; {len(self.averaged)} ids have several labels"
        )
        if self.unused:
            text += f" (unmatched ids: {', '.join(self.unused[:5])}{_more(self.unused)})"
        return text


class CSVOracle:
    """Human labels from a CSV file, joined by id; several labels of one id are averaged.

    Parameters
    ----------
    path : str or Path
    id_column, label_column : str
    scale : Scale
        The range of the labels.
    row_id : str
        The rows' field that holds the id (default: `id_column`, else ``prompt_id``).
    """

    provider = "csv"

    def __init__(
        self,
        path: str | Path,
        id_column: str = "id",
        label_column: str = "label",
        *,
        scale: Scale | None = None,
        row_id: str | None = None,
    ) -> None:
        self.path, self.scale = Path(path), scale or Scale(0.0, 1.0)
        self.id_column, self.label_column, self.row_id = id_column, label_column, row_id
        self._values = _read_labels(self.path, id_column, label_column, self.scale)

    async def alabel(self, row: Row, *, seed: int) -> Verdict | None:
        """The row's label, or None without one in the table."""
        values = self._values.get(self._id(row))
        return None if values is None else Verdict(math.fsum(values) / len(values))

    def _id(self, row: Row) -> str:
        names = [self.row_id] if self.row_id else [self.id_column, "prompt_id"]
        for name in names:
            if name in row:
                return str(row[name])
        raise CJEError(f"the row has no field {' or '.join(map(str, names))} to join labels by")

    def join_report(self, ids: Iterable[str]) -> JoinReport:
        """Report the matches between rows and labels."""
        wanted = [str(i) for i in ids]
        return JoinReport(
            matched=sum(i in self._values for i in wanted),
            unlabelled=tuple(i for i in wanted if i not in self._values),
            unused=tuple(sorted(set(self._values) - set(wanted))),
            averaged=tuple(sorted(i for i, values in self._values.items() if len(values) > 1)),
        )

    def identity(self) -> dict[str, JSON]:
        content = repr(sorted(self._values.items()))
        return {
            "oracle": "csv",
            "labels": sha256(content.encode("utf-8", "surrogatepass")).hexdigest(),
        }


def _read_labels(
    path: Path, id_column: str, label_column: str, scale: Scale
) -> dict[str, list[float]]:
    labels: dict[str, list[float]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            columns = next(csv_lines(file), [])
            for column in (id_column, label_column):
                if column not in columns:
                    raise CJEError(
                        f"the label file has no column '{column}'", where=str(path),
                        hint=f"its columns are {', '.join(columns)}",
                    )  # fmt: skip
            file.seek(0)
            for number, record in enumerate(csv_records(file, str(path)), start=2):
                text = (record[label_column] or "").strip()
                if not text:
                    continue  # an empty cell is "not labelled"
                where = f"{path}, line {number}, {label_column}"
                try:
                    value = float(text)
                except ValueError as error:
                    raise CJEError("a label is not a number", where=where, value=text) from error
                labels.setdefault(str(record[id_column]), []).append(_unit(value, scale, where))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CJEError("cannot read the label file", where=str(path), hint=str(error)) from error
    return labels


def _unit(value: float, scale: Scale, where: str) -> float:
    if not scale.low <= value <= scale.high:
        raise CJEError(
            f"a label must be in [{scale.low:g}, {scale.high:g}]", where=where, value=value,
            hint="declare the labels' range with scale",
        )  # fmt: skip
    return float(scale.to_unit(value))


def _more(names: tuple[str, ...]) -> str:
    return ", ..." if len(names) > 5 else ""
