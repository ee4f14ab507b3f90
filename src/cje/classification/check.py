"""Complete check of a classifier from a file of its predictions: `cje classifier check`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cje.classification.assessment import Assessment, assess_rows
from cje.classification.brier import brier_score
from cje.classification.curves import calibration_curve as binary_curve
from cje.classification.curves import confidence_curve, top_label_curves
from cje.classification.ece import confidence_ece, expected_calibration_error, top_label_ece
from cje.classification.recalibration import RecalibrationMap
from cje.classification.registry import Metric
from cje.classification.report import classification_report
from cje.classification.rms import rms_calibration_error, top_label_rms_error
from cje.classification.rows import Rows, check_rows
from cje.classification.subgroups import (
    ClassRow,
    SubgroupAssessment,
    assess_subgroups,
    class_table,
)
from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.metrics import FEW_PREDICTIONS, MISCALIBRATED, SUBGROUP_MISCALIBRATED
from cje.inference.curve import CalibrationCurve
from cje.report import Report

__all__ = ["ClassifierCheck", "check_predictions"]

_BINARY: tuple[Metric, ...] = (expected_calibration_error, rms_calibration_error, brier_score)
_TOP: tuple[Metric, ...] = (top_label_ece, confidence_ece, top_label_rms_error)
_READERS: dict[str, Any] = {
    ".csv": pl.read_csv,
    ".parquet": pl.read_parquet,
    ".jsonl": pl.read_ndjson,
    ".ndjson": pl.read_ndjson,
}


_CLASS_HEADER = "class               rows  accuracy  confidence     ECE  ECE interval"


def _class_line(row: ClassRow) -> str:
    low, high = row.ece_interval
    return (
        f"{row.label!s:<16.16} {row.count:>7,} {row.accuracy:>9.3f} {row.confidence:>11.3f} "
        f"{row.ece:>7.3f}  [{low:.3f}, {high:.3f}]"
    )


@dataclass(frozen=True)
class ClassifierCheck:
    """What a check found.

    Parameters
    ----------
    assessments : list of Assessment
    classes : list of ClassRow
        Empty for a probability of 1.
    subgroups : SubgroupAssessment, optional
    curves : dict name -> CalibrationCurve
    map : RecalibrationMap
    findings : list of Finding
    """

    assessments: list[Assessment]
    classes: list[ClassRow]
    subgroups: SubgroupAssessment | None
    curves: dict[str, CalibrationCurve]
    map: RecalibrationMap
    findings: list[Finding]

    def text(self) -> str:
        """The check as plain text."""
        lines = [str(a) for a in self.assessments]
        if self.classes:
            lines += ["", _CLASS_HEADER, *map(_class_line, self.classes)]
        if self.subgroups is not None:
            lines += ["", str(self.subgroups)]
        if self.findings:
            lines += ["", *map(str, self.findings)]
        return "\n".join(lines)

    def report(self) -> Report:
        """The check as a page."""
        return classification_report(
            self.assessments, self.curves, classes=self.classes, subgroups=self.subgroups,
            findings=self.findings,
        )  # fmt: skip


def check_predictions(
    source: str | Path | pl.DataFrame,
    *,
    label: str = "label",
    predicted: str = "predicted",
    confidence: str = "confidence",
    probability: str = "probability",
    pos_label: Any = None,
    prefix: str = "p_",
    groups: str | None = None,
    by: str | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    calibrator: str = "isotonic",
) -> ClassifierCheck:
    """Assess the predictions in a file or frame and fit a map that recalibrates them.

    Parameters
    ----------
    source : path or polars data frame
        CSV, JSONL or Parquet with a column of true labels and one of: a column per class, named
        `prefix` and the label; the predicted label and its confidence; the probability of 1.
    label, predicted, confidence, probability, groups, by : str
        Column names.
    pos_label : label, optional
        The label that counts as 1, with `probability`.
    prefix : str
    n_bins, level
        As in `assess`.
    calibrator : str
        Of the recalibration map.

    Raises
    ------
    CJEError
        A file that cannot be read, or columns that are not there.
    """
    frame = source if isinstance(source, pl.DataFrame) else _read(Path(source))
    y = _column(frame, label)
    rows, prediction, labels = _rows(
        frame, y, predicted, confidence, probability, pos_label, prefix,
        None if groups is None else _column(frame, groups),
    )  # fmt: skip
    metrics = _BINARY if rows.kind == "binary" else _TOP
    found = []
    for metric in metrics:
        binned = {} if metric is brier_score else {"n_bins": n_bins}
        found.append(assess_rows(metric, rows, level=level, n_draws=400, seed=0, **binned))
    cluster = None if groups is None else _column(frame, groups)
    options: dict[str, Any] = {"groups": cluster, "n_bins": n_bins, "level": level}
    if rows.kind == "binary":
        curves = {"all": binary_curve(rows.y, rows.p, title="all rows", **options)}
        classes = []
    else:
        options["labels"] = labels
        whole = confidence_curve(y, prediction, title="all classes", **options)
        by_label = top_label_curves(y, prediction, **options)
        curves = {"all": whole} | {str(name): curve for name, curve in by_label.items()}
        classes = class_table(y, prediction, **options)
    parts = None
    if by is not None:
        outcome = rows.y if rows.kind == "binary" else y
        known = {} if rows.kind == "binary" else {"labels": labels}
        parts = assess_subgroups(
            metrics[0], outcome, prediction, _column(frame, by), level=level, n_bins=n_bins,
            groups=cluster, **known,
        )  # fmt: skip
    return ClassifierCheck(
        found, classes, parts, curves, RecalibrationMap.fit(rows, calibrator),
        _findings(found[0], parts, classes, level),
    )  # fmt: skip


def _read(path: Path) -> pl.DataFrame:
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise CJEError("the file's kind is not known", where=str(path), value=path.suffix,
                       hint="use .csv, .jsonl or .parquet")  # fmt: skip
    try:
        frame: pl.DataFrame = reader(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CJEError(f"cannot read the file: {error}", where=str(path)) from error
    return frame


def _column(frame: pl.DataFrame, name: str) -> Any:
    if name not in frame.columns:
        raise CJEError("there is no such column", value=name,
                       hint=f"available columns: {', '.join(frame.columns)}")  # fmt: skip
    column = frame[name]
    if column.null_count():
        raise CJEError(
            f"column {name} has missing values", where=f"row {column.is_null().arg_max()}",
            hint="remove or repair these rows first",
        )  # fmt: skip
    return column.to_numpy()


def _rows(
    frame: pl.DataFrame, y: Any, predicted: str, confidence: str, probability: str,
    pos_label: Any, prefix: str, groups: Any,
) -> tuple[Rows, Any, Any]:  # fmt: skip
    """Checked rows, the predictions as the metrics take them, and the label of each column."""
    if predicted in frame.columns and confidence in frame.columns:
        pair = (_column(frame, predicted), _column(frame, confidence))
        return check_rows("top", y, pair, groups=groups), pair, None
    if probability in frame.columns:
        p = _column(frame, probability)
        positive = None if pos_label is None else np.asarray(y).dtype.type(pos_label)
        return check_rows("binary", y, p, pos_label=positive, groups=groups), p, None
    names = [name for name in frame.columns if prefix and name.startswith(prefix)]
    if len(names) < 2:
        raise CJEError(
            "there are no predictions in the file", value=frame.columns,
            hint=f"give columns {predicted} and {confidence}, or {probability}, or one column per "
            f"class named {prefix}LABEL",
        )  # fmt: skip
    matrix = frame.select(names).rename({name: name[len(prefix) :] for name in names})
    return check_rows("top", y, matrix, groups=groups), matrix, None


def _findings(
    first: Assessment, parts: SubgroupAssessment | None, classes: list[ClassRow], level: float
) -> list[Finding]:
    found = []
    if first.null.p_value < 1.0 - level:
        found.append(
            MISCALIBRATED.finding(
                metric=first.metric.replace("_", " "), value=first.value, null=first.null.mean,
                p_value=first.null.p_value,
            )
        )  # fmt: skip
    for part, p_value in ({} if parts is None else parts.adjusted).items():
        if p_value < 1.0 - level:
            found.append(SUBGROUP_MISCALIBRATED.finding(str(part), p_value=p_value))
    least = int(FEW_PREDICTIONS.thresholds["rows"])
    few = [str(row.label) for row in classes if row.count < least]
    if few:
        found.append(FEW_PREDICTIONS.finding(classes=", ".join(few), least=least))
    return found
