"""The report of a plan: precision against the numbers of labels and prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cje.analysis.label_plan import MIN_LABELS, Design, Goal, JudgeQuality, achieved
from cje.analysis.pilot import RANGE, PilotPlan
from cje.inference import CalibrationCurve
from cje.kernels.arrays import FloatArray
from cje.report import CurvePart, Facts, Part, Report, Table

__all__ = ["plan_report"]


_POINTS = 40


def plan_report(
    design: Design, goal: Goal, quality: JudgeQuality, pilot: PilotPlan | None = None
) -> Report:
    """One page: the design, and how width or power change with its labels and its prompts.

    With a pilot, each curve has a band: the 80% planning range.

    Examples
    --------
    >>> from cje.analysis.label_plan import plan_study
    >>> quality, goal = JudgeQuality(sd=0.25, r2=0.5), Goal("value", 0.05)
    >>> page = plan_report(plan_study(quality, goal), goal, quality).to_html()
    >>> "width by labels" in page
    True
    """
    draws = () if pilot is None else pilot.pilot.draws
    labels = _grid(MIN_LABELS, min(design.n_prompts, 3 * design.n_labels))
    prompts = _grid(design.n_labels, 3 * design.n_prompts)
    by_labels = [(design.n_prompts, int(count)) for count in labels]
    by_prompts = [(int(count), design.n_labels) for count in prompts]
    what = "power" if goal.kind == "power" else "width"
    parts: list[Part] = [
        _designs(design, None if pilot is None else pilot.cautious),
        _curve(
            f"{what} by labels per policy, at {design.n_prompts:,} prompts",
            "labels per policy", labels, by_labels, goal, quality, draws,
        ),
        _curve(
            f"{what} by prompts, at {design.n_labels:,} labels per policy",
            "prompts per policy", prompts, by_prompts, goal, quality, draws,
        ),
        _assumptions(quality, pilot),
    ]  # fmt: skip
    return Report("Study plan", tuple(parts), _wish(goal))


def _grid(low: int, high: int) -> FloatArray:
    return np.unique(np.geomspace(low, max(high, low + 1), _POINTS).round())


def _curve(
    title: str,
    axis: str,
    x: FloatArray,
    designs: Sequence[tuple[int, int]],
    goal: Goal,
    quality: JudgeQuality,
    draws: Sequence[JudgeQuality],
) -> CurvePart:
    def along(assumed: JudgeQuality) -> list[float]:
        found = [achieved(assumed, goal, n, labels) for n, labels in designs]
        return [d.width if d.power is None else d.power for d in found]

    low = high = None
    if draws:
        low, high = np.quantile([along(assumed) for assumed in draws], RANGE, axis=0)
    curve = CalibrationCurve(
        x,
        np.array(along(quality)),
        low,
        high,
        band="pointwise" if draws else "none",
        x_label=axis,
        y_label="power" if goal.kind == "power" else "full width of the interval",
        title=title,
        reference=False,
    )
    return CurvePart(title, curve, note="band: 80% planning range" if draws else "")


def _designs(design: Design, cautious: Design | None) -> Table:
    rows = [("planned", design)] + ([] if cautious is None else [("on the safe side", cautious)])
    cells = tuple(
        (
            name,
            f"{d.n_prompts:,}",
            f"{d.n_labels:,}",
            f"{d.judge_calls:,}",
            f"{d.total_labels:,}",
            f"{d.cost:,.2f}",
            f"{d.width:.4g}",
            "" if d.power is None else f"{d.power:.1%}",
        )
        for name, d in rows
    )
    columns = ("design", "prompts per policy", "labels per policy", "judge calls", "labels in all",
               "cost", "width", "power")  # fmt: skip
    return Table("Design", columns, cells, frozenset(range(1, len(columns))))


def _assumptions(quality: JudgeQuality, pilot: PilotPlan | None) -> Facts:
    items = [
        ("standard deviation of the labels", f"{quality.sd:.3g}"),
        ("share of their variance the judge explains", f"{quality.r2:.1%}"),
        ("correlation of policies on one prompt, calibrated score",
         f"{quality.reward_correlation:.2f}"),
        ("the same, what the judge misses", f"{quality.residual_correlation:.2f}"),
    ]  # fmt: skip
    if pilot is not None:
        items.append(("labels of the pilot", f"{pilot.pilot.n_labels:,}"))
    return Facts("What the plan rests on", tuple(items))


def _wish(goal: Goal) -> str:
    if goal.kind == "power":
        return f"to find a difference of {goal.size:g} with probability {goal.power:.0%}"
    whose = "each value" if goal.kind == "value" else "a paired difference"
    return f"for a {goal.level:.0%} interval of {whose} no wider than {goal.size:g}"
