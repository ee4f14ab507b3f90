"""Parts drawn with matplotlib: axes in, axes out, in one style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cje.inference._plot import INK, MUTED, PALETTE, new_axes, tidy
from cje.report.parts import Forest, HistogramPart
from cje.report.wording import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_forest", "draw_histogram", "plain"]

_TRUTH = PALETTE[3]


def plain(text: str, limit: int = 40) -> str:
    """Text for matplotlib with dollar signs escaped, which would begin a formula."""
    return shorten(text, limit).replace("\n", " ").replace("$", r"\$")


def draw_forest(part: Forest, ax: Axes | None = None) -> Axes:
    """Draw estimates in rows, the first on top."""
    ax = tidy(new_axes(6.2, 1.3 + 0.42 * len(part.rows)) if ax is None else ax)
    if part.zone is not None:
        ax.axvspan(*part.zone, color=PALETTE[2], alpha=0.12, linewidth=0, zorder=0)
    if part.reference is not None:
        ax.axvline(part.reference, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for place, row in enumerate(part.rows):
        if row.reason:
            continue
        spread = np.array([[max(row.value - row.low, 0.0)], [max(row.high - row.value, 0.0)]])
        ax.errorbar(
            [row.value], [place], xerr=spread, fmt="o", color=PALETTE[0], markersize=6, capsize=3,
            linewidth=1.8, zorder=3,
        )  # fmt: skip
    known = [(row.truth, place) for place, row in enumerate(part.rows) if row.truth is not None]
    if known:
        x, y = zip(*known, strict=True)
        ax.plot(x, y, "|", color=_TRUTH, markersize=17, markeredgewidth=3, label="truth", zorder=2)
        ax.legend(frameon=False, fontsize=9, loc="best")
    ax.set_yticks(range(len(part.rows)))
    ax.set_yticklabels(
        [plain(row.name) + (f"\n({row.mark})" if row.mark else "") for row in part.rows]
    )
    ax.set_ylim(len(part.rows) - 0.5, -0.5)
    ax.set_xlim(*part.limits())
    ax.grid(False, axis="y")
    ax.set_xlabel(plain(part.axis, 80), color=INK)
    ax.set_title(plain(part.title, 80), color=INK, fontsize=11, loc="left")
    return ax


def draw_histogram(part: HistogramPart, ax: Axes | None = None) -> Axes:
    """Shares by bin: the first series filled, the others as outlines."""
    ax = tidy(new_axes(5.6, 3.2) if ax is None else ax)
    edges = 10.0**part.edges if part.log else part.edges
    for k, series in enumerate(part.series):
        share = series.counts / max(float(series.counts.sum()), 1e-300)
        look: dict[str, Any] = (
            {"fill": True, "alpha": 0.45} if k == 0 else {"fill": False, "linewidth": 1.8}
        )
        ax.stairs(share, edges, color=PALETTE[k % len(PALETTE)], label=plain(series.name), **look)
    if part.log:
        ax.set_xscale("log")
    ax.set_xlabel(plain(part.axis, 80), color=INK)
    ax.set_ylabel("share", color=INK)
    ax.set_title(plain(part.title, 80), color=INK, fontsize=11, loc="left")
    ax.legend(frameon=False, fontsize=9, loc="best")
    return ax
