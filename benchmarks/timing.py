"""Timing in interleaved rounds, so that a busy machine slows both sides of a ratio alike."""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

__all__ = ["Middle", "interleaved", "main", "middle", "ratio", "row", "show"]


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Seconds of each call in each of `repeats` rounds, after one round that is not counted.

    Every round makes every call once, in an order that rotates from round to round. Counted are
    processor seconds of all threads of this process; calls that wait need ``time.perf_counter``.
    """
    names = list(calls)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    enabled = gc.isenabled()
    gc.disable()
    try:
        for turn in range(repeats + 1):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                start = clock()
                calls[name]()
                elapsed = clock() - start
                if turn > 0:
                    seconds[name].append(elapsed)
    finally:
        if enabled:
            gc.enable()
    return seconds


class Middle(float):
    """A median that remembers the smallest and the largest of what it is the median of."""

    low: float
    high: float
    count: int


def middle(values: Iterable[float]) -> Middle:
    """The median of `values`, with their range."""
    found = sorted(values)
    value = Middle(statistics.median(found))
    value.low, value.high, value.count = found[0], found[-1], len(found)
    return value


def ratio(seconds: Mapping[str, Sequence[float]], numerator: str, denominator: str) -> Middle:
    """Median over the rounds of the quotient within a round."""
    pairs = zip(seconds[numerator], seconds[denominator], strict=True)
    return middle(top / bottom for top, bottom in pairs)


def row(bar: str, value: float, limit: float, note: str = "") -> dict[str, Any]:
    """One line of a benchmark's result; it is fine when `value` is at most `limit`."""
    line = {"bar": bar, "value": value, "limit": limit, "ok": value <= limit, "note": note}
    if isinstance(value, Middle):
        line["spread"] = {"low": value.low, "high": value.high, "rounds": value.count}
    return line


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the lines as a table."""
    width = max(len(str(line["bar"])) for line in rows)
    for line in rows:
        state = "ok  " if line["ok"] else "MISS"
        print(
            f"{state} {line['bar']:<{width}}  {line['value']:>9.3f}  (bar {line['limit']:g})"
            f"  {line['note']}".rstrip()
        )


def main(run: Callable[[bool], Sequence[Mapping[str, Any]]], description: str) -> int:
    """Command line of a benchmark: ``--quick`` for a smaller run; exit status 1 on a missed bar."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repetitions")
    rows = run(parser.parse_args().quick)
    return 0 if all(line["ok"] for line in rows) else 1
