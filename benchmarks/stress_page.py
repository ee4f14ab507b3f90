"""The tables of hard designs in `docs/methods/estimators.md`, from the records of the benchmarks.

``python -m benchmarks.stress_page`` rewrites the two tables between their markers: `direct` in
every design (record of `benchmarks.stress`), and the same designs beside other packages (record of
`benchmarks.stress_peers`). It measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks import results
from benchmarks.environments import ROOT
from benchmarks.markers import replace_between

__all__ = ["designs", "peers"]

PAGE = ROOT / "docs" / "methods" / "estimators.md"
PEERS = ("direct", "cje-eval", "PPI++", "glide", "labels alone (t)")


def designs(stored: Mapping[str, Any]) -> str:
    """Coverage, refusals, findings and width of `direct` in each design."""
    lines = ["| design | covered | refused | warned | width | labels alone, t: covered |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for row in stored["modules"]["stress"]["full"]["rows"]:
        if "alone_coverage" in row:
            name = row["bar"].rpartition(":")[0]
            cells = [_share(row["coverage"]), f"{row['refused']:.2f}", f"{row['warned']:.2f}",
                     _width(row), _share(row["alone_coverage"])]  # fmt: skip
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def peers(stored: Mapping[str, Any]) -> str:
    """Coverage and mean width of each method in each design."""
    lines = ["| design | " + " | ".join(PEERS) + " |", "|---" * (len(PEERS) + 1) + "|"]
    for row in stored["modules"]["stress_peers"]["full"]["rows"]:
        name = row["bar"].rpartition(":")[0]
        cells = [_method(row["found"].get(method)) for method in PEERS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _width(row: Mapping[str, Any]) -> str:
    if row["width"] is None:
        return ""
    exact = row.get("to_exact")
    return f"{row['width']:.2f}" if exact is None else f"{exact:.2f} x CP"


def _method(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "-"
    if found["coverage"] is None:
        return "refused" if found["refused"] > 0 else "errors"
    without = found["refused"] + found["errors"]
    more = f" ({without:.0%} without)" if without >= 0.01 else ""
    return f"{found['coverage']:.3f} {found['width']:.3f}{more}"


def main() -> None:
    stored = results.load()
    text = PAGE.read_text(encoding="utf-8")
    text = replace_between(text, "table of designs", designs(stored))
    PAGE.write_text(
        replace_between(text, "table of designs beside peers", peers(stored)), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
