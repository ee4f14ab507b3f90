"""Cold starts: `import cje`, `cje --help` and the first answer, beside the libraries they stand on.

``python -m benchmarks.startup [--quick]``

Every run is a fresh process; times are processor seconds (user and system) of that process, so that
what else runs matters little. Runs alternate, and the ratio is that of the least times.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers import as_frame
from benchmarks.timing import main, row, show
from cje.simulate import policies_on_shared_prompts

__all__ = ["run"]


def _processor_seconds(command: list[str]) -> float:
    """Of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(quick: bool = False) -> list[dict[str, Any]]:
    """The three bars."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "evals.csv"
        as_frame(policies_on_shared_prompts(500, 2, 100, seed=1).dataset).write_csv(table)
        python, cje = [sys.executable, "-c"], [sys.executable, "-m", "cje.cli.main"]
        commands = {
            "polars, scipy": [*python, "import polars, scipy.stats"],
            "analyze": [*cje, "analyze", str(table)],
            "numpy": [*python, "import numpy"],
            "cje": [*python, "import cje"],
            "typer": [*python, "import typer"],
            "help": [*cje, "--help"],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(6 if quick else 16):
            for name, command in commands.items():
                spent = _processor_seconds(command)
                if turn:  # the first round fills the file system's cache
                    seconds[name].append(spent)
    least = {name: min(spent) for name, spent in seconds.items()}
    rows = [
        row(bar, least[ours] / least[floor], limit,
            f"{1e3 * least[ours]:.0f} ms against {1e3 * least[floor]:.0f} ms of processor")
        for bar, ours, floor, limit in (
            ("cje analyze of 1,000 rows, cold / import polars, scipy.stats",
             "analyze", "polars, scipy", 2.5),
            ("import cje / import numpy", "cje", "numpy", 1.5),
            ("cje --help / import typer", "help", "typer", 3.0),
        )
    ]  # fmt: skip
    show(rows)
    return rows


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
