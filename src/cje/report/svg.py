"""Charts as inline SVG that keeps its text size on any width.

Horizontal positions are percentages and vertical ones pixels, so a chart fills any width; paths,
which cannot use percentages, sit in a nested drawing stretched to the same box. Colours come from
CSS classes. Every text goes through `markupsafe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cje.report.parts import CurvePart, Forest, ForestRow, HistogramPart, padded
from cje.report.wording import clean, fixed, number, ticks

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["curve_chart", "forest_axis", "forest_strip", "histogram_chart"]

_CURVE_HEIGHT, _BAR_HEIGHT, _STRIP_HEIGHT = 230, 110, 26
_AXIS_ROOM, _TOP_ROOM = 34, 8


def tag(name: str, *children: str, **attributes: object) -> Markup:
    """One element; attribute values and plain-text children are cleaned and escaped."""
    from markupsafe import Markup, escape

    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(str(value)))}"'
        for key, value in attributes.items()
    )
    inside = "".join(
        child if isinstance(child, Markup) else escape(clean(child)) for child in children
    )
    return Markup(f"<{name}{given}>{inside}</{name}>")


class _Axis:
    """Values on [low, high] as percentages of the width."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(100.0 * min(max(share, 0.0), 1.0), 3)

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def percent(self, value: float) -> str:
        return f"{self.at(value)}%"


def _tick_text(axis: _Axis, value: float, text: str, y: float) -> Markup:
    """A label under the axis; labels at the ends are shifted inwards, so that none is cut off."""
    place = axis.at(value)
    anchor = "start" if place < 4 else "end" if place > 96 else "middle"
    return tag("text", text, x=f"{place}%", y=y, text_anchor=anchor, class_="tick")


def _labelled(axis: _Axis, most: int = 6) -> list[tuple[float, str]]:
    values, decimals = ticks(axis.low, axis.high, most)
    return [(value, fixed(value, decimals)) for value in values]


# ---- forest -----------------------------------------------------------------------------------


def forest_strip(part: Forest, row: ForestRow) -> Markup:
    """One row's interval, estimate and truth on the common axis."""
    axis, middle = _Axis(*part.limits()), _STRIP_HEIGHT / 2
    shapes = []
    if part.zone is not None:
        left, right = (axis.at(v) for v in part.zone)
        width = f"{round(right - left, 3)}%"
        box = {"x": f"{left}%", "y": 0, "width": width, "height": _STRIP_HEIGHT}
        shapes.append(tag("rect", **box, class_="zone"))
    shapes += [_upright(axis, value, "grid") for value, _ in _labelled(axis)]
    if part.reference is not None:
        shapes.append(_upright(axis, part.reference, "reference"))
    if not row.reason:
        shapes += _interval(axis, row, middle)
    if row.truth is not None:
        place = axis.percent(row.truth)
        shapes.append(
            tag("line", x1=place, x2=place, y1=middle - 10, y2=middle + 10, class_="truth")
        )
    words = f"{number(row.value)}, interval {number(row.low)} to {number(row.high)}"
    if row.reason:
        words = "refused: no value"
    return tag("svg", *shapes, width="100%", height=_STRIP_HEIGHT, class_="strip",
               role="img", aria_label=words)  # fmt: skip


def _interval(axis: _Axis, row: ForestRow, middle: float) -> list[Markup]:
    """The line from low to high, its ends, and the point."""
    shapes = []
    low, high = axis.percent(row.low), axis.percent(row.high)
    shapes.append(tag("line", x1=low, x2=high, y1=middle, y2=middle, class_="interval"))
    shapes += [
        tag("line", x1=end, x2=end, y1=middle - 4, y2=middle + 4, class_="interval")
        for value, end in ((row.low, low), (row.high, high))
        if axis.holds(value)  # an interval beyond the axis has no end to mark
    ]
    if axis.holds(row.value):
        shapes.append(tag("circle", cx=axis.percent(row.value), cy=middle, r=4.5, class_="point"))
    return shapes


def _upright(axis: _Axis, value: float, kind: str) -> Markup:
    place = axis.percent(value)
    return tag("line", x1=place, x2=place, y1=0, y2=_STRIP_HEIGHT, class_=kind)


def forest_axis(part: Forest) -> Markup:
    """The axis under the strips."""
    axis = _Axis(*part.limits())
    shapes = [_tick_text(axis, value, text, 14) for value, text in _labelled(axis)]
    shapes.append(tag("text", part.axis, x="50%", y=31, text_anchor="middle", class_="axis-name"))
    return tag("svg", *shapes, width="100%", height=36, class_="axis", aria_hidden="true")


# ---- framed charts ----------------------------------------------------------------------------


def _framed(
    x: _Axis,
    y: _Axis,
    height: int,
    stretched: Sequence[Markup],
    points: Sequence[Markup],
    x_ticks: Sequence[tuple[float, str]],
    words: tuple[str, str, str],
    y_ticks: Sequence[tuple[float, str]] | None = None,
) -> Markup:
    """A chart of two drawings side by side: the y labels at a fixed width, the rest fluid."""
    x_name, y_name, said = words
    total = height + _TOP_ROOM + _AXIS_ROOM
    rows = [
        (text, _TOP_ROOM + height * (1 - y.at(v) / 100)) for v, text in y_ticks or _labelled(y, 5)
    ]
    grid = [
        tag("line", x1="0", x2="100%", y1=round(at, 1), y2=round(at, 1), class_="grid")
        for _, at in rows
    ]
    inner = tag("svg", *stretched, x=0, y=_TOP_ROOM, width="100%", height=height,
                viewBox="0 0 100 100", preserveAspectRatio="none")  # fmt: skip
    labels = [_tick_text(x, v, text, _TOP_ROOM + height + 15) for v, text in x_ticks]
    name = tag("text", x_name, x="50%", y=total - 3, text_anchor="middle", class_="axis-name")
    area = tag("svg", *grid, inner, *points, *labels, name, width="100%", height=total,
               class_="area", role="img", aria_label=said)  # fmt: skip
    return tag("div", _y_axis(rows, y_name, height, total), area, class_="chart")


