"""Coverage against width of all stress cells, beside peers: `docs/methods/img/stress.png`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["picture"]

LOW, HIGH, WIDTH = 0.935, 0.965, 1.15
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "methods" / "img" / "stress.png"
STYLES: dict[str, dict[str, Any]] = {
    "labels alone (t)": {"marker": "x", "color": "#b5651d", "linewidths": 1.0},
    "PPI++": {"marker": "+", "color": "#8a4f9e", "linewidths": 1.2},
    "glide": {"marker": "1", "color": "#c23b4e", "linewidths": 1.2},
    "cje-eval": {"marker": "^", "color": "#3f8f5b", "linewidths": 0.0},
}


def picture(rows: Sequence[Mapping[str, Any]], peers: Sequence[Mapping[str, Any]]) -> None:
    """Draw the records of `benchmarks.stress` (ours, 4,000 repetitions) and `stress_peers`."""
    import matplotlib.pyplot as plt

    shown = [
        r for r in rows if r.get("width") is not None and "coverage" in r and r["refused"] < 0.95
    ]
    figure, axis = plt.subplots(figsize=(7.0, 4.6), layout="constrained")
    axis.axhspan(LOW, HIGH, color="0.93", zorder=0)
    axis.axvline(WIDTH, color="0.8", linewidth=1.0, zorder=0)

    def draw(points: Sequence[tuple[float, float]], **style: Any) -> None:
        if points:
            axis.scatter(*np.clip(np.array(points, float), [0.4, 0.6], [2.6, 1.0]).T, s=24, **style)

    for name, style in STYLES.items():
        # Where direct refuses all values, there is no width to compare with.
        known = [r["found"] for r in peers if r["found"]["direct"]["refused"] < 0.95]
        parts = [found[name] for found in known if name in found]
        points = [(p["to_oracle"], p["coverage"]) for p in parts
                  if p["refused"] + p["errors"] < 0.95 and p["to_oracle"] is not None]  # fmt: skip
        draw(points, label=name, **style)
    told = [r["warned"] >= 0.8 for r in shown]
    for finding, style in (
        (False, {"color": "#1f5fa8", "label": "direct"}),
        (True, {"facecolors": "none", "edgecolors": "#1f5fa8",
                "label": "direct, a finding names the cause"}),
    ):  # fmt: skip
        points = [(r["width"], r["coverage"]) for r, t in zip(shown, told, strict=True)
                  if t is finding]  # fmt: skip
        draw(points, **style)
    axis.set(xlabel="mean width, over the t interval with the true sd of direct",
             ylabel="coverage of 95% intervals (lowest shown: 0.6)")  # fmt: skip
    axis.legend(loc="center right", frameon=False)
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})
    plt.close(figure)
