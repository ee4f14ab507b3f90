"""`examine`: what a file is, which analyses it supports, what blocks the others, and findings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cje.analysis.doctor_findings import (
    bias_findings,
    data_findings,
    evaluation_findings,
    length_findings,
)
from cje.analysis.inputs import read_source
from cje.data import Dataset, read
from cje.data.label_store import StoredLabels, is_label_store, read_label_store
from cje.data.opening import open_file
from cje.data.scale_checks import ScaleError
from cje.data.sources import Opened, open_sources
from cje.data.stored_comparisons import stored_comparisons
from cje.data.unused import unused_columns
from cje.errors import CJEError
from cje.estimators.offpolicy.rewards import MIN_LABELS
from cje.findings import Finding
from cje.findings.labels import (
    DOUBTFUL_SCALE,
    SCALE_TOO_WIDE,
)
from cje.kernels.arrays import FloatArray
from cje.terminal import safe

__all__ = ["Capability", "Diagnosis", "examine", "examine_together"]


_LENGTH = re.compile(
    r"(?:^|_)(?:response|output|completion|answer)?_?(?:len|length|chars|tokens|words)$"
)
_PROMPT_LENGTH = re.compile(r"prompt|input|context|question")
_POSITION = re.compile(r"^(?:position|order|swapped|slot|side)$")
# In larger files only the lengths of the first responses are read: enough for the bias tests.
_LARGE_BYTES = 256 * 2**20
_LENGTH_ROWS = 200_000


@dataclass(frozen=True)
class Capability:
    """Whether a file supports one estimator: the command to run, or what is missing."""

    estimator: str
    supported: bool
    command: str
    unblock: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """What `examine` found about one source.

    Attributes
    ----------
    name : str
        The source, as given.
    what : str
        What it is, in a sentence.
    reading : tuple of str
        Which columns play which role, and why; scales.
    facts : mapping
        Counts: rows, policies, prompts, labels, draws, shared prompts.
    capabilities : tuple of Capability
    findings : tuple of Finding
    unused : tuple of str
        Columns without a role, and what each looks like.
    """

    name: str
    what: str
    reading: tuple[str, ...]
    facts: dict[str, Any]
    capabilities: tuple[Capability, ...]
    findings: tuple[Finding, ...]
    unused: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "name": self.name,
            "what": self.what,
            "reading": list(self.reading),
            "facts": self.facts,
            "capabilities": [asdict(c) for c in self.capabilities],
            "findings": [f.to_dict() for f in self.findings],
            "unused": list(self.unused),
        }

    def summary(self) -> str:
        """The diagnosis as plain text."""
        lines = [f"{self.name}: {self.what}", "", "read as"]
        lines += [f"  - {note}" for note in self.reading]
        if self.unused:
            lines += ["", "unused columns"]
            lines += [f"  - {column}" for column in self.unused]
        lines += ["", "facts"]
        lines += [
            f"  - {key.replace('_', ' ')}: {_show(value)}" for key, value in self.facts.items()
        ]
        lines += ["", "you can run"]
        lines += [f"  {c.command}" for c in self.capabilities if c.supported]
        blocked = [c for c in self.capabilities if not c.supported]
        if blocked:
            lines += ["", "blocked"]
            lines += [f"  {c.estimator}: {c.unblock}" for c in blocked]
        lines += ["", "findings" if self.findings else "no findings"]
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(safe(line) for line in lines)


def examine(source: Any, **reading: Any) -> Diagnosis:
    """Examine a file, folder, frame or list of rows.

    `reading` are options of `cje.data.read`. A number that looks like the response's length, a
    position column and the response's text are also read, to test for judge biases.
    `labels` may be a labels file of ``cje label``; side-by-side answers are checked against the
    data and counted.
    """
    side_by_side = _side_by_side(reading)
    name = str(source) if isinstance(source, str) or hasattr(source, "__fspath__") else "data"
    opened = (
        None
        if isinstance(source, Dataset)
        else open_sources(
            source,
            reading.pop("policy", None),
            reading.get("sheet"),
            skip_bad_rows=bool(reading.get("skip_bad_rows")),
        )
    )
    numbers, position, response = _extra_columns(source, opened)
    large = response is not None and _is_large(source)
    if isinstance(source, Dataset):
        data = source if reading.get("labels") is None else _joined(source, reading)
    else:
        data = _read(
            opened,
            covariates=tuple(numbers),
            groups=tuple(position),
            text=bool(response and not numbers and not large),
            **{"repeats": "draws", "min_rows": 1, "require": (), **reading},
        )
    if not len(data):
        raise CJEError("there are no rows to examine", where=name)
    facts, able = _facts(data), []
    arguments = _arguments(name, reading)
    if side_by_side is not None:
        path, stored = side_by_side
        verdicts = stored_comparisons(data, stored, str(path))
        facts["side_by_side_answers"] = len(stored.pairs)
        data = data.with_metadata(reading=verdicts.metadata["reading"])
        command = f"cje analyze {_arguments(name, {'labels': path})}"
        able.append(Capability("pairwise", True, command))
    first = _first_lengths(source, str(response), len(data)) if large and not numbers else None
    lengths = _lengths(data, numbers, first)
    audited, reason = evaluation_findings(data)
    findings = [
        *data.metadata.get("findings", ()),
        *data_findings(data),
        *audited,
        *length_findings(data, lengths),
        *bias_findings(data, lengths),
    ]
    return Diagnosis(
        name=name,
        what=_what(data),
        reading=(*data.metadata.get("reading", ()), *_scales(data)),
        facts=facts,
        capabilities=(*able, *_capabilities(data, arguments, reason)),
        findings=tuple(findings),
        unused=tuple(_unused(opened, data)),
    )


def _read(source: Any, **reading: Any) -> Dataset:
    """Read the data; a doubtful scale is a finding here and an error in `analyze_dataset`."""
    found: list[Finding] = []
    while True:
        try:
            data = _joined(source, reading)
        except ScaleError as error:
            if reading.get(error.argument) is not None:
                raise
            low, high = error.whole.low, error.whole.high
            problem = f"{error.what} [{error.where}]" if error.where else error.what
            found.append(DOUBTFUL_SCALE.finding(problem=problem, low=low, high=high))
            reading[error.argument] = error.whole
            continue
        kept = [f for f in data.metadata.get("findings", ()) if f.code != SCALE_TOO_WIDE.code]
        return data.with_metadata(findings=(*kept, *found)) if found else data


def _joined(source: Any, reading: dict[str, Any]) -> Dataset:
    if reading.get("labels") is None:
        return read(source, **{k: v for k, v in reading.items() if k not in ("labels", "on")})
    data = read_source(source, **{"on": None, "oracle_scale": None, **reading})
    assert data is not None
    return data


def _side_by_side(reading: dict[str, Any]) -> tuple[Any, StoredLabels] | None:
    """Remove a labels file of side-by-side answers from `reading`; its path and labels."""
    labels = reading.get("labels")
    if labels is None or not is_label_store(labels):
        return None
    stored = read_label_store(labels)
    if not stored.pairs:
        return None
    del reading["labels"]
    return labels, stored


def _arguments(name: str, reading: dict[str, Any]) -> str:
    """The source and its labels as arguments of a command."""
    words = [name]
    if reading.get("labels") is not None:
        words += ["--labels", str(reading["labels"])]
        on = reading.get("on") or ()
        words += [word for key in ([on] if isinstance(on, str) else on) for word in ("--on", key)]
    return shlex.join(words)


def _unused(opened: Opened | None, data: Dataset) -> list[str]:
    """Columns without a role, and what each looks like."""
    if opened is None:
        return []
    return unused_columns(opened.sources[0].table, data.metadata.get("unused", ()))


def _lengths(
    data: Dataset, numbers: Collection[str], first: FloatArray | None
) -> dict[str, FloatArray]:
    """log(1 + length) by name: of the columns of lengths, and of the responses' text."""
    found = {name: np.log1p(np.maximum(data.covariates[name], 0.0)) for name in numbers}
    if data.response is not None:
        text = data.response.to_series().str.len_chars().to_numpy()
        found["response_length"] = np.log1p(text.astype(np.float64))
    elif first is not None:
        found["response_length"] = first
    return found