def _y_axis(rows: Sequence[tuple[str, float]], name: str, height: int, total: int) -> Markup:
    """Labels at their heights, and the name of the axis beside them, turned by 90 degrees."""
    labels = [
        tag("text", text, x=47, y=round(at + 4, 1), text_anchor="end", class_="tick")
        for text, at in rows
    ]
    middle = _TOP_ROOM + height / 2
    labels.append(tag("text", name, x=9, y=middle, text_anchor="middle",
                      transform=f"rotate(-90 9 {middle})", class_="axis-name"))  # fmt: skip
    return tag("svg", *labels, width=52, height=total, class_="y-axis", aria_hidden="true")


def _path(points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> Markup:
    line = " L".join(f"{x:.3f} {y:.3f}" for x, y in points)
    return tag("path", d=f"M{line}{' Z' if closed else ''}", class_=kind)


def curve_chart(part: CurvePart) -> Markup:
    """Line, band, diagonal and the points where there are few enough to tell apart."""
    curve = part.curve
    heights = [v for v in (curve.observed, curve.low, curve.high) if v is not None]
    y_values = np.concatenate(heights)
    x, y = _curve_axes(part, y_values[np.isfinite(y_values)])

    def places(values: np.ndarray) -> list[tuple[float, float]]:
        return [
            (x.at(a), 100 - y.at(b))
            for a, b in zip(curve.x.tolist(), values.tolist(), strict=True)
            if np.isfinite(b)
        ]

    shapes = []
    if curve.low is not None and curve.high is not None and len(curve) > 1:
        shapes.append(_path(places(curve.low) + places(curve.high)[::-1], "band", closed=True))
    if curve.reference:
        low, high = max(x.low, y.low), min(x.high, y.high)
        if low < high:
            ends = [(x.at(v), 100 - y.at(v)) for v in (low, high)]
            shapes.append(_path(ends, "diagonal"))
    line = places(curve.observed)
    if len(line) > 1:
        shapes.append(_path(line, "line"))
    points = []
    if len(line) <= 40:
        points = [
            tag(
                "circle",
                cx=f"{a}%",
                cy=round(_TOP_ROOM + _CURVE_HEIGHT * b / 100, 1),
                r=3,
                class_="point",
            )
            for a, b in line
        ]
    said = f"{part.title}: {curve.y_label} against {curve.x_label}, {len(curve)} points"
    return _framed(x, y, _CURVE_HEIGHT, shapes, points, _labelled(x),
                   (curve.x_label, curve.y_label, said))  # fmt: skip


def _curve_axes(part: CurvePart, y_values: np.ndarray) -> tuple[_Axis, _Axis]:
    """Both axes; the x axis is that of the histogram, if there is one, so that they line up."""
    x_values = part.curve.x
    if part.histogram is not None:
        x_range = float(part.histogram.edges[0]), float(part.histogram.edges[-1])
    elif part.curve.reference and len(x_values) and x_values[0] >= 0.0 and x_values[-1] <= 1.0:
        x_range = (0.0, 1.0)
    else:
        x_range = padded(x_values.tolist(), 0.02)
    share = len(y_values) and y_values.min() >= 0.0 and y_values.max() <= 1.0
    y_range = (0.0, 1.0) if share and np.ptp(y_values) > 0.3 else padded(y_values.tolist())
    return _Axis(*x_range), _Axis(*y_range)


def histogram_chart(part: HistogramPart) -> Markup:
    """Shares by bin: the first series as bars, the others as outlines on top."""
    x = _Axis(float(part.edges[0]), float(part.edges[-1]))
    shares = [s.counts / max(float(s.counts.sum()), 1e-300) for s in part.series]
    top = max((float(s.max(initial=0.0)) for s in shares), default=0.0) or 1.0
    y = _Axis(0.0, 1.08 * top)
    shapes = []
    left, right = part.edges[:-1], part.edges[1:]
    for k, share in enumerate(shares):
        if k == 0:
            shapes += [
                tag(
                    "rect",
                    x=x.at(a),
                    y=100 - y.at(v),
                    width=round(x.at(b) - x.at(a), 3),
                    height=y.at(v),
                    class_="bar series-0",
                )
                for a, b, v in zip(left, right, share.tolist(), strict=True)
                if v > 0
            ]
            continue
        steps = [(x.low, 0.0)]
        for a, b, v in zip(left, right, share.tolist(), strict=True):
            steps += [(float(a), v), (float(b), v)]
        steps.append((x.high, 0.0))
        shapes.append(_path([(x.at(a), 100 - y.at(v)) for a, v in steps], f"step series-{k}"))
    labels = _log_labels(x) if part.log else _labelled(x)
    shares_at = [(v, f"{100 * v:g}%") for v in ticks(0.0, y.high, 4)[0]]
    words = (part.axis, "share", part.title)
    return _framed(x, y, _BAR_HEIGHT, shapes, [], labels, words, shares_at)


def _log_labels(axis: _Axis) -> list[tuple[float, str]]:
    """Powers of ten between the ends; every second one if there are many."""
    powers = list(range(int(np.ceil(axis.low - 1e-9)), int(np.floor(axis.high + 1e-9)) + 1))
    step = max(1, len(powers) // 6)
    return [(float(p), f"{10.0**p:g}") for p in powers[::step]]
