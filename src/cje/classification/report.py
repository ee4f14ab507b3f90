"""A report of classifier calibration, from the same parts as every other report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cje.classification.assessment import Assessment
from cje.classification.subgroups import ClassRow, SubgroupAssessment
from cje.errors import CJEError
from cje.findings import Finding
from cje.inference import CalibrationCurve
from cje.inference.intervals import Interval
from cje.report import Answer, CurvePart, FindingsPart, Part, Report, Section, Table
from cje.report.wording import fixed, interval, number, p_value

__all__ = ["classification_report"]

_MOST_CURVES = 24
_DECIMALS = 4


def classification_report(
    assessments: Sequence[Assessment],
    curves: Mapping[str, CalibrationCurve] | None = None,
    *,
    classes: Sequence[ClassRow] = (),
    subgroups: SubgroupAssessment | None = None,
    findings: Sequence[Finding] = (),
    title: str = "Classifier calibration",
    subtitle: str = "",
) -> Report:
    """A page of calibration metrics, each beside what a calibrated model would score.

    Parameters
    ----------
    assessments : sequence of Assessment
        From `assess`, in reading order.
    curves : mapping name -> CalibrationCurve, optional
        From `calibration_curve`, `confidence_curve` or `top_label_curves`.
    classes : sequence of ClassRow, optional
        From `class_table`.
    subgroups : SubgroupAssessment, optional
        From `assess_subgroups`.
    findings : sequence of Finding
        Listed after the tables.
    title, subtitle : str

    Examples
    --------
    >>> import numpy as np
    >>> from cje.classification import assess, calibration_curve, expected_calibration_error
    >>> p = np.random.default_rng(0).random(500)
    >>> wrong = assess(expected_calibration_error, p < 0.5, p)
    >>> page = classification_report([wrong], {"all": calibration_curve(p < 0.5, p)}).to_html()
    >>> "is miscalibrated" in page
    True
    """
    known = isinstance(assessments, Sequence)
    if not known or not all(isinstance(a, Assessment) for a in assessments):
        raise CJEError("assessments must be a list of results of assess", value=assessments)
    if not isinstance(curves, Mapping | None):
        raise CJEError("curves must map names to calibration curves", value=curves)
    parts: list[Part] = [_table(assessments)]
    if classes:
        parts.append(_class_part(classes))
    if subgroups is not None:
        parts.append(_subgroup_part(subgroups))
    if findings:
        parts.append(FindingsPart("Findings", tuple(findings)))
    drawn = list((curves or {}).items())
    if drawn:
        shown = tuple(
            CurvePart(
                curve.title or str(name),
                curve,
                None,
                f"{curve.band} {curve.level:.0%} band".capitalize(),
            )
            for name, curve in drawn[:_MOST_CURVES]
        )
        left = len(drawn) - len(shown)
        note = f"{left} more curves are not drawn." if left else ""
        parts.append(Section("Reliability", shown, note))
    return Report(title, tuple(parts), subtitle, _answer(assessments))


def _table(assessments: Sequence[Assessment]) -> Table:
    rows = tuple(
        (
            a.metric.replace("_", " "),
            fixed(a.value, _DECIMALS),
            _between(a.interval),
            fixed(a.null.mean, _DECIMALS),
            p_value(a.null.p_value),
            f"{a.n:,}",
        )
        for a in assessments
    )
    remarks = "".join(
        f" {a.metric.replace('_', ' ').capitalize()}: {a.remark}." for a in assessments if a.remark
    )
    return Table(
        "Metrics",
        ("metric", "value", "interval", "a calibrated model", "test", "rows"),
        rows,
        frozenset(range(1, 6)),
        f"Most metrics are positive for a calibrated model too: compare with its column.{remarks}",
    )


def _class_part(classes: Sequence[ClassRow]) -> Table:
    rows = tuple(
        (
            str(row.label),
            f"{row.count:,}",
            fixed(row.accuracy, _DECIMALS),
            _between(row.accuracy_interval),
            fixed(row.confidence, _DECIMALS),
            fixed(row.ece, _DECIMALS),
            _between(row.ece_interval),
        )
        for row in classes
    )
    return Table(
        "Predicted classes",
        ("class", "rows", "accuracy", "interval", "mean confidence", "ECE", "interval"),
        rows,
        frozenset(range(1, 7)),
        "Intervals of single classes, not adjusted for their number.",
    )


def _subgroup_part(subgroups: SubgroupAssessment) -> Table:
    rows = tuple(
        (
            str(name),
            f"{part.n:,}",
            fixed(part.value, _DECIMALS),
            _between(part.interval),
            fixed(part.null.mean, _DECIMALS),
            p_value(subgroups.adjusted[name]),
        )
        for name, part in subgroups.parts.items()
    )
    metric = next(iter(subgroups.parts.values())).metric.replace("_", " ")
    return Table(
        f"Subgroups: {metric}",
        ("subgroup", "rows", "value", "interval", "a calibrated model", "adjusted test"),
        rows,
        frozenset(range(1, 6)),
        "The intervals hold together; p-values are adjusted for the number of subgroups (Holm).",
    )


def _between(limits: Interval) -> str:
    return f"{fixed(limits.low, _DECIMALS)} to {fixed(limits.high, _DECIMALS)}"


def _answer(assessments: Sequence[Assessment]) -> Answer:
    can, cannot = [], []
    for a in assessments:
        words = (
            f"{a.metric.replace('_', ' ')} {number(a.value)} ({interval(*a.interval)}), a "
            f"calibrated model would score {number(a.null.mean)} ({p_value(a.null.p_value)})"
        )
        if a.null.p_value < 1.0 - a.interval.level:
            can.append(f"The model is miscalibrated: {words}.")
        else:
            cannot.append(f"That the model is miscalibrated: {words}.")
    steps = ("Recalibrate on held-out rows (cje.classification) and assess again on others.",)
    return Answer(tuple(can), tuple(cannot), steps if can else ())
