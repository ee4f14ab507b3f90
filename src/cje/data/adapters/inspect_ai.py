"""Inspect AI logs: `.eval` archives and JSON; epochs are draws.

Letter grades become numbers as Inspect itself maps them: C 1, P 0.5, I 0, N 0. A score that a
person edited afterwards is that person's label; the value before the edit is the judge's.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from cje.data.adapters.scores import Adapted, Response, adapted, is_human, number, text
from cje.data.convert import POLARS_FAILURES
from cje.data.opening import open_file
from cje.data.parsing import parse_json
from cje.data.unpacking import check_unpacked, zstd_bound
from cje.errors import CJEError

__all__ = ["from_archive", "from_json"]

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ZSTD = 93  # the zip method of recent .eval files, which the standard library cannot read
_MAX_ENTRY_BYTES = 2**28
_READ = ("id", "epoch", "input", "output", "scores", "metadata")


def from_json(content: Any, path: Path) -> Adapted | None:
    """A log in Inspect's JSON format."""
    if not (isinstance(content, dict) and isinstance(content.get("eval"), dict)):
        return None
    if "samples" not in content or "model" not in content["eval"]:
        return None
    return _adapt(content, content["samples"] or [], path)


def from_archive(path: Path) -> Adapted:
    """A log in Inspect's `.eval` format: a zip of one JSON file per sample."""
    try:
        with open_file(path) as stream, zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
            wanted = [name for name in sorted(names) if name.startswith("samples/")]
            check_unpacked(
                sum(_unpacked_size(stream, archive.getinfo(name)) for name in wanted), path.name
            )
            header_name = "header.json" if "header.json" in names else "_journal/start.json"
            header = _entry(stream, archive, header_name)
            samples = [_sample(_entry(stream, archive, name)) for name in wanted]
    except CJEError:
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, struct.error, *POLARS_FAILURES) as e:
        raise CJEError(
            f"the Inspect log cannot be read ({e})",
            where=path.name,
            hint="write it as JSON: inspect log convert --to json --output-dir OUT FILE",
        ) from e
    return _adapt(header, samples, path)


def _adapt(log: Mapping[str, Any], samples: list[Any], path: Path) -> Adapted:
    spec = log["eval"]
    if not samples:
        raise CJEError(
            "the Inspect log has no samples",
            where=path.name,
            value=log.get("status"),
            hint="only logs of finished runs, with samples, can be read",
        )
    notes = [f"Inspect task '{spec.get('task')}', model '{spec.get('model')}'"]
    version = (spec.get("packages") or {}).get("inspect_ai")
    if log.get("status") not in (None, "success"):
        notes.append(f"the run's status is '{log.get('status')}'")
    tool = "an Inspect AI log" + (f" (inspect_ai {version})" if version else "")
    return adapted(_responses(spec, samples), tool, *notes)


def _run_metadata(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What distinguishes runs: the task and its arguments, model roles, tags."""
    kept: dict[str, Any] = dict(spec.get("metadata") or {})
    for key in ("task", "task_args", "model_roles", "model_args", "run_id"):
        if spec.get(key):
            kept[key] = spec[key]
    if spec.get("tags"):
        kept["tags"] = ", ".join(map(str, spec["tags"]))
    return kept


def _responses(spec: Mapping[str, Any], samples: list[Any]) -> Iterator[Response]:
    run = _run_metadata(spec)
    for sample in samples:
        judged: dict[str, float | None] = {}
        human: dict[str, float | None] = {}
        for name, score in (sample.get("scores") or {}).items():
            _place(name, score, judged, human)
        yield Response(
            prompt_id=str(sample["id"]),
            policy=str(spec.get("model")),
            judged=judged,
            human=human,
            draw_idx=int(sample.get("epoch") or 1) - 1,
            prompt=text(sample.get("input")),
            response=_completion(sample.get("output") or {}),
            metadata={**run, **(sample.get("metadata") or {})},
        )


def _place(
    name: str, score: Mapping[str, Any], judged: dict[str, Any], human: dict[str, Any]
) -> None:
    """A scorer's score; and the label of whoever edited it."""
    value = score.get("value")
    values = value if isinstance(value, dict) else {None: value}
    for part, single in values.items():
        full = name if part is None else f"{name}.{part}"
        (human if is_human(full) else judged)[full] = _grade(single)
    edits = [edit for edit in score.get("history") or () if edit.get("provenance")]
    if edits and not isinstance(value, dict) and name in judged:
        author = (edits[-1]["provenance"] or {}).get("author") or "editor"
        human[f"edited by {author}"] = _grade(value)
        judged[name] = _grade(score["history"][0].get("value"))


def _grade(value: Any) -> float | None:
    if isinstance(value, str) and value.strip().upper() in _GRADES:
        return _GRADES[value.strip().upper()]
    return number(value)


def _completion(output: Mapping[str, Any]) -> str:
    if output.get("completion"):
        return text(output["completion"])
    choices = output.get("choices") or [{}]
    return text((choices[0].get("message") or {}).get("content"))


def _sample(sample: Any) -> Any:
    """What is read of a sample: its events and messages are most of a log."""
    return {key: sample[key] for key in _READ if key in sample}


def _unpacked_size(stream: BinaryIO, info: zipfile.ZipInfo) -> int:
    """The most bytes an entry unpacks to; the sizes that the archive states are not trusted."""
    if info.compress_type == _ZSTD:
        return zstd_bound(_packed(stream, info))
    # deflate unpacks to at most 1032 times its size
    return min(max(info.file_size, 0), 1032 * info.compress_size + 1024)


def _packed(stream: BinaryIO, info: zipfile.ZipInfo) -> bytes:
    """The raw bytes of an entry, behind its local header, name and extra field."""
    stream.seek(info.header_offset)
    name_length, extra_length = struct.unpack("<HH", stream.read(30)[26:30])
    stream.seek(name_length + extra_length, io.SEEK_CUR)
    return stream.read(info.compress_size)


def _entry(stream: BinaryIO, archive: zipfile.ZipFile, name: str) -> Any:
    info = archive.getinfo(name)
    if _unpacked_size(stream, info) > _MAX_ENTRY_BYTES:
        raise ValueError(f"{name} is larger than {_MAX_ENTRY_BYTES // 2**20} MB")
    if info.compress_type != _ZSTD:
        return parse_json(archive.read(info))
    return parse_json(_unpack_zstd(_packed(stream, info)))


def _unpack_zstd(packed: bytes) -> str:
    """Zstandard through polars, which unpacks what it reads; one column of whole lines."""
    lines = pl.read_csv(
        packed, separator="\x01", quote_char=None, has_header=False, infer_schema=False
    )
    return "\n".join(lines.to_series().fill_null("").to_list())
