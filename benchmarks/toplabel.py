"""Top-label calibration beside MAPIE, scikit-learn, netcal and relplot: speed and quality.

Both run in the peers' environment (``.venvs/peers`` with mapie==1.6.0, relplot, netcal and torch)
with this package on its path, so that every ratio comes from one process.

    python -m benchmarks.toplabel [--quick]
    python -m benchmarks.toplabel --fixtures     # rewrite the tests' reference values
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.timing import main, show

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".venvs" / "peers" / "bin" / "python"
WORKER = ROOT / "benchmarks" / "workers" / "toplabel_peer.py"
FIXTURES = ROOT / "tests" / "classification" / "fixtures"


def _worker(*arguments: str) -> str:
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(PEERS), str(WORKER), *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"the peers' process failed:\n{done.stderr[-3000:]}")
    return done.stdout


def run(quick: bool) -> list[dict[str, Any]]:
    """Rows of both tables; without the peers' environment, one row that says so."""
    if not PEERS.exists():
        note = "create .venvs/peers and install mapie==1.6.0 relplot netcal torch"
        return [{"bar": "top-label peers", "value": float("nan"), "limit": 1.0, "ok": False,
                 "note": note}]  # fmt: skip
    flag = ["--quick"] if quick else []
    rows: list[dict[str, Any]] = []
    for task in ("speed", "quality"):
        rows += json.loads(_worker(task, *flag).splitlines()[-1])
    show(rows)
    return rows


if __name__ == "__main__":
    if "--fixtures" in sys.argv:
        _worker("fixtures", str(FIXTURES))
    else:
        raise SystemExit(main(run, __doc__ or ""))
