"""The report's sections on the judge's calibration: its curve, transport, overlap and residuals."""

from __future__ import annotations

from collections.abc import Mapping

from scipy.special import ndtri

from cje.report import CurvePart, Forest, ForestRow, Part, Section, Table
from cje.report.wording import percent
from cje.results.report_evidence import MOST_ROWS, residual_parts, score_histogram
from cje.results.result import EstimationResult

__all__ = ["calibration_part", "residuals_part", "transport_part"]


def calibration_part(result: EstimationResult) -> Part | None:
    parts: list[Part] = []
    curve = result.curves.get("judge")
    histogram = None if result.evidence is None else score_histogram(result.evidence)
    if curve is not None:
        note = (
            f"Mean label at each judge score, with a {curve.band} {curve.level:.0%} band; below, "
            "how many scores and labels there are."
        )
        if curve.reference:
            note += " The dashed line is a judge whose scores are the labels' means."
        parts.append(CurvePart("Judge score to label", curve, histogram, note))
    elif histogram is not None:
        parts.append(histogram)
    transport = transport_part(result)
    if transport is not None:
        parts.append(transport)
    overlap = _overlap(result)
    if overlap is not None:
        parts.append(overlap)
    fit = result.diagnostics.get("calibration_fit")
    note = ""
    if isinstance(fit, Mapping) and "r2" in fit:
        note = (
            f"Out of fold the judge explains {percent(max(fit['r2'], 0.0))} of the variance of "
            f"{fit['n_labels']:,} labels."
        )
    return Section("Calibration of the judge", tuple(parts), note) if parts else None


def _width(result: EstimationResult) -> float:
    low, high = result.metadata.get("scale", (0.0, 1.0))
    return float(high - low)


def transport_part(result: EstimationResult) -> Forest | None:
    """Mean residual of each policy's labels under a calibration learnt from the others."""
    width, rows = _width(result), []
    margin: float | None = None
    for name, audit in result.diagnostics.get("transport", {}).items():
        if audit["mean_residual"] is None:
            continue
        margin = None if audit["margin"] is None else audit["margin"] * width
        value, low, high = (audit[key] * width for key in ("mean_residual", "low", "high"))
        mark = audit["status"].replace("_", " ").lower()
        tone = {"pass": "good", "fail": "bad", "not graded": "plain"}.get(mark, "care")
        rows.append(ForestRow(name, value, low, high, mark=mark, tone=tone))
    if not rows:
        return None
    graded = "A difference inside the shaded margin has no practical importance."
    if margin is None:
        graded = "Not graded: no margin was declared (--transport-margin)."
    return Forest(
        "Would the others' calibration hold?",
        tuple(rows[:MOST_ROWS]),
        "label minus prediction",
        reference=0.0,
        zone=None if margin is None else (-margin, margin),
        note="Each version's labels against a calibration learnt from the others; the intervals "
        f"hold for all versions at once. {graded} It matters where a version has no labels of "
        "its own.",
    )


def _overlap(result: EstimationResult) -> Table | None:
    found = result.diagnostics.get("score_overlap")
    if not found:
        return None
    rows = tuple(
        (name, percent(o["overlap"]), percent(o["outside"]), percent(o["thin"]))
        for name, o in list(found.items())[:MOST_ROWS]
    )
    return Table(
        "Do the labels reach the policy's scores?",
        ("policy", "overlap", "scores outside the labels", "scores with few labels"),
        rows,
        frozenset({1, 2, 3}),
    )


def residuals_part(result: EstimationResult) -> Part | None:
    if result.evidence is not None:
        parts = residual_parts(result.evidence, result.level)
    else:
        parts = _saved_regions(result)
    if not parts:
        return None
    note = (
        "Label minus out-of-fold prediction. An interval away from zero is a place where the judge "
        "errs in a way that the calibration does not correct. The intervals are not adjusted for "
        "their number; rows are taken as independent."
    )
    return Section("Residuals", tuple(parts), note)


def _saved_regions(result: EstimationResult) -> list[Forest]:
    """Residuals by thirds of the score, from the diagnostics of a saved result."""
    fit = result.diagnostics.get("calibration_fit") or {}
    width, times = _width(result), float(ndtri(0.5 + result.level / 2.0))
    rows = tuple(
        ForestRow(
            f"{r['name']} third",
            r["mean"] * width,
            (r["mean"] - times * r["standard_error"]) * width,
            (r["mean"] + times * r["standard_error"]) * width,
            mark=f"n = {r['n']}",
        )
        for r in fit.get("regions", ())
    )
    if not rows:
        return []
    return [Forest("By judge score", rows, "label minus prediction", reference=0.0)]
