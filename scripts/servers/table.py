"""Write benchmarks/servers.md from the rows of the conformance suite: `table.py ROWS OUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HEAD = """# Real servers, tried

`make servers` starts each server on loopback with tiny Llamas (2 layers, trained in place) and
scores 200 responses: ASCII, emoji first, CJK, code, whitespace edges, empty, long, and text that
spells control tokens. The truth is transformers in float64. "Largest error" is in nats per token,
over all tokens of all responses. "By ids" are responses sent with their token ids as logged.
"Written" compares log-probs given while writing with those of scoring again; where a server gives
no ids, a text that the model wrote in other tokens than its tokeniser's is scored in the latter.
The bare loop makes the same single calls with `AsyncOpenAI`, 8 at once, on ASCII responses; the
machine had 2 cores and other work, so the two columns can differ by chance. "Whole run" is
`cje run` on 40 prompts through a proxy that spoils one request in nine (reset, 503, a body cut
short) with `kill -9` in between, against an undisturbed run: largest difference of a log-prob.

"""
COLUMNS = (
    "server", "form", "scored", "largest error", "error rows", "by ids", "written", "scores/s",
    "bare loop", "whole run",
)  # fmt: skip


def row(found: dict[str, Any]) -> str:
    """One line of the table."""
    if found.get("form") is None:
        return f"| {found['name']} | cannot score: {found['evidence']} |" + " |" * 8
    worst = max(found["max_error"].values(), default=0.0)
    lost = "; ".join(f"{k} ({n})" for k, n in found["refused"].items()) or "none"
    made, ids = found["generated"], found["by_ids"]
    bare = found["bare_calls_per_s"]
    total = found["scored"] + sum(found["refused"].values())
    cells = [
        found["name"], found["form"], f"{found['scored']} of {total}", f"{worst:.1e}", lost,
        "; ".join(f"{k} ({n})" for k, n in ids["boundaries"].items()) + _gap(ids["max_gap"]),
        f"{made['compared']} texts" + _gap(made["max_gap"]), f"{found['calls_per_s']:.0f}",
        "no such call" if bare is None else f"{bare:.0f}", found.get("whole_run", "-"),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _gap(value: float | None) -> str:
    return "" if value is None else f", largest gap {value:.1e}"


def main() -> None:
    rows, out = Path(sys.argv[1]), Path(sys.argv[2])
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(rows.glob("*.json"))]
    lines = "\n".join(row(f) for f in sorted(found, key=lambda f: str(f["name"])))
    head = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"
    out.write_text(HEAD + head + lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
