"""Unequal labelling propensities: `direct` covers, or refuses.

    python -m benchmarks.propensities [--quick]

The designs are those of `studies.propensities`. Where unlabelled rows have no recorded propensity,
rows without a chance of a label cannot be seen: those figures are reported, not required.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.timing import main
from studies.propensities import DESIGNS, GOOD, coverage_study

__all__ = ["run"]

_LEAST, _MOST_REFUSED = 0.935, 0.02


def run(quick: bool) -> list[dict[str, Any]]:
    """One row per design and kind of record: coverage of what is not refused."""
    n_reps = 60 if quick else 600
    rows = []
    for labelled_only in (False, True):
        for name, design in DESIGNS.items():
            found = coverage_study(design, n_reps, seed=77, labelled_only=labelled_only)
            kept = n_reps * (1.0 - found.refused)
            slack = 2.5 * math.sqrt(0.05 * 0.95 / max(kept, 1.0))
            fine = math.isnan(found.covered) or found.covered >= _LEAST - slack
            if name in GOOD:
                spread = math.sqrt(_MOST_REFUSED * (1.0 - _MOST_REFUSED) / n_reps)
                fine = fine and found.refused <= _MOST_REFUSED + 2.5 * spread
            rows.append({
                "bar": f"covered or refused: {name}"
                + (", recorded on labelled rows only" if labelled_only else ""),
                "value": found.refused + kept / n_reps * (found.covered if kept else 0.0),
                "limit": "reported" if labelled_only else "0.935 of the intervals given",
                "ok": labelled_only or fine,
                "note": f"refused {found.refused:.3f} of {n_reps}; of the others covered "
                f"{found.covered:.3f}, mean width {found.width:.4f}",
            })  # fmt: skip
            print(rows[-1]["bar"], rows[-1]["value"], rows[-1]["note"], flush=True)
    return rows


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
