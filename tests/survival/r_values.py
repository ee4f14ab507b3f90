"""The values that R gave, and the data sets they belong to (fixtures/make_fixtures.R)."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "fixtures"
WORDS = {"TRUE": 1.0, "FALSE": 0.0}


@cache
def r_values() -> dict[str, Any]:
    """What R computed."""
    return json.loads((FOLDER / "r_values.json").read_text(encoding="utf-8"))


@cache
def table(name: str) -> dict[str, np.ndarray]:
    """A fixture's columns."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as handle:
        rows = [{k: v.strip() for k, v in row.items()} for row in csv.DictReader(handle)]
    return {
        column: np.array([WORDS.get(row[column]) if row[column] in WORDS else float(row[column])
                          for row in rows])
        for column in rows[0]
    }  # fmt: skip
