"""An `EstimationResult` as plain text: `summary()` and `cje analyze` print these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cje.inference import Finding, Severity
from cje.report.wording import p_cell
from cje.results.decimals import decimals_for_errors, decimals_for_widths
from cje.results.headline import headline
from cje.results.pairing import MOST_PAIRED
from cje.results.pairwise import is_pairwise, pair_tables
from cje.results.result import EstimationResult
from cje.results.text_table import TextTable
from cje.terminal import safe

__all__ = ["TextTable", "by_importance", "describe", "tables"]


def describe(result: EstimationResult) -> str:
    """The answer, the tables, then the findings by importance; ready to print."""
    parts = ["\n".join(safe(line) for line in headline(result))]
    for table in tables(result):
        parts += [safe(table.title), _columns(table)]
        if table.foot:
            parts.append(table.foot)
    findings = by_importance(result.all_findings())
    if findings:
        parts.append("findings\n" + "\n".join(f"  {safe(finding)}" for finding in findings))
    return "\n\n".join(parts)


def by_importance(findings: Sequence[Finding]) -> list[Finding]:
    """Refusals first, then warnings, then information; otherwise in the given order."""
    rank = {Severity.REFUSE: 0, Severity.WARNING: 1, Severity.INFO: 2}
    return sorted(findings, key=lambda finding: rank[finding.severity])


def tables(result: EstimationResult) -> list[TextTable]:
    """The tables in reading order: policies, their differences, then each subgroup column."""
    quantity = result.metadata.get("quantity", "mean label")
    head = f"{quantity} per version ({result.estimator}), {result.level:.0%} intervals"
    found = [_values(result, head, "version")]
    if len(result.policies) > 1:
        found.append(_differences(result, "paired differences"))
    found += pair_tables(result)
    for column, part in result.subgroups.items():
        title = f"by {column} (joint {part.level:.0%} intervals)"
        found.append(_values(part, title, "version | level"))
        if part.compare_all():
            title = f"by {column}: paired differences within each level, joint intervals"
            found.append(_differences(part, title))
    return found + _judges(result) + _anytime(result)


def _judges(result: EstimationResult) -> list[TextTable]:
    """The table of several judges, each assessed alone."""
    judges = result.diagnostics.get("judges", {})
    rows = tuple(
        (name, str(found["labels"]), *(_share(found[k]) for k in ("r2", "rank_correlation")))
        for name, found in judges.items()
    )
    title = (
        "judges: how much of the label each one explains (out of fold), and its rank correlation"
    )
    return [TextTable(title, ("judge", "labels", "R2", "rank"), rows)] if rows else []


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _anytime(result: EstimationResult) -> list[TextTable]:
    """The table of anytime intervals, if the analysis made them."""
    found = result.metadata.get("anytime")
    if found is None:
        return []
    shown = [look for look in found["looks"] if look["open"]]
    places = decimals_for_widths([look["high"] - look["low"] for look in shown])
    rows = []
    for look in found["looks"]:
        limits = [f"{look[end]:.{places}f}" if look["open"] else "-" for end in ("low", "high")]
        rows.append((look["name"], f"{look['value']:.{places}f}", *limits))
    title = f"Anytime intervals ({found['level']:.0%} at all looks at once)"
    foot = (
        f"{found['labels']:,} labels; narrowest at {found['tuned_at']:,}. "
        "Look as often as you like."
    )
    return [TextTable(title, ("quantity", "estimate", "low", "high"), tuple(rows), foot)]


def _values(result: EstimationResult, title: str, first: str) -> TextTable:
    """One row per value; a refused value has no number, and its reason is below the table."""
    table = result.rows()
    places = decimals_for_errors(
        [row["robust_standard_error"] for row in table if not row["refused"]]
    )
    rows, foot = [], []
    for row in table:
        counts = ("" if row[key] is None else str(row[key]) for key in ("n_rows", "n_labels"))
        shown = ("refused", "", "")
        if row["refused"]:
            foot.append(f"{row['name']} is refused: {row['reason']}")
        else:
            limits = f"{row['low']:.{places}f} to {row['high']:.{places}f}"
            spread = f"{row['robust_standard_error']:.{places}f}"
            shown = (f"{row['estimate']:.{places}f}", limits, spread)
        rows.append((row["name"], *shown, *counts, _marks(result, row)))
    counted = ("comparisons", "human verdicts") if is_pairwise(result) else ("responses", "labels")
    columns = (first, "value", "interval", "se", *counted, "")
    return TextTable(title, columns, tuple(rows), "\n".join(safe(line) for line in foot))


def _differences(result: EstimationResult, title: str) -> TextTable:
    """Verdicts and p-values are adjusted; the interval is one pair's alone, or joint within levels.

    With a margin, two more columns test whether the first policy is non-inferior to the second, and
    the second to the first.
    """
    within = result.cells is not None
    margin = result.metadata.get("margin")
    pairs = result.differences()
    usable = [pair for pair in pairs if pair["refused"] is None]
    if len(usable) > 1:
        title += f"; p and verdict adjusted for {len(usable)} pairs (Holm)"
    key = "adjusted_interval" if within else "interval"
    widths = [pair[key]["high"] - pair[key]["low"] for pair in usable]
    places = decimals_for_widths(widths)
    claims = ["p_non_inferior_adjusted", "p_non_inferior_back_adjusted"] if margin else []
    rows = []
    for pair in pairs:
        group = f" | {pair['group']}" if within else ""
        shown = [""] * (3 + len(claims))
        if pair["refused"] is None:
            limits = pair[key]
            shown = [
                f"{pair['difference']:+.{places}f}",
                f"{limits['low']:+.{places}f} to {limits['high']:+.{places}f}",
                p_cell(pair["p_adjusted"]),
                *(p_cell(pair[claim]) for claim in claims),
            ]
        verdict = (
            "no significant difference" if pair["verdict"] == "inconclusive" else pair["verdict"]
        )
        rows.append(
            (
                f"{pair['policy_a']} - {pair['policy_b']}{group}",
                *shown,
                verdict + (" *" if pair["caveats"] and pair["refused"] is None else ""),
            )
        )
    columns = ["difference", "value", "interval", "p (Holm)", "verdict"]
    if margin is not None:
        columns[-1:-1] = ["p 1st non-inferior", "p 2nd non-inferior"]
    return TextTable(title, tuple(columns), tuple(rows), _foot(result, margin))


def _foot(result: EstimationResult, margin: float | None) -> str:
    lines = []
    if any(pair.caveats and pair.refused is None for pair, _ in result.compare_all()):
        lines.append("* rests on borrowed calibration")
    if margin is not None:
        half = (1.0 - result.level) / 2.0
        lines.append(
            f"margin {margin:g}: non-inferior: at most {margin:g} worse "
            f"(one-sided p below {half:.3g})"
        )
    if result.cells is None:
        if len(result.policies) > MOST_PAIRED:
            lines.append(
                f"{len(result.policies):,} versions: only differences from the baseline and from "
                "the highest estimate are shown, adjusted for all pairs; compare_policies(a, b) "
                "gives any other"
            )
        lines.append(f"best: {result.best_policy()}")
    return "\n".join(safe(line) for line in lines)


def _marks(result: EstimationResult, row: dict[str, Any]) -> str:
    """Marks of one row, such as borrowed calibration."""
    found = []
    if len(result.policies) > 1 and row["policy"] == result.baseline:
        found.append("baseline")
    if row["borrowed_calibration"] and not row["refused"]:
        found.append("borrowed calibration")
    return ", ".join(found)


def _columns(table: TextTable) -> str:
    lines = [[safe(cell) for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
