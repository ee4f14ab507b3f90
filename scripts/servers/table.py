"""Write benchmarks/servers.md from the rows of the conformance suite: `table.py ROWS OUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HEAD = """# Real servers, tried

`make servers` starts each server on loopback with a tiny Llama (2 layers, trained in place) and
scores 200 responses: ASCII, emoji first, CJK, code, whitespace edges, long, and text that looks
like control tokens. The truth is transformers in float64, token by token. "Largest error" is in
nats over a whole response.

"""
COLUMNS = (
    "server", "form", "scored", "largest error", "error rows", "rescored against written",
    "calls/s", "bare loop",
)  # fmt: skip


def row(found: dict[str, Any]) -> str:
    """One line of the table."""
    if found.get("form") is None:
        return f"| {found['name']} | cannot score: {found['evidence']} | | | | | | |"
    worst = max(found["max_error"].values(), default=0.0)
    lost = "; ".join(f"{k} ({n})" for k, n in found["refused"].items()) or "none"
    made = found["generated"]
    gap = "-" if made["max_gap"] is None else f"{made['max_gap']:.1e}"
    return (
        f"| {found['name']} | {found['form']} | {found['scored']} of "
        f"{found['scored'] + sum(found['refused'].values())} | {worst:.1e} | {lost} | "
        f"{made['compared']} texts, largest gap {gap} | {found['calls_per_s']:.0f} | "
        f"{found['bare_calls_per_s']:.0f} |"
    )


def main() -> None:
    rows, out = Path(sys.argv[1]), Path(sys.argv[2])
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(rows.glob("*.json"))]
    lines = "\n".join(row(f) for f in sorted(found, key=lambda f: str(f["name"])))
    head = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"
    out.write_text(HEAD + head + lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