def _is_large(source: Any) -> bool:
    """A JSONL file whose text would not fit comfortably in memory."""
    if not (isinstance(source, str) or hasattr(source, "__fspath__")):
        return False
    path = Path(source)
    return path.suffix in (".jsonl", ".ndjson") and path.stat().st_size > _LARGE_BYTES


def _first_lengths(source: Any, column: str, n_rows: int) -> FloatArray:
    """log(1 + length) of the first responses of a large file; NaN for the rest."""
    import polars as pl

    with open_file(Path(source)) as stream:
        scan = pl.scan_ndjson(stream, n_rows=_LENGTH_ROWS).select(pl.col(column).str.len_chars())
        found = scan.collect().to_series().to_numpy()
    out = np.full(n_rows, np.nan)
    out[: len(found)] = np.log1p(found.astype(np.float64))
    return out


def _extra_columns(source: Any, opened: Opened | None) -> tuple[list[str], list[str], str | None]:
    """Numeric length columns, position columns, and the column of the response's text."""
    if opened is None:
        kept = None if source.response is None else "response"
        return list(source.covariates), list(source.groups), kept
    leaves = opened.sources[0].table.leaves()
    numbers = [
        leaf.display
        for leaf in leaves
        if leaf.only("number")
        and _LENGTH.search(leaf.path[-1].lower())
        and not _PROMPT_LENGTH.search(leaf.path[-1].lower())
    ]
    position = [leaf.display for leaf in leaves if _POSITION.search(leaf.path[-1].lower())]
    texts = [
        leaf.display
        for leaf in leaves
        if leaf.path[-1].lower() in ("response", "output", "completion", "answer")
        and leaf.only("text")
    ]
    return numbers, position, texts[0] if texts else None


