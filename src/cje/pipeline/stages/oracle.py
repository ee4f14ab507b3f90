"""Stage 4: oracle labels on a slice of the rows, drawn with known probabilities."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cje.data import Scale
from cje.errors import CJEError
from cje.findings import Finding, Severity
from cje.findings.running import LABEL_JOIN
from cje.judges import (
    CallableOracle,
    CSVOracle,
    LabelSlice,
    ModelOracle,
    OracleSource,
    draw_label_slice,
)
from cje.kernels.binning import equal_mass_bins
from cje.pipeline.chunks import Row, RowStream
from cje.pipeline.config import OracleConfig, PipelineConfig
from cje.pipeline.hashing import fingerprint
from cje.pipeline.request import Answer, Outcome, Recipe, Request
from cje.pipeline.stages.base import CallStage
from cje.pipeline.stages.judge import judge_of

__all__ = [
    "OracleStage",
    "draw_slice",
    "make_oracle",
    "missing_labels",
    "read_labels",
    "report_labels",
    "slice_fingerprint",
]


@dataclass(frozen=True, slots=True)
class _Label:
    """The oracle's answer for the store; no label is also an answer."""

    value: float | None
    usage: Any

    def to_json(self) -> dict[str, Any]:
        return {"label": self.value}


class OracleStage(CallStage):
    """Asks the oracle about the rows that `draw_slice` selected."""

    name = "oracle"
    inputs = ("prompt_id", "draw_idx", "context", "response", "oracle_selected", "error")

    def __init__(self, config: PipelineConfig) -> None:
        if config.oracle_config is None:
            raise CJEError("there is no oracle_config", hint="leave the oracle stage out")
        self.config, self._drawn = config, config.oracle_config
        source = make_oracle(config.oracle_config)
        judge = config.oracle_config.judge

        async def label(request: Request, seed: int) -> Answer:
            verdict = await source.alabel(request.extra, seed=seed)
            if verdict is None:
                return _Label(None, None)
            return _Label(float(verdict.score), verdict.usage)

        provider = str(getattr(source, "provider", "oracle"))
        self._source = source
        self._recipe = self.make_recipe(
            source.identity(),
            provider,
            label,
            model=None if judge is None else judge.model,
            max_tokens=0 if judge is None else judge.max_tokens,
            place="oracle_config" if judge is None else "oracle_config.judge",
            inline=provider in ("csv", "offline"),  # a function may be a coroutine
        )

    @property
    def recipes(self) -> Sequence[Recipe]:
        return (self._recipe,)

    def settings(self) -> Mapping[str, Any]:
        return {"oracle": self._source.identity()}

    def requests(self, row: Row) -> list[Request]:
        if row["error"] is not None or not row["oracle_selected"]:
            return []
        texts = (row["context"], row["response"])
        key = self._recipe.keys.key(*texts, row["prompt_id"], row["draw_idx"])
        return [Request(self._recipe, key, texts, row)]

    def finish(self, row: Row, outcomes: Sequence[Outcome]) -> Row:
        row = {**row, "oracle_label": None}
        if not outcomes:
            return row
        if outcomes[0].answer is None:
            return self.failed(row, outcomes[0])
        return row | {"oracle_label": outcomes[0].answer["label"]}

    def expected_calls(self, n_rows: int) -> int:
        if self._drawn.count is not None:
            return min(n_rows, self._drawn.count)
        return round(n_rows * (self._drawn.fraction or 1.0))

    async def close(self) -> None:
        closing = getattr(self._source, "aclose", None)
        if closing is not None:
            await closing()


def make_oracle(config: OracleConfig) -> OracleSource:
    """The configured source of labels: a stronger model, a table of human labels or a function."""
    scale = Scale(*config.scale)
    if config.judge is not None and config.source == "model":
        return ModelOracle(judge_of(config.judge))
    if config.path is not None and config.source == "csv":
        return CSVOracle(config.path, config.id_column, config.label_column, scale=scale)
    return CallableOracle(_imported(str(config.function)), scale=scale)


def read_labels(path: Path) -> pl.DataFrame:
    """The rows of a table of labels, as text.

    Raises
    ------
    CJEError
        If the file cannot be read.
    """
    try:
        return pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CJEError(f"cannot read the labels: {error}", where=str(path)) from error


def missing_labels(what: str, written: Path, labels: Path, way: str) -> CJEError:
    """The error of a run that stops until somebody has labelled the file it has `written`."""
    return CJEError(
        f"the {what} wait for labels: {labels} does not exist", where=str(written),
        hint=f"{way}; then run the same command again: no call is repeated",
    )  # fmt: skip


def report_labels(rows: RowStream, config: OracleConfig) -> list[Finding]:
    """Findings on a table of labels: labels that match no row are reported, not dropped."""
    source = make_oracle(config)
    if not isinstance(source, CSVOracle):
        return []
    wanted = [
        row["prompt_id"] for row in rows.select("prompt_id", "oracle_selected")
        if row["oracle_selected"]
    ]  # fmt: skip
    report = source.join_report(wanted)
    if not report.unused and not report.averaged:
        return []
    return [
        LABEL_JOIN.finding(
            severity=Severity.WARNING if report.unused else Severity.INFO,
            report=str(report),
            details={"matched": report.matched, "unused": len(report.unused)},
        )
    ]


def slice_fingerprint(config: PipelineConfig, rows: RowStream) -> str:
    """Fingerprint of the slice: it depends on the design and on all judged rows."""
    oracle = config.oracle_config
    drawn = {"fraction", "count", "design", "n_strata"}
    return fingerprint(
        "oracle_slice",
        None if oracle is None else oracle.model_dump(mode="json", include=drawn),
        config.seed,
        [chunk.sha256 for chunk in rows.chunks],
    )


def draw_slice(config: OracleConfig, judge_score: pl.Series, seed: int) -> LabelSlice:
    """The rows to label, and the probability of each row to be drawn.

    Rows without a judge score (error rows) are outside the frame: never drawn, propensity 0.
    """
    scores = judge_score.to_numpy()
    usable = np.isfinite(scores)
    n = int(usable.sum())
    strata = None
    if config.design == "stratified":
        strata = equal_mass_bins(scores[usable], config.n_strata)
    whole = config.fraction is None and config.count is None
    drawn = draw_label_slice(
        n, fraction=1.0 if whole else config.fraction, count=config.count, strata=strata, seed=seed
    )
    selected = np.zeros(len(scores), dtype=bool)
    propensity = np.zeros(len(scores))
    selected[usable], propensity[usable] = drawn.selected, drawn.propensity
    return LabelSlice(selected, propensity)


def _imported(path: str) -> Callable[..., float]:
    module, _, name = path.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise CJEError(
            f"the oracle function cannot be imported: {error}",
            where="oracle_config.function",
            hint="put its module on PYTHONPATH",
        ) from error
    if not callable(function):
        raise CJEError("this is not a function", where="oracle_config.function", value=path)
    return function  # type: ignore[no-any-return]
