"""The records of benchmarks: what counts as worse, and as changed code."""

from __future__ import annotations

from typing import Any

import pytest

from studies.records import code_of, worse


def _records(value: float, ok: bool = True, spread: float | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"bar": "time", "value": value, "limit": 2.0, "ok": ok}
    if spread is not None:
        row["spread"] = {"low": value - spread / 2, "high": value + spread / 2, "rounds": 5}
    return {"modules": {"kernels": {"full": {"rows": [row]}}}}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (_records(1.0), _records(1.05), 0),
        (_records(1.0), _records(1.2), 1),
        (_records(1.0, spread=0.5), _records(1.2, spread=0.1), 0),
        (_records(1.99), _records(2.01, ok=False), 1),
        (_records(2.5, ok=False), _records(1.0), 0),
    ],
)
def test_a_value_is_worse_beyond_its_noise(
    old: dict[str, Any], new: dict[str, Any], expected: int
) -> None:
    assert len(list(worse(old, new))) == expected


def test_a_better_docstring_does_not_make_code_new() -> None:
    before = 'def f(x):\n    """Old."""\n    return x  # why\n'
    assert code_of(before) == code_of('def f(x):\n    """New."""\n    return x\n')
    assert code_of(before) != code_of("def f(x):\n    return -x\n")
