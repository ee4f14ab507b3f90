"""What the fuzz targets share: columns that are sound or spoiled, and the rule they are held to.

The rule: a public entry point gives a finite result or raises `CJEError`, whatever it is given.
The tests try 200 examples per target, the same ones every time; ``make fuzz MINUTES=n`` tries new
ones, round after round, on a seed that it prints (``CJE_FUZZ_EXAMPLES`` is the size of a round).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from cje.errors import CJEError

_NIGHTLY = int(os.environ.get("CJE_FUZZ_EXAMPLES", "0"))
BAD_CELLS = (np.nan, np.inf, -np.inf, -1.0, 2.0, 1e308, -1e308, 5e-324, 1e-9)


def fuzz(examples: int = 200) -> settings:
    """Depth of one target: `examples` in the tests; new ones, by seed, in ``make fuzz``."""
    return settings(
        max_examples=_NIGHTLY or examples,
        derandomize=not _NIGHTLY,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def holds_rule(
    call: Callable[[], Any], *, refusals: tuple[type[BaseException], ...] = (CJEError,),
    missing: Iterable[str] = (),
) -> Any:  # fmt: skip
    """Run `call`; its result must be finite (fields named in `missing` may hold NaN)."""
    try:
        result = call()
    except refusals as error:
        if not str(error).strip():  # a refusal says why
            raise
        return None
    for path, value in numbers(result):
        allowed = any(part in path for part in missing)
        assert math.isfinite(value) or allowed, f"{path} is {value}"
    return result


def numbers(value: Any, path: str = "result", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Every number inside a result, with where it is."""
    if isinstance(value, bool | str | bytes | type(None)) or depth > 6:
        return
    if isinstance(value, int | float | np.number):
        yield path, float(value)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind in "fiu" and value.size:
            bad = ~np.isfinite(value)
            yield path, float(value[bad][0]) if bad.any() else 0.0
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from numbers(part, f"{path}[{key!r}]", depth + 1)
    elif isinstance(value, tuple | list):
        for i, part in enumerate(value):
            yield from numbers(part, f"{path}[{i}]", depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from numbers(getattr(value, field.name), f"{path}.{field.name}", depth + 1)


@st.composite
def columns(draw: st.DrawFn, n: int, *, low: float = 0.0, high: float = 1.0) -> Any:
    """A column of `n` numbers between `low` and `high`, of any shape; about a third are spoiled."""
    values = draw(sound_columns(n, low=low, high=high))
    spoil = draw(st.sampled_from(["", "", "", "", "cell", "cells", "length", "shape", "kind"]))
    if spoil in ("cell", "cells") and n:
        count = 1 if spoil == "cell" else n
        values[: draw(st.integers(1, count))] = draw(st.sampled_from(BAD_CELLS))
        return values
    if spoil == "length":
        return values[: n // 2] if draw(st.booleans()) else np.append(values, 0.5)
    if spoil == "shape":
        return draw(st.sampled_from([values[:, None], values[None], np.float64(0.5), 3, None]))
    if spoil == "kind":
        return draw(
            st.sampled_from(
                [list(map(str, values)), ["x"] * n, [None] * n, values.astype(complex),
                 values.astype(object), [{}] * n, values.astype("datetime64[s]"), "text"]
            )
        )  # fmt: skip
    return values


@st.composite
def sound_columns(draw: st.DrawFn, n: int, *, low: float = 0.0, high: float = 1.0) -> Any:
    """A finite column: spread, few levels, two values, or one."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    levels = draw(st.sampled_from([0, 0, 1, 2, 5]))
    unit = rng.random(n)
    if levels:
        unit = np.minimum(np.floor(unit * (levels + 1)), levels) / levels
    if draw(st.integers(0, 9)) == 0:
        unit = np.full(n, unit[0] if n else 0.0)
    return low + (high - low) * unit


def masks(n: int) -> st.SearchStrategy[Any]:
    """Which rows are labelled: none, some, all."""
    return st.tuples(st.integers(0, 2**16), st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0])).map(
        lambda pair: np.random.default_rng(pair[0]).random(n) < pair[1]
    )


sizes = st.sampled_from([0, 1, 2, 3, 5, 8, 12, 20, 40, 60])
