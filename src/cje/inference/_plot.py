"""The style of the project's plots, and the drawing of a `CalibrationCurve`.

Matplotlib is imported when something is drawn, never before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cje.kernels.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cje.inference.curve import CalibrationCurve


__all__ = ["INK", "MUTED", "PALETTE", "draw_curve", "new_axes", "tidy"]

# Okabe and Ito's colours, distinct with any common colour vision, ordered by contrast on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#999999")
INK, MUTED = "#222222", "#8A8A8A"


def new_axes(width: float = 5.2, height: float = 4.2) -> Axes:
    """Axes of a figure of its own, independent of pyplot's global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=110)
    return figure.subplots()


def tidy(ax: Axes) -> Axes:
    """Apply the house style: two spines, quiet ticks, a faint grid behind the data."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(MUTED)
    ax.tick_params(colors=INK, labelsize=9)
    ax.grid(True, color="#E6E6E6", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def draw_curve(
    curve: CalibrationCurve,
    *,
    ax: Axes | None = None,
    color: str = PALETTE[0],
    label: str | None = None,
    show_counts: bool = True,
) -> Axes:
    """Draw the curve, its band, the diagonal and the counts; return the axes.

    A second curve can be drawn on the same axes with another `color` and `label`. The area of
    the markers follows the counts behind each point where there are at most forty; a longer curve
    is a line with a rug of its rows at the bottom.
    """
    ax = tidy(new_axes() if ax is None else ax)
    x, observed = curve.x, curve.observed
    if curve.reference:
        ax.axline(
            (0.0, 0.0), slope=1.0, color=MUTED, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1
        )
    if curve.low is not None and curve.high is not None:
        _draw_band(ax, curve.x, curve.observed, (curve.low, curve.high), color)
    ax.plot(x, observed, color=color, linewidth=1.8, label=label, zorder=3)
    if show_counts and curve.counts is not None and len(x) > 0:
        _draw_counts(ax, curve, color)
    ax.set_xlabel(curve.x_label, color=INK)
    ax.set_ylabel(curve.y_label, color=INK)
    if curve.title:
        ax.set_title(curve.title, color=INK, fontsize=11, loc="left")
    _set_limits(ax, curve)
    if label is not None:
        ax.legend(frameon=False, fontsize=9, loc="upper left")
    return ax


def _draw_band(
    ax: Axes, x: FloatArray, observed: FloatArray, band: tuple[FloatArray, FloatArray], color: str
) -> None:
    low, high = band
    if len(x) == 1:  # a band over one point has no area
        spread = np.array([observed - low, high - observed])
        ax.errorbar(x, observed, yerr=spread, color=color, capsize=3, fmt="none")
        return
    ax.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0, zorder=2)


def _draw_counts(ax: Axes, curve: CalibrationCurve, color: str) -> None:
    counts = np.asarray(curve.counts)
    largest = counts.max()
    if largest <= 0:
        return
    if len(curve) <= 40:
        area = 8.0 + 60.0 * counts / largest
        ax.scatter(curve.x, curve.observed, s=area, color=color, edgecolor="white", zorder=4)
        return
    base = ax.get_xaxis_transform()
    ax.vlines(curve.x, 0.0, 0.06 * counts / largest, transform=base, color=color, alpha=0.5, lw=0.8)


def _set_limits(ax: Axes, curve: CalibrationCurve) -> None:
    """Both axes on [0, 1] where score and outcome are shares; otherwise as the data need."""
    parts = [curve.x, curve.observed]
    parts += [part for part in (curve.low, curve.high) if part is not None]
    values = np.concatenate(parts)
    values = values[np.isfinite(values)]
    if curve.reference and len(values) and values.min() >= 0.0 and values.max() <= 1.0:
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
