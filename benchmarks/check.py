"""What got worse since the last record, and which records are older than the code they measure.

``python -m benchmarks --check`` compares `results.json` with the version before it: that of HEAD
where the file has changed since, otherwise that of the commit before. A bar got worse where it was
met and is missed now, or where its value (lower is better, unless the limit is a range) rose by
more than the noise: the range of its rounds, or a tenth where it has none. A record is older than
its code where a module that the benchmark imports has changed since the record's commit in more
than comments and docstrings; code that only its worker processes import is not seen.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.results import load
from studies.records import code_of, worse

__all__ = ["missed", "report", "stale"]

_STORE = "benchmarks/results.json"
_LIST_IMPORTS = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
files = [getattr(m, "__file__", None) for n, m in sorted(sys.modules.items())
         if n.split(".")[0] in ("cje", "benchmarks", "studies")]
print(json.dumps([f for f in files if f]))
"""


def report() -> int:
    """Print what the tree's records show; 1 where something got worse or is older than its code."""
    now, before = load(), _before()
    lines = [f"worse: {line}" for line in worse(before, now)]
    lines += [f"older than its code: {line}" for line in stale(now)]
    for line in lines or ["every record is as good as the one before, and as new as its code"]:
        print(line)
    return int(bool(lines))


def stale(now: Mapping[str, Any]) -> Iterator[str]:
    """Records on the page whose code has changed since the commit that they name."""
    for name, sizes in sorted(now["modules"].items()):
        entry = sizes.get("full") or sizes["quick"]
        changed = [path for path in _files_of(name) if _changed(entry["commit"], path)]
        if changed:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            yield f"{name} ({entry['size']}, {entry['commit']}): {', '.join(changed[:3])}{more}"


def missed(stored: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """(module, row) of every bar missed in the records shown."""
    return [
        (name, row)
        for name, sizes in sorted(stored["modules"].items())
        for row in (sizes.get("full") or sizes["quick"])["rows"]
        if not row["ok"]
    ]


@cache
def _files_of(name: str) -> tuple[str, ...]:
    """Files of this tree that a benchmark imports, relative to its root."""
    done = subprocess.run(
        [sys.executable, "-c", _LIST_IMPORTS, f"benchmarks.{name}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        print(f"{name}: cannot be imported here, its age is not checked", file=sys.stderr)
        return ()
    paths = [path for path in json.loads(done.stdout) if path.startswith(str(ROOT))]
    return tuple(path.removeprefix(f"{ROOT}/") for path in paths)


@cache
def _changed(commit: str, path: str) -> bool:
    now = ROOT / path
    return not now.exists() or code_of(now.read_text(encoding="utf-8")) != code_of(
        _at(commit, path)
    )


def _at(commit: str, path: str) -> str:
    """The file at a commit; empty where it was not there, or the commit is not in this clone."""
    done = subprocess.run(
        ["git", "show", f"{commit}:{path}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout


def _before() -> dict[str, Any]:
    current = (ROOT / _STORE).read_text(encoding="utf-8")
    commits = subprocess.run(
        ["git", "log", "-2", "--format=%H", "--", _STORE],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for commit in commits:
        text = _at(commit, _STORE)
        if text and text != current:
            return dict(json.loads(text))
    return {}
