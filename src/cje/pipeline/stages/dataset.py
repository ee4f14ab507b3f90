"""Stage 1: contexts (and logged responses, if any) from a file, as a stream."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from cje.data.parsing import csv_records, parse_json
from cje.data.surrogates import HALF_PAIR, is_unicode
from cje.errors import CJEError
from cje.pipeline.chunks import Chunk, Row, find_chunk
from cje.pipeline.config import DatasetConfig
from cje.pipeline.hashing import fingerprint
from cje.pipeline.store import CallStore

__all__ = ["count_rows", "dataset_chunks", "dataset_fingerprint", "read_records", "read_rows"]

VERSION = 1
_PARQUET_STEP = 10_000


def dataset_fingerprint(config: DatasetConfig, chunk_rows: int) -> str:
    """Fingerprint of the file's bytes and of how it is read."""
    digest = hashlib.sha256()
    _require_file(config.path)
    try:
        with open(config.path, "rb") as handle:
            while block := handle.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise _unreadable(config.path, error) from error
    settings = config.model_dump(mode="json", exclude={"path"})
    return fingerprint("dataset", VERSION, digest.hexdigest(), settings, chunk_rows)


def read_rows(config: DatasetConfig) -> Iterator[Row]:
    """Rows in file order, one per draw, each with a stable id; stops at ``limit`` contexts."""
    draws: Counter[str] = Counter()
    row_id = 0
    for number, record in enumerate(islice(read_records(config.path), config.limit), start=1):
        where = f"{config.path}, row {number}"
        context = _text(record, config.context_field, where)
        prompt_id = _prompt_id(record, config, context, where)
        response = logp = None
        if config.response_field is not None:
            response = _text(record, config.response_field, where)
        if config.logprob_field is not None:
            logp = _logprob(record.get(config.logprob_field), config.logprob_field, where)
        for _ in range(config.draws_per_context):
            yield {
                "row_id": row_id,
                "prompt_id": prompt_id,
                "draw_idx": config.first_draw + draws[prompt_id],
                "context": context,
                "response": response,
                "logp_given": logp,
                "error": None,
            }
            draws[prompt_id] += 1
            row_id += 1
    if row_id == 0:
        raise CJEError("the data file has no rows", where=str(config.path))


def dataset_chunks(work_dir: Path, store: CallStore, name: str) -> tuple[Chunk, ...] | None:
    """The chunks of a dataset that was read completely before; None if it must be read."""
    n_chunks = store.find_stage("dataset", name)
    if n_chunks is None:
        return None
    found = [find_chunk(work_dir, store, "dataset", fingerprint(name, i)) for i in range(n_chunks)]
    chunks = tuple(chunk for chunk in found if chunk is not None)
    return chunks if len(chunks) == n_chunks else None


def count_rows(config: DatasetConfig) -> int:
    """Number of rows that the dataset stage will write."""
    return sum(1 for _ in read_rows(config))


def _prompt_id(record: dict[str, Any], config: DatasetConfig, context: str, where: str) -> str:
    """The given id, otherwise one from the context: equal contexts are one prompt, one cluster."""
    if config.id_field is None:
        return fingerprint(context)[:16]
    value = record.get(config.id_field)
    if value is None or value == "":
        raise CJEError(f"the row has no '{config.id_field}'", where=where)
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise CJEError(
            f"'{config.id_field}' is neither text nor a whole number", where=where, value=value
        )
    return _encodable(str(value), config.id_field, where)


def _encodable(text: str, field: str, where: str) -> str:
    if not is_unicode(text):
        raise CJEError(
            f"'{field}' {HALF_PAIR}",
            where=where,
            value=text,
            hint="write the file again with the complete character",
        )
    return text


def _text(record: dict[str, Any], field: str, where: str) -> str:
    if field not in record:
        raise CJEError(
            f"the row has no '{field}'",
            where=where,
            value=sorted(record),
            hint="name the right column in the dataset section",
        )
    value = record[field]
    if not isinstance(value, str):
        raise CJEError(f"'{field}' is not text", where=where, value=value)
    return _encodable(value, field, where)


def _logprob(value: Any, field: str, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number > 0.0:
        raise CJEError(
            f"'{field}' is not a log-probability (finite, at most 0)", where=where, value=value
        )
    return number


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The unchanged rows of a file: JSON lines, CSV or Parquet."""
    reader = {
        ".jsonl": _jsonl, ".ndjson": _jsonl, ".csv": _csv, ".parquet": _parquet
    }.get(path.suffix.lower())  # fmt: skip
    if reader is None:
        raise CJEError(
            "unknown kind of data file",
            where=str(path),
            hint="use .jsonl, .csv or .parquet",
        )
    _require_file(path)
    try:
        yield from reader(path)
    except (UnicodeDecodeError, OSError) as error:
        raise _unreadable(path, error) from error


def _jsonl(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as handle:
        for number, line in enumerate(handle, start=1):
            if not line.strip():
                continue
            try:
                record = parse_json(line)
            except ValueError as error:
                raise CJEError(
                    f"the line is not JSON: {error}", where=f"{path}, line {number}"
                ) from error
            if not isinstance(record, dict):
                raise CJEError("the line is not a JSON object", where=f"{path}, line {number}")
            yield record


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8-sig", newline="") as handle:
        yield from csv_records(handle, str(path))


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    import polars as pl

    # as an open file, because polars expands `*`, `?` and `[...]` in a path
    with path.open("rb") as stream:
        source, start = pl.scan_parquet(stream), 0
        while True:
            try:
                frame = source.slice(start, _PARQUET_STEP).collect()
            except pl.exceptions.PolarsError as error:
                raise CJEError(f"this is not a Parquet file: {error}", where=str(path)) from error
            if not len(frame):
                return
            yield from frame.iter_rows(named=True)
            start += _PARQUET_STEP


def _unreadable(path: Path, error: Exception) -> CJEError:
    return CJEError(f"the data file cannot be read: {error}", where=str(path))


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise CJEError("the data file does not exist", where=str(path))
