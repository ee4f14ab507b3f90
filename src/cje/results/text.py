"""An `EstimationResult` in plain words and columns: `summary()` and `cje analyze` print these."""

from __future__ import annotations

from dataclasses import dataclass

from cje.results.result import EstimationResult
from cje.terminal import safe

__all__ = ["TextTable", "describe", "tables"]


@dataclass(frozen=True)
class TextTable:
    """A title, the columns' names and the cells, all text; the first column is on the left."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    foot: str = ""


def describe(result: EstimationResult) -> str:
    """Estimates, paired differences, subgroups and findings, ready to print."""
    parts = []
    for table in tables(result):
        parts += [safe(table.title), _columns(table)]
        if table.foot:
            parts.append(safe(table.foot))
    findings = result.all_findings()
    if findings:
        parts.append("findings\n" + "\n".join(f"  {safe(finding)}" for finding in findings))
    return "\n\n".join(parts)


def tables(result: EstimationResult) -> list[TextTable]:
    """The tables in reading order: policies, their differences, then each subgroup column."""
    quantity = result.metadata.get("quantity", "mean label")
    head = f"{result.estimator}: {quantity} per policy, {result.level:.0%} intervals"
    found = [_values(result, head, "policy")]
    if len(result.policies) > 1:
        found.append(_differences(result, "paired differences"))
    for column, part in result.subgroups.items():
        title = f"by {column} (joint {part.level:.0%} intervals)"
        found.append(_values(part, title, "policy | level"))
        if part.compare_all():
            title = f"by {column}: paired differences within each level, joint intervals"
            found.append(_differences(part, title))
    return found


def _values(result: EstimationResult, title: str, first: str) -> TextTable:
    rows = [
        (
            row["name"],
            f"{row['estimate']:.4g}",
            f"{row['low']:.4g} to {row['high']:.4g}",
            f"{row['robust_standard_error']:.3g}",
            *("" if row[key] is None else str(row[key]) for key in ("n_rows", "n_labels")),
            _marks(row),
        )
        for row in result.rows()
    ]
    return TextTable(
        title, (first, "estimate", "interval", "se", "rows", "labels", ""), tuple(rows)
    )


def _differences(result: EstimationResult, title: str) -> TextTable:
    """Verdicts and p-values are adjusted; the interval is one pair's alone, or joint within levels.

    With a margin two more columns: is the first policy non-inferior to the second, and the second
    to the first.
    """
    within = result.cells is not None
    margin = result.metadata.get("margin")
    pairs = result.differences()
    if len(pairs) > 1:
        title += f"; p and verdict adjusted for {len(pairs)} pairs (Holm)"
    rows = []
    for pair in pairs:
        limits = pair["adjusted_interval" if within else "interval"]
        group = f" | {pair['group']}" if within else ""
        claims: tuple[str, ...] = ()
        if margin is not None:
            keys = ("p_non_inferior_adjusted", "p_non_inferior_back_adjusted")
            claims = tuple(f"{pair[key]:.3g}" for key in keys)
        rows.append(
            (
                f"{pair['policy_a']} - {pair['policy_b']}{group}",
                f"{pair['difference']:+.4g}",
                f"{limits['low']:+.4g} to {limits['high']:+.4g}",
                f"{pair['p_adjusted']:.3g}",
                *claims,
                pair["verdict"] + (" *" if pair["caveats"] else ""),
            )
        )
    columns = ["difference", "value", "interval", "p (Holm)", "verdict"]
    if margin is not None:
        columns[-1:-1] = ["p 1st non-inf.", "p 2nd non-inf."]
    return TextTable(title, tuple(columns), tuple(rows), _foot(result, margin))


def _foot(result: EstimationResult, margin: float | None) -> str:
    lines = []
    if any(pair.caveats for pair, _ in result.compare_all()):
        lines.append("* rests on borrowed calibration or a refused policy")
    if margin is not None:
        half = (1.0 - result.level) / 2.0
        lines.append(
            f"margin {margin:g}: non-inferior is worse by less than that, or not worse "
            f"(one-sided p below {half:.3g})"
        )
    if result.cells is None:
        lines.append(f"best: {result.best_policy()}")
    return "\n".join(lines)


def _marks(row: dict[str, object]) -> str:
    """The flags of one table row in words."""
    words = []
    if row["refused"]:
        words.append("REFUSED")
    if row["borrowed_calibration"]:
        words.append("borrowed calibration")
    return ", ".join(words)


def _columns(table: TextTable) -> str:
    lines = [[safe(cell) for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
