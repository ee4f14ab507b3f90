"""What a file really is, by its first bytes, before any parser sees it."""

from __future__ import annotations

import difflib
from pathlib import Path

from cje.data.opening import cannot_open, open_file
from cje.errors import CJEError

__all__ = ["FORMATS", "MAX_LINE_BYTES", "PACKED", "check_content", "file_format"]

# Extension -> format.
FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".eval": "eval",
    ".xlsx": "workbook",
    ".xlsm": "workbook",
    ".xls": "workbook",
    ".ods": "workbook",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".db": "database",
    ".sqlite": "database",
    ".sqlite3": "database",
    ".duckdb": "database",
}
PACKED = (".gz", ".zst")

# No evaluation row is this long; a file with such a line is something else.
MAX_LINE_BYTES = 32 * 2**20

_UTF8_BOM = b"\xef\xbb\xbf"
_SIGNATURES = (
    (b"\x1f\x8b", "a gzip-compressed file", "decompress it first: gunzip"),
    (
        b"PK\x03\x04",
        "a zip archive (or an .xlsx workbook)",
        "rename it to .xlsx if it is one, or extract it",
    ),
    (b"BZh", "a bzip2-compressed file", "decompress it first: bunzip2"),
    (b"\xfd7zXZ", "an xz-compressed file", "decompress it first: unxz"),
    (b"\x28\xb5\x2f\xfd", "a zstandard-compressed file", "decompress it first: unzstd"),
    (b"PAR1", "a Parquet file", "give it the extension .parquet"),
    (b"ARROW1", "an Arrow file", "convert it to Parquet"),
    (b"SQLite format 3", "an SQLite database", "export the table as CSV"),
    (b"%PDF", "a PDF", "export the table as CSV"),
)
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def file_format(path: Path) -> str:
    """The format by extension, for a path that must be an existing file."""
    try:
        exists = path.exists()
    except (OSError, ValueError) as error:
        raise cannot_open(path, error) from error
    if not exists:
        near = _neighbours(path)
        raise CJEError(
            "no such file or folder",
            where=str(path),
            hint=f"did you mean {near}?" if near else "check the path",
        )
    if not path.is_file():
        raise CJEError("not a regular file", where=str(path), hint="give a file or a folder")
    extension = path.suffix.lower()
    if extension in PACKED:
        inner = Path(path.stem).suffix.lower()
        if FORMATS.get(inner) in ("csv", "jsonl", "json"):
            return "packed"
    if extension in (".gz", ".bz2", ".zip", ".xz", ".zst"):
        raise CJEError("a compressed file", where=str(path), hint="decompress it first")
    if extension not in FORMATS:
        raise CJEError(
            "unknown extension", where=str(path), value=path.suffix,
            hint=f"known: {', '.join(FORMATS)}; rename the file if it is one of these",
        )  # fmt: skip
    return FORMATS[extension]


def check_content(path: Path, format_: str) -> int:
    """Refuse content of another format; return how many bytes of byte-order mark to skip."""
    where = str(path)
    with open_file(path) as stream:
        head = stream.read(65536)
        size = path.stat().st_size
        if format_ == "jsonl" and size > MAX_LINE_BYTES and b"\n" not in head:
            head += stream.read(MAX_LINE_BYTES)
    if size == 0:
        raise CJEError(
            "the file is empty: it has no bytes at all",
            where=where,
            hint="check that the export finished, or run it again; one row per response is "
            "expected",
        )
    if format_ in ("workbook", "arrow", "database", "packed"):
        return 0
    if format_ == "parquet":
        if not head.startswith(b"PAR1"):
            raise CJEError("not a Parquet file", where=where, value=head[:16])
        return 0
    if format_ == "eval":
        if not head.startswith(b"PK"):
            raise CJEError("not an Inspect AI log", where=where, value=head[:16])
        return 0
    for signature, what, hint in _SIGNATURES:
        if head.startswith(signature):
            raise CJEError(
                f"this is {what}, not {format_.upper()}", where=where, value=head[:8], hint=hint
            )
    _check_text(head, where)
    if format_ == "jsonl" and len(head) > MAX_LINE_BYTES and b"\n" not in head:
        raise CJEError(
            f"row 1 is longer than {MAX_LINE_BYTES // 2**20} MB",
            where=where,
            value=head[:40],
            hint="JSON Lines has one object per line; a JSON array belongs in a .json file",
        )
    return len(_UTF8_BOM) if head.startswith(_UTF8_BOM) else 0


def _check_text(head: bytes, where: str) -> None:
    if head.startswith(_WIDE) or _looks_wide(head):
        raise CJEError(
            "the file is UTF-16 or UTF-32, not UTF-8",
            where=where,
            value=head[:8],
            hint="save it as UTF-8: iconv -f UTF-16 -t UTF-8",
        )
    if b"\x00" in head:
        raise CJEError(
            "the file is binary, not text",
            where=where,
            value=head[:16],
            hint="give the file its right extension, or export it as JSONL, CSV or Parquet",
        )


def _looks_wide(head: bytes) -> bool:
    """UTF-16 without a mark: every second byte of Latin text is zero."""
    sample = head[:200]
    pairs = len(sample) // 2
    even, odd = sample[0 : 2 * pairs : 2].count(0), sample[1 : 2 * pairs : 2].count(0)
    return pairs >= 2 and max(even, odd) > 0.7 * pairs and min(even, odd) == 0


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return ""
    names = [entry.name for entry in path.parent.iterdir()]
    return ", ".join(difflib.get_close_matches(path.name, names, n=3))
