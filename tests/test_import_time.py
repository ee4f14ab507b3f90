"""`import cje` costs about as much as NumPy, `cje --help` about as much as typer."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

HEAVY = ("sklearn", "matplotlib", "polars", "openai")
HELP = """
import sys
sys.argv = ["cje", "--help"]
from cje.cli.main import main
try:
    main()
except SystemExit:
    pass
"""


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - start


def ratio(code: str, base: str, repeats: int) -> float:
    """Fastest process running `code` over the fastest running `base`; runs alternate.

    The minimum is what the machine can do when nothing else disturbs it.
    """
    times: dict[str, list[float]] = {code: [], base: []}
    for _ in range(repeats):
        for key, taken in times.items():
            taken.append(seconds(key))
    return min(times[code]) / min(times[base])


def until_quiet(code: str, base: str, limit: float) -> float:
    """The ratio, measured again with more runs where a busy machine blurred it."""
    first = ratio(code, base, 5)
    return first if first <= limit else min(first, ratio(code, base, 15))


def test_import_cje_is_at_most_one_and_a_half_numpy() -> None:
    assert until_quiet("import cje", "import numpy", 1.5) <= 1.5


def test_cje_help_is_at_most_three_typer() -> None:
    assert until_quiet(HELP, "import typer", 3.0) <= 3.0


@pytest.mark.parametrize("code", ["import cje", "import cje.data", "import cje.data.folds", HELP])
def test_no_heavy_library_is_imported(code: str) -> None:
    check = f"\nimport sys; print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + check], check=True, capture_output=True, text=True
    )
    assert done.stderr.strip().splitlines()[-1] == "[]"
