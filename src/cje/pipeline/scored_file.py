"""The output of `score_file`: columns, omitted rows, and summary."""

from __future__ import annotations

import io
import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cje.data.field_names import SYNONYMS
from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.running import ERROR_ROWS
from cje.models import ModelCallError
from cje.pipeline.chunks import parquet_bytes
from cje.pipeline.config import PipelineConfig
from cje.pipeline.disk import disk_error, write_atomically
from cje.policies import LogProb, scoring_noise_canary
from cje.policies.canaries import inside_token_canary

__all__ = ["BASE", "ScoredFile", "value_of", "write_scored"]

BASE, TARGETS = "base_policy_logprob", "target_policy_logprobs"


@dataclass(frozen=True)
class ScoredFile:
    """Summary of a scored file.

    Attributes
    ----------
    path : Path
        The file with one log-prob column per policy.
    rows, errors : int
        Rows written, and rows omitted because some policy could not score them.
    reused : int
        Scores found in the store.
    command : str
        The `cje analyze` command for this file.
    """

    path: Path
    rows: int
    errors: int
    reused: int
    command: str
    findings: tuple[Finding, ...] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)
    errors_path: Path | None = None

    def text(self) -> str:
        """A summary of a few lines."""
        lines = [f"{self.rows} rows scored ({self.reused} scores from an earlier run): {self.path}"]
        if self.errors:
            listed = ", ".join(f"{reason} {n}" for reason, n in self.reasons.items())
            lines.append(
                f"{self.errors} rows could not be scored under every policy and are left out "
                f"({listed}): {self.errors_path}"
            )
        lines += [str(finding) for finding in self.findings]
        return "\n".join([*lines, "", "next:", f"  {self.command}"])


def write_scored(
    records: Sequence[Mapping[str, Any]],
    answers: Sequence[Sequence[LogProb | ModelCallError]],
    replicates: Sequence[float],
    names: Sequence[str],
    base: str | None,
    out: Path,
    reused: int,
) -> ScoredFile:
    """Write the rows that every policy could score; list the others in a file of errors."""
    kept, lost = [], []
    reasons: Counter[str] = Counter()
    for number in range(len(records)):
        row = [column[number] for column in answers]
        errors = {n: a for n, a in zip(names, row, strict=True) if isinstance(a, ModelCallError)}
        if errors:
            reasons.update(error.reason for error in errors.values())
            lost.append({"row": number + 1, **{n: str(error) for n, error in errors.items()}})
        else:
            kept.append(number)
    errors_path = out.with_name(f"{out.stem}.errors.jsonl") if lost else None
    columns = _columns(records, answers, names, base, kept)
    with disk_error(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, _encoded(columns, out))
        if errors_path is not None:
            lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lost)
            write_atomically(errors_path, lines.encode())
    findings = _findings(answers, replicates, names, base, kept)
    if len(lost) > PipelineConfig.model_fields["max_error_share"].default * len(records):
        findings.append(ERROR_ROWS.finding(n_errors=len(lost), n_rows=len(records)))
    return ScoredFile(
        out, len(kept), len(lost), reused, _command(columns, out), tuple(findings),
        dict(reasons), errors_path,
    )  # fmt: skip


def _command(columns: Mapping[str, list[Any]], out: Path) -> str:
    """The command that analyzes the file, with the option for repeated prompts if needed."""
    names = ("prompt_id", *SYNONYMS["prompt_id"], "prompt", *SYNONYMS["prompt"])
    ids = next((columns[name] for name in names if name in columns), [])
    numbered = any(name in columns for name in ("draw_idx", *SYNONYMS["draw_idx"]))
    repeated = not numbered and len(set(map(str, ids))) < len(ids)
    more = " --repeats draws" if repeated else ""
    return f"cje analyze --logged {shlex.quote(str(out))}{more}"


def _columns(
    records: Sequence[Mapping[str, Any]],
    answers: Sequence[Sequence[LogProb | ModelCallError]],
    names: Sequence[str],
    base: str | None,
    kept: Sequence[int],
) -> dict[str, list[Any]]:
    """The file's own columns, then those of each policy."""
    own = list(dict.fromkeys(name for record in records for name in record))
    columns: dict[str, list[Any]] = {}
    for name in own:
        # An existing log-prob column is kept beside the new one.
        shown = f"given_{name}" if name == BASE and base is not None else name
        columns[shown] = [records[i].get(name) for i in kept]
    for name, column in zip(names, answers, strict=True):
        scored = [answer for i in kept if isinstance(answer := column[i], LogProb)]
        logp = BASE if name == base else f"{TARGETS}.{name}"
        columns[logp] = [answer.value for answer in scored]
        columns[f"n_tokens.{name}"] = [answer.n_tokens for answer in scored]
        columns[f"boundary.{name}"] = [answer.boundary for answer in scored]
    return columns


def _encoded(columns: Mapping[str, list[Any]], out: Path) -> bytes:
    if out.suffix.lower() == ".jsonl":
        rows = zip(*columns.values(), strict=True)
        buffer = io.StringIO()
        for row in rows:
            buffer.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))
            buffer.write("\n")
        return buffer.getvalue().encode("utf-8", "backslashreplace")
    try:
        return parquet_bytes(pl.DataFrame(dict(columns), strict=True, infer_schema_length=None))
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise CJEError(
            f"a column holds values of several types, which Parquet cannot: {error}",
            where=str(out), hint="write .jsonl instead; the scores are kept",
        ) from error  # fmt: skip


def value_of(answer: LogProb | ModelCallError) -> float:
    """The log-prob, or NaN where it failed."""
    return answer.value if isinstance(answer, LogProb) else math.nan


def _findings(
    answers: Sequence[Sequence[LogProb | ModelCallError]],
    replicates: Sequence[float],
    names: Sequence[str],
    base: str | None,
    kept: Sequence[int],
) -> list[Finding]:
    """Boundaries inside tokens, and noise that is not small against the log-ratios."""
    if not kept:
        return []
    scores = np.array([[a.value for i in kept if isinstance(a := column[i], LogProb)]
                       for column in answers])  # fmt: skip
    inside = [
        sum(getattr(column[i], "boundary", "") == "inside_token" for column in answers)
        for i in kept
    ]
    first = 0 if base is None else list(names).index(base)
    found = [inside_token_canary(inside)]
    again = np.array(replicates)
    once = np.array([value_of(answer) for answer in answers[first][: len(again)]])
    both = np.isfinite(again) & np.isfinite(once)
    others = [k for k in range(len(names)) if k != first]
    if both.any() and others and len(kept) > 1:
        ratios = (scores[others] - scores[first]).reshape(-1)
        found.append(scoring_noise_canary(np.stack([once, again], 1)[both], ratios))
    return [finding for finding in found if finding is not None]