def _what(data: Dataset) -> str:
    policies = data.policy.n_names
    scored = bool(np.isfinite(data.judge_score).any())
    kind = "logged responses with log-probs" if data.target_policies else "judged responses"
    if not scored:
        kind = "responses without judge scores"
    return f"{len(data):,} {kind} of {policies} {'policy' if policies == 1 else 'policies'}"


def _scales(data: Dataset) -> list[str]:
    notes = [f"judge scores on {data.judge_scale}"]
    if data.n_labelled:
        notes.append(f"labels on {data.oracle_scale}")
    return notes


def _facts(data: Dataset) -> dict[str, Any]:
    labelled = np.isfinite(data.oracle_label)
    per_policy = np.bincount(data.policy.codes, labelled, data.policy.n_names)
    pairs = np.unique(data.prompt_id.codes * np.int64(data.policy.n_names) + data.policy.codes)
    sharing = np.bincount(pairs // data.policy.n_names, minlength=data.prompt_id.n_names)
    names = data.policy.names
    return {
        "rows": len(data),
        "policies": {n: int(c) for n, c in zip(names, np.bincount(data.policy.codes), strict=True)},
        "prompts": data.prompt_id.n_names,
        "prompts_shared_by_all_policies": int((sharing == len(names)).sum()),
        "draws_per_prompt_and_policy": round(len(data) / len(pairs), 3) if len(pairs) else 0,
        "labels": {n: int(c) for n, c in zip(names, per_policy, strict=True)},
        "label_share": round(float(labelled.mean()), 4) if len(data) else 0.0,
        "distinct_judge_scores": len(np.unique(data.judge_score[np.isfinite(data.judge_score)])),
        "target_policies": list(data.target_policies),
    }


def _capabilities(data: Dataset, name: str, reason: str) -> list[Capability]:
    """Estimators that run, with the command, and those that do not, with what is missing.

    `name` is the source, and where its labels are, as words of a command.
    """
    scored = bool(np.isfinite(data.judge_score).any())
    labels = int(data.n_labelled)
    logged = bool(data.target_policies) and data.base_policy_logprob is not None
    need_labels = "label a random slice of rows (oracle_label; at least 20, see cje plan)"
    need_logprobs = (
        "add base_policy_logprob and target_policy_logprobs: the log-probability of each logged "
        "response under the logging policy and under every target"
    )
    items: Sequence[tuple[str, bool, str, str]] = (
        ("naive", scored, f"cje analyze {name} --estimator naive", "add judge scores"),
        ("direct", scored and labels >= 2 and not logged and not reason, f"cje analyze {name}",
         "use fresh responses of each policy" if logged else reason or need_labels),
        ("calibrated-ips", logged and labels >= MIN_LABELS and not reason,
         f"cje analyze --logged {name} --estimator calibrated-ips",
         (reason or need_labels) if logged else need_logprobs),
        ("stacked-dr", False, "",
         "needs two sources: cje analyze fresh_draws/ --logged logged.jsonl "
         "--estimator stacked-dr" + ("" if logged else f"; {need_logprobs}")),
    )  # fmt: skip
    return [
        Capability(estimator, bool(ok), command if ok else "", "" if ok else unblock)
        for estimator, ok, command, unblock in items
    ]


def examine_together(fresh: Diagnosis, logged: Diagnosis) -> Diagnosis:
    """Add to the diagnosis of fresh draws what they support together with logged rows."""
    targets = logged.facts["target_policies"]
    if not targets:
        raise CJEError("the second source has no log-probs", where=logged.name)
    files = f"{shlex.quote(fresh.name)} --logged {shlex.quote(logged.name)}"
    missing = [name for name in targets if name not in fresh.facts["policies"]]
    unblock = ""
    if missing:
        unblock = f"add fresh draws of {', '.join(missing)} to {fresh.name}"
    elif sum(logged.facts["labels"].values()) < MIN_LABELS:
        unblock = f"label at least {MIN_LABELS} rows of {logged.name}, chosen at random"
    command = "" if unblock else f"cje analyze {files} --estimator stacked-dr"
    capabilities = [
        replace(c, supported=not unblock, command=command, unblock=unblock)
        if c.estimator == "stacked-dr"
        else c
        for c in fresh.capabilities
    ]
    return replace(fresh, capabilities=tuple(capabilities))


def _show(value: Any) -> str:
    if isinstance(value, dict):
        shown = ", ".join(f"{k} {v:,}" for k, v in list(value.items())[:8])
        return shown + (f", ... ({len(value)} in all)" if len(value) > 8 else "")
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
