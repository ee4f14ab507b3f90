"""What an export is, and small changes of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truth import BASES

Row = dict[str, Any]
EXPORTS: list[Export] = []


@dataclass(frozen=True)
class Export:
    """One export: what it is an example of, how it is written, and what is expected of it.

    `run` are the arguments of `cje analyze`, run in the export's folder. With `asks` the command
    ends with a question that has this text in it, and its answer of that number, pasted, gives the
    numbers of `base`; otherwise the command gives them at once. `same_ids` is false where the file
    has no ids: numbers then differ a little, as folds are made from ids. `labels` are lost (or
    found) against the base. `stdin` is a file to pipe in.
    """

    name: str
    bullet: str
    run: tuple[str, ...]
    base: str
    write: Callable[[Path], None]
    asks: str = ""
    same_ids: bool = True
    says: tuple[str, ...] = ()
    stdin: str = ""
    labels: int | None = None
    answer: int = 0

    def entry(self) -> dict[str, Any]:
        """The line of the manifest."""
        found: dict[str, Any] = {
            "name": self.name, "bullet": self.bullet, "run": list(self.run), "base": self.base,
        }  # fmt: skip
        for key in ("asks", "stdin", "labels", "answer"):
            if getattr(self, key):
                found[key] = getattr(self, key)
        if self.says:
            found["says"] = list(self.says)
        if not self.same_ids:
            found["same_ids"] = False
        return found


def export(
    name: str, bullet: str, *run: str, base: str = "plain", **expected: Any
) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Register a writer under a name."""

    def register(write: Callable[[Path], None]) -> Callable[[Path], None]:
        EXPORTS.append(Export(name, bullet, run, base, write, **expected))
        return write

    return register


def renamed(base: str = "plain", drop: tuple[str, ...] = (), **names: str) -> list[Row]:
    """The rows of a base with columns renamed, all others but `drop` kept."""
    return [
        {names.get(key, key): value for key, value in row.items() if key not in drop}
        for row in BASES[base]
    ]


def tidy(base: str = "plain", **names: str) -> list[Row]:
    """As `renamed`, without the texts."""
    return renamed(base, ("prompt", "response"), **names)


def of(rows: list[Row], policy: str, column: str = "policy") -> list[Row]:
    """The rows of one version, without its column."""
    return [
        {key: value for key, value in row.items() if key != column}
        for row in rows
        if row[column] == policy
    ]


def wide(
    base: str, pattern: Mapping[str, str], names: Mapping[str, str], **shared: str
) -> list[Row]:
    """One row per prompt: `pattern` maps a column to a name with {} for the version."""
    found: dict[str, Row] = {}
    for row in BASES[base]:
        line = found.setdefault(row["prompt_id"], {new: row[old] for old, new in shared.items()})
        for column, form in pattern.items():
            line[form.format(names[row["policy"]])] = row[column]
    return list(found.values())
