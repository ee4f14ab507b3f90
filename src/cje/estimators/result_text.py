"""An `EstimationResult` in plain words and columns."""

from __future__ import annotations

from collections.abc import Sequence

from cje.estimators.result import EstimationResult

__all__ = ["PAIRS_TITLE", "describe", "marks"]

PAIRS_TITLE = "paired differences (* rests on borrowed calibration or a refused policy)"


def describe(result: EstimationResult) -> str:
    """Estimates, paired differences, subgroups and findings, ready to print."""
    quantity = result.metadata.get("quantity", "mean label")
    head = f"{result.estimator}: {quantity} per policy, {result.level:.0%} intervals"
    rows = [
        [r["policy"], f"{r['estimate']:.4g}", f"{r['low']:.4g} to {r['high']:.4g}",
         f"{r['robust_standard_error']:.3g}", marks(r)]
        for r in result.rows()
    ]  # fmt: skip
    parts = [head, _table(["policy", "estimate", "interval", "se", ""], rows)]
    if len(result.policies) > 1:
        pairs = [
            [f"{c.a} - {c.b}", f"{c.difference:+.4g}",
             f"{c.interval.low:+.4g} to {c.interval.high:+.4g}", f"{p:.3g}",
             c.verdict + (" *" if c.caveats else "")]
            for c, p in result.compare_all()
        ]  # fmt: skip
        titles = ["difference", "value", "interval", "p (Holm)", "verdict"]
        parts += [PAIRS_TITLE, _table(titles, pairs), f"best: {result.best_policy()}"]
    for column, part in result.subgroups.items():
        limits = part.influence.simultaneous_intervals(part.level)
        lines = [
            [r["policy"], f"{r['estimate']:.4g}", f"{limit.low:.4g} to {limit.high:.4g}", marks(r)]
            for r, limit in zip(part.rows(), limits, strict=True)
        ]
        title = f"by {column} (joint {part.level:.0%} intervals)"
        parts += [title, _table(["policy | level", "estimate", "interval", ""], lines)]
    if result.findings:
        parts.append("findings\n" + "\n".join(f"  {finding}" for finding in result.findings))
    return "\n\n".join(parts)


def marks(row: dict[str, object]) -> str:
    """The flags of one table row in words."""
    words = []
    if row["refused"]:
        words.append("REFUSED")
    if row["borrowed_calibration"]:
        words.append("borrowed calibration")
    return ", ".join(words)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in [titles, *rows]) for i in range(len(titles))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [titles, *rows]
    ]
    return "\n".join(lines)
