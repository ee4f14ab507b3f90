"""Benchmark records compared: which bars fell behind, and what counts as changed code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["NOISE", "code_of", "worse"]

NOISE = 0.1  # of a value without a range of rounds
_WORDS = 3  # of a string that is a message


def worse(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Bars of the same module and size that fell behind the record before."""
    for name, sizes in sorted(now["modules"].items()):
        for size, entry in sizes.items():
            old = before.get("modules", {}).get(name, {}).get(size, {"rows": []})
            rows = {row["bar"]: row for row in old["rows"]}
            for row in entry["rows"]:
                if row["bar"] in rows and _fell(rows[row["bar"]], row):
                    was, value = rows[row["bar"]]["value"], row["value"]
                    yield f"{name} ({size}), {row['bar']}: {value} was {was}"


def _fell(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if old["ok"] and not new["ok"]:
        return True
    numbers = [new["limit"], old["value"], new["value"]]
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
        return False
    ranges = [
        row["spread"]["high"] - row["spread"]["low"] for row in (old, new) if row.get("spread")
    ]
    noise = max(ranges, default=NOISE * abs(old["value"]))
    return bool(new["value"] > old["value"] + noise)


def code_of(text: str) -> str:
    """The syntax tree without docstrings and messages: a better sentence makes nothing stale.

    A message is a string of three words or more; a shorter one may name an option or a column.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = node.value if len(node.value.split()) < _WORDS else ""
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            del node.body[0]  # type: ignore[attr-defined]
    return ast.dump(tree)
