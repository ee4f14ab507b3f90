"""All benchmarks beside their peers: ``python -m benchmarks [--quick] [NAME ...]``.

Makes the peers' environments, runs every module in a process of its own under a time limit, and
writes `RESULTS.md` and `results.json`. A peer that does not install and a module that fails are
rows of the result, never silence. Without names all modules run; `--page` only rewrites the page.
`--record FILE` keeps what a module measured on another machine and wrote with ``--out``. `--check`
prints what got worse since the last record, and which records are older than their code.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import check, results
from benchmarks.environments import ROOT, make_environments

# Seconds a module may take: quick, full. The coverage studies are hours at full size by design.
MODULES: dict[str, tuple[int, int]] = {
    "kernels": (120, 1200),
    "reading": (120, 1200),
    "doctor": (120, 1800),
    "calibration": (180, 3600),
    "peers": (180, 1800),
    "startup": (120, 900),
    "peers_offpolicy": (180, 900),
    "glide_compare": (120, 1200),
    "obp_compare": (120, 1800),
    "truescore_compare": (120, 1200),
    "scale": (120, 1800),
    "toplabel": (180, 1800),
    "values": (240, 900),
    "survival": (240, 14400),
    "survival_coverage": (240, 7200),
    "uncertainty": (180, 7200),
    "pipeline": (240, 3600),
    "plan": (240, 3600),
    "gate": (240, 3600),
    "judge_cards": (240, 3600),
    "report": (120, 900),
    "ece_coverage": (240, 7200),
    "calibration_coverage": (240, 7200),
    "small_labels": (240, 7200),
    "arena_figure": (240, 7200),
    "judge_noise": (120, 1800),
    "sequential": (120, 3600),
    "active": (120, 3600),
    "decision": (240, 14400),
    "labelling": (120, 1800),
    "monitoring": (120, 3600),
    "propensities": (240, 3600),
    "scoring": (300, 600),
    "stress": (240, 28800),
    "stress_peers": (300, 7200),
    "covariates": (180, 3600),
    "constants": (240, 3600),
    "pairwise": (120, 3600),
    "coverage": (240, 28800),
    "coverage_offpolicy": (240, 57600),
}


# Modules that need a CUDA GPU run only when named, there: see their own --out and --record here.
ON_A_GPU = frozenset({"scoring"})


def main() -> int:
    """Run what was asked; exit status 1 where a module or an environment failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repetitions")
    parser.add_argument("--check", action="store_true", help="compare with the last record")
    parser.add_argument("--page", action="store_true", help="rewrite RESULTS.md only")
    parser.add_argument("--record", type=Path, help="keep a record made on another machine")
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)  # the child's answer
    parser.add_argument("names", nargs="*", help="modules; all by default")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(MODULES))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; known: {', '.join(MODULES)}")
    if chosen.rows is not None:
        rows = importlib.import_module(f"benchmarks.{chosen.names[0]}").run(chosen.quick)
        chosen.rows.write_text(json.dumps([results.plain(row) for row in rows]), encoding="utf-8")
        return 0
    if chosen.check:
        return check.report()
    if chosen.page:
        results.write_page(results.load())
        return 0
    if chosen.record is not None:
        stored = results.load()
        name, entry = results.foreign(json.loads(chosen.record.read_text(encoding="utf-8")))
        stored["modules"].setdefault(name, {})[entry["size"]] = entry
        results.save(stored)
        return 0
    return _run_all(
        chosen.names or [name for name in MODULES if name not in ON_A_GPU], chosen.quick
    )


def _run_all(names: list[str], quick: bool) -> int:
    environments = make_environments()
    for environment in environments:
        if not environment.usable:
            print(f"PEER MISSING {environment.name}: {environment.problem}", flush=True)
    failed = not all(environment.usable for environment in environments)
    for name in names:
        entry = _run_one(name, quick)
        failed = failed or bool(entry["problem"])
        # Saved after every module: a run that is stopped keeps what it measured.
        stored = results.load()
        stored["modules"].setdefault(name, {})[entry["size"]] = entry
        results.save(stored, environments)
        met = sum(row["ok"] for row in entry["rows"])
        print(
            f"== {name}: {met} of {len(entry['rows'])} bars met, {entry['seconds']:g} s "
            f"({entry['cpu_seconds']:g} s of CPU) {entry['problem']}",
            flush=True,
        )
    return int(failed)


def _run_one(name: str, quick: bool) -> dict[str, Any]:
    limit = MODULES[name][0 if quick else 1]
    print(f"\n== {name}{' (quick)' if quick else ''}, at most {limit} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "benchmarks", name, "--rows", str(answer)]
        before, start = _children_cpu(), time.perf_counter()
        process = subprocess.Popen(
            command + (["--quick"] if quick else []), cwd=ROOT, start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        problem = _wait(process, limit)
        seconds, cpu = time.perf_counter() - start, _children_cpu() - before
        rows: list[dict[str, Any]] = json.loads(answer.read_text()) if answer.exists() else []
    return results.record(rows, quick=quick, seconds=seconds, cpu=cpu, problem=problem)


def _wait(process: subprocess.Popen[str], limit: int) -> str:
    """Why it failed, or nothing."""
    try:
        _, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its own session: its children with it
        process.communicate()
        return f"stopped at its time limit of {limit} s"
    if process.returncode == 0:
        return ""
    last = (errors.strip().splitlines() or ["no message"])[-1]
    print(errors[-2000:], file=sys.stderr)
    return f"failed: {last}".replace(str(ROOT), ".")[:300]


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
