"""The demo's question on a shipped file: is a candidate better than production?

A support desk tried two candidates for its prompt. The judge prefers long answers and ranks the
versions wrongly; people rated a slice. `examples/support/make_evals.py` made the file.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cje.analysis import analyze_dataset
from cje.report import Forest, ForestRow, Part, Report, Section, Table
from cje.report.wording import fixed
from cje.results.report_parts import make_report
from cje.results.result import EstimationResult

if TYPE_CHECKING:
    from cje.pipeline.demo import DemoRow

__all__ = ["BASELINE", "Question", "ask", "question_report"]

BASELINE = "prod"
_FILES = ("evals.csv", "truth.csv")
_TITLE = "Which support prompt is better?"


@dataclass(frozen=True)
class Question:
    """The naive answer, the calibrated answer and the truth.

    Attributes
    ----------
    naive : mapping version -> mean judge score
    result : EstimationResult
        Of ``cje analyze evals.csv --baseline prod``.
    truth : mapping version -> mean human label of all rows
    """

    naive: Mapping[str, float]
    result: EstimationResult
    truth: Mapping[str, float]

    def rows(self) -> list[tuple[str, float, float, float, float, float]]:
        """Version, judge's mean, estimate, low, high, truth; the baseline first."""
        return [
            (row["name"], self.naive[row["name"]], row["estimate"], row["low"], row["high"],
             self.truth[row["name"]])
            for row in self.result.rows()
        ]  # fmt: skip


def shipped_folder() -> Path:
    """`examples/support` of the tree; in an installed wheel, its copy inside the package."""
    inside = Path(__file__).parent / "support"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "examples" / "support"


def ask(folder: Path) -> Question:
    """Copy the shipped file into `folder` and answer the question on it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copyfile(shipped_folder() / name, folder / name)
    data = folder / "evals.csv"
    naive = analyze_dataset(data, estimator="naive", baseline=BASELINE)
    result = analyze_dataset(data, baseline=BASELINE, text=True)
    with (folder / "truth.csv").open(encoding="utf-8") as file:
        truth = {row["version"]: float(row["mean_human_label"]) for row in csv.DictReader(file)}
    scores = dict(zip(naive.policies, naive.estimates.tolist(), strict=True))
    return Question(scores, result, truth)


def question_report(question: Question, from_log: Sequence[DemoRow] = ()) -> Report:
    """The report of the answer, beginning with naive, calibrated and true values side by side.

    `from_log` adds the off-policy demo as a last section.
    """
    result = question.result.with_(metadata={"truth": dict(question.truth)})
    extra: tuple[Part, ...] = (_log_section(from_log),) if from_log else ()
    report = make_report(result, title=_TITLE, extra=extra)
    return replace(report, parts=(_side_by_side(question), *report.parts))


def _side_by_side(question: Question) -> Table:
    rows = tuple(
        (name, fixed(score, 2), fixed(value, 2), f"{fixed(low, 2)} to {fixed(high, 2)}",
         fixed(truth, 2))
        for name, score, value, low, high, truth in question.rows()
    )  # fmt: skip
    return Table(
        "The judge, the calibrated answer, the truth",
        ("version", "mean judge score", "calibrated", f"{question.result.level:.0%} interval",
         "truth"),
        rows,
        frozenset({1, 2, 3, 4}),
        "The judge likes long answers and has the order wrong. Calibrated on the human labels of a "
        "third of the questions, the same scores give the right one. The truth is the mean of "
        "people's ratings of every answer, which the analysis has not seen.",
    )  # fmt: skip


def _log_section(rows: Sequence[DemoRow]) -> Section:
    """The off-policy demo: the policy that wrote the log, and those valued from it."""
    lines = tuple(
        ForestRow.refused(row.policy, row.refused, row.truth)
        if row.refused is not None
        else ForestRow(row.policy, row.estimate, row.low, row.high, row.truth,
                       "wrote the log" if row.logging else "")
        for row in rows
    )  # fmt: skip
    note = (
        "Another run, on small language models: one policy's logged responses value the others by "
        "importance weights. Upright bars mark the true value."
    )
    return Section(
        "From a log alone", (Forest("Off-policy values", lines, "mean label", note=note),)
    )
