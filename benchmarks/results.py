"""What was measured, kept: `results.json` (records) and `RESULTS.md` (the same, to read).

A record is one module at one size (quick or full). A new run replaces the record of its module and
size and leaves the others, so that a long study is not lost to a short one; every record carries
its own date, commit and load.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT, Environment

__all__ = ["foreign", "load", "machine", "plain", "record", "save", "write_page"]

STORE = ROOT / "benchmarks" / "results.json"
PAGE = ROOT / "benchmarks" / "RESULTS.md"
CAUSES = ROOT / "benchmarks" / "findings.md"
LIBRARIES = ("numpy", "scipy", "polars", "scikit-learn", "pyarrow", "lifelines", "scikit-survival")


def machine() -> dict[str, Any]:
    """Facts that bear on speed; no host name, no path."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = {line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "processor": ", ".join(sorted(models)) or platform.machine(),
        "memory_gb": round(memory / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "libraries": {name: metadata.version(name) for name in LIBRARIES},
    }


def record(
    rows: Sequence[Mapping[str, Any]], *, quick: bool, seconds: float, cpu: float, problem: str = ""
) -> dict[str, Any]:
    """One module's outcome, with when and on what."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return {
        "size": "quick" if quick else "full",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit.stdout.strip(),
        "load_average": round(os.getloadavg()[0], 1),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "problem": problem,
        "rows": [plain(row) for row in rows],
    }


def foreign(found: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and record of a module that ran on another machine, with the commit of this tree."""
    entry = record(
        found["rows"], quick=found["size"] == "quick", seconds=found["seconds"],
        cpu=found["cpu_seconds"], problem=found.get("problem", ""),
    )  # fmt: skip
    return found["module"], entry | {"date": found["date"], "where": found["where"]}


def plain(value: Any) -> Any:
    """NumPy scalars and infinities as JSON can hold them."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def load() -> dict[str, Any]:
    """All records so far."""
    if STORE.exists():
        return dict(json.loads(STORE.read_text(encoding="utf-8")))
    return {"machine": {}, "environments": {}, "modules": {}}


def save(stored: Mapping[str, Any], environments: Sequence[Environment] = ()) -> None:
    """Write the JSON, then the page."""
    made = {e.name: {"versions": e.versions, "problem": e.problem} for e in environments} or stored[
        "environments"
    ]
    whole = {**stored, "machine": machine(), "environments": made}
    STORE.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write_page(whole)


def write_page(stored: Mapping[str, Any]) -> None:
    """RESULTS.md from the records."""
    parts = [_HEAD, _machine_part(stored["machine"]), _peers_part(stored["environments"])]
    shown = {name: sizes.get("full") or sizes["quick"] for name, sizes in
             sorted(stored["modules"].items())}  # fmt: skip
    parts.append(_overview(shown))
    if CAUSES.exists():
        parts.append(CAUSES.read_text(encoding="utf-8").strip())
    parts += [_module_part(name, entry) for name, entry in shown.items()]
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


_HEAD = """# Results

Written by `python -m benchmarks` (`make bench`, `make bench QUICK=1`) from `results.json`; do not
edit. Speed is a ratio within one run: medians of interleaved repetitions. A bar is met where the
value is at most the limit, or inside the range named; *range* is the least and the largest of the
rounds, and how many there were. Each section says when it was run, at which
size, and how loaded the machine was. Rows of *quick size* use smaller data or fewer repetitions
than the bar names: ratios at small sizes can miss a bar that holds at full size."""


def _machine_part(facts: Mapping[str, Any]) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in facts["libraries"].items())
    return (
        f"## Machine\n\n{facts['cores']} cores ({facts['processor']}), {facts['memory_gb']} GB, "
        f"{facts['system']}, Python {facts['python']}; {libraries}."
    )


def _peers_part(environments: Mapping[str, Any]) -> str:
    lines = ["## Environments of the peers", ""]
    lines += ["| environment | versions | state |", "|---|---|---|"]
    for name, entry in environments.items():
        versions = ", ".join(f"{p} {v or 'absent'}" for p, v in entry["versions"].items())
        lines.append(f"| {name} | {versions} | {_cell(entry['problem']) or 'ok'} |")
    return "\n".join(lines)


def _overview(shown: Mapping[str, Any]) -> str:
    lines = [
        "## Overview",
        "",
        "| benchmark | size | bars met | CPU s | run |",
        "|---|---|---|---|---|",
    ]
    for name, entry in shown.items():
        met = sum(bool(row["ok"]) for row in entry["rows"])
        state = f"{met} of {len(entry['rows'])}" if entry["rows"] else "none measured"
        if entry["problem"]:
            state += f" ({_cell(entry['problem'])})"
        lines.append(
            f"| [{name}](#{name}) | {entry['size']} | {state} | {_number(entry['cpu_seconds'])} "
            f"| {entry['date']} |"
        )
    return "\n".join(lines)


def _module_part(name: str, entry: Mapping[str, Any]) -> str:
    lines = [
        f"## {name}",
        "",
        f"{entry['size'].capitalize()} size, {entry['date']}, commit {entry['commit']}, "
        + (
            f"on {entry['where']}."
            if "where" in entry
            else f"load {_number(entry['load_average'])}."
        ),
    ]
    if entry["problem"]:
        lines += ["", f"**Note:** {_cell(entry['problem'])}"]
    if entry["rows"]:
        lines += ["", "| | bar | value | range | limit | note |", "|---|---|---|---|---|---|"]
    for row in entry["rows"]:
        state = (
            "ok" if row["ok"] else ("missed (quick size)" if entry["size"] == "quick" else "missed")
        )
        lines.append(
            f"| {state} | {_cell(row['bar'])} | {_number(row['value'])} | {_spread(row)} "
            f"| {_number(row['limit'])} | {_cell(row.get('note', ''))} |"
        )
    return "\n".join(lines)


def _spread(row: Mapping[str, Any]) -> str:
    spread = row.get("spread")
    if spread is None:
        return ""
    return f"{_number(spread['low'])} to {_number(spread['high'])} ({spread['rounds']})"


def _number(value: Any) -> str:
    if value is None:
        return "not recorded"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _cell(str(value))
    return f"{value:.4g}"


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")
