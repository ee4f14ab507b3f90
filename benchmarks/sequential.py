"""Do anytime intervals hold at every look, how wide are they, and how soon do they decide?

python -m benchmarks.sequential [--quick]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from cje.inference.sequential import AnytimeRule
from cje.inference.sequential.anytime import FIRST_LOOK, MOST_SKEWNESS
from studies.sequential import (
    LIMIT,
    OUTCOMES,
    betting_miscoverage,
    labels_needed,
    miscoverage,
    refitted_streams,
    width_ratio,
)

__all__ = ["run"]


def coverage_rows(n_streams: int, n_labels: int) -> Iterator[dict[str, Any]]:
    """Miscoverage of every outcome under every rule."""
    rules = [AnytimeRule(tuned_at=k) for k in (200, 500, 2_000) if k <= n_labels]
    rules.append(AnytimeRule(tuned_at=n_labels, method="spending"))
    for rule in rules:
        for name in OUTCOMES:
            found = miscoverage(name, rule, n_streams=n_streams, n_labels=n_labels)
            yield _bar(
                f"miscoverage, {rule.method} at {rule.tuned_at}: {name}", found["missed"],
                LIMIT + 2.0 * (0.0475 / n_streams) ** 0.5 * (n_streams < 4_000),
                f"uncorrected from label 30: {found['uncorrected']:.3f}; "
                f"median first look at label {found['first_look']:.0f}",
            )  # fmt: skip
    for name in ("uniform", "binary 2%", "binary 10%", "binary 50%"):
        missed = betting_miscoverage(name, n_streams=max(n_streams // 4, 100), n_labels=n_labels)
        yield _bar(f"miscoverage, betting from label 1: {name}", missed, LIMIT, "")


def refit_rows(n_streams: int) -> Iterator[dict[str, Any]]:
    """Miscoverage with the calibration refitted as labels arrive."""
    for active in (False, True):
        for binary in (False, True):
            parts = [
                refitted_streams(
                    AnytimeRule(tuned_at=500), n_streams=size, active=active, binary=binary,
                    seed=3 + part,
                )
                for part, size in enumerate(_sizes(n_streams, 500))
            ]  # fmt: skip
            found = {key: float(np.mean([p[key] for p in parts])) for key in parts[0]}
            yield _bar(
                f"miscoverage, refitted, {'active' if active else 'random'}, "
                f"{'binary' if binary else 'numeric'} labels",
                found["missed"], LIMIT + 2.0 * (0.0475 / n_streams) ** 0.5 * (n_streams < 4_000),
                f"fixed interval at the end missed {found['fixed']:.3f}; "
                f"{found['labels']:.0f} labels",
            )  # fmt: skip


def width_rows() -> Iterator[dict[str, Any]]:
    """Width at the tuned sample against the fixed interval."""
    for k in (200, 500, 2_000):
        yield _bar(f"width ratio, mixture at {k}", width_ratio(AnytimeRule(tuned_at=k)), 1.6, "")
    for spending in ("quadratic", "obrien-fleming", "pocock"):
        rule = AnytimeRule(tuned_at=500, method="spending", spending=spending)
        limit = 1.35 if spending != "pocock" else 1.45
        yield _bar(f"width ratio, {spending} at its horizon 500", width_ratio(rule), limit, "")


def decision_rows(n_streams: int) -> Iterator[dict[str, Any]]:
    """Expected labels to a decision; a fixed design takes 400."""
    most = 1_600
    designs: dict[str, AnytimeRule | None] = {
        "fixed": None,
        "mixture at 400": AnytimeRule(tuned_at=400),
        "quadratic, horizon 500": AnytimeRule(tuned_at=500, method="spending"),
        "obrien-fleming, horizon 500": AnytimeRule(
            tuned_at=500, method="spending", spending="obrien-fleming"
        ),
    }
    for name, rule in designs.items():
        horizon = 500 if rule is not None and rule.method == "spending" else most
        for times in (0.0, 1.0, 2.0):
            found = labels_needed(rule, times, n_fixed=400, n_streams=n_streams, most=horizon)
            yield {
                "bar": f"labels to a decision, {name}: true difference {times:g} x planned",
                "value": found["labels"],
                "limit": float(horizon),
                "ok": found["labels"] <= horizon,
                "note": f"right {found['right']:.1%}, undecided {found['undecided']:.1%}",
            }


def _sizes(n: int, most: int) -> list[int]:
    return [most] * (n // most) or [n]


def _bar(name: str, value: float, limit: float, note: str) -> dict[str, Any]:
    return {"bar": name, "value": value, "limit": limit, "ok": value <= limit, "note": note}


def run(quick: bool) -> list[dict[str, Any]]:
    """All rows; the quick form has fewer and shorter streams."""
    n_streams = 300 if quick else 4_000
    rows = list(width_rows())
    rows += coverage_rows(n_streams, 500 if quick else 2_000)
    rows += refit_rows(200 if quick else 4_000)
    rows += decision_rows(500 if quick else 4_000)
    return rows


def main() -> None:
    """Print every row."""
    print(f"first look: label {FIRST_LOOK}, or later once |skewness| <= {MOST_SKEWNESS}")
    for row in run("--quick" in sys.argv):
        mark = "ok  " if row["ok"] else "MISS"
        print(f"{mark} {row['bar']}: {row['value']:.4g} (<= {row['limit']:.4g}) {row['note']}")


if __name__ == "__main__":
    main()
