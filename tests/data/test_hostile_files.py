"""Files made to exhaust a reader end in an error with words, in little time and memory."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import resource
import time
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cje.analysis import analyze_dataset
from cje.analysis.doctor import examine
from cje.data import parquet_footer, read
from cje.data.parquet_footer import unpacked_size
from cje.data.unpacking import gunzip, zstd_bound
from cje.errors import CJEError


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def test_the_cost_of_columns_grows_linearly(tmp_path: Path) -> None:
    times = []
    for n in (10_000, 100_000):
        names = ["prompt_id", "judge_score", *(f"column_{i}" for i in range(n))]
        path = tmp_path / f"{n}.csv"
        path.write_text(
            "\n".join([",".join(names), *(",".join(["a", "0.5"] + ["1"] * n) for _ in range(1))])
        )
        start = time.process_time()
        read(path, min_rows=1)
        times.append(time.process_time() - start)
    assert times[1] < 40 * max(times[0], 0.05)
    assert times[1] < 20


def test_an_archive_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m", "task": "t"}}))
        zeros = b'{"id": "' + b"0" * (200 * 2**20) + b'"}'
        for i in range(11):
            archive.writestr(f"samples/{i}_epoch_1.json", zeros)
    before = peak_mb()
    with pytest.raises(CJEError, match="unpacks to more than 2 GB"):
        read(path)
    assert peak_mb() - before < 100


def test_an_archive_that_understates_its_size_is_refused_by_its_packed_size(tmp_path: Path) -> None:
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m", "task": "t"}}))
        archive.writestr("samples/1_epoch_1.json", b'"' + b"0" * (300 * 2**20) + b'"')
    with pytest.raises(CJEError, match=r"larger than 256 MB"):
        read(path)


def test_the_bound_of_zstandard_data_holds_and_is_close(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for content in (b"", b"abc", b"0" * 5_000_000, rng.bytes(3_000_000), b"word " * 400_000):
        packed = pa.compress(content, codec="zstd", asbytes=True)
        assert len(content) <= zstd_bound(packed) <= len(content) + 2 * 128 * 1024
        assert zstd_bound(packed + packed) >= 2 * len(content)
    with pytest.raises(ValueError, match="truncated"):
        zstd_bound(pa.compress(b"word " * 400_000, codec="zstd", asbytes=True)[:-10])


def test_gzip_is_unpacked_whole_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"line of text\n" * 300_000
    packed = gzip.compress(content)
    assert gunzip(io.BytesIO(packed), "a") == content
    assert gunzip(io.BytesIO(packed + packed), "a") == content + content
    with pytest.raises(CJEError, match="truncated"):
        gunzip(io.BytesIO(packed[:-20]), "a")
    with pytest.raises(CJEError, match="damaged"):
        gunzip(io.BytesIO(packed[:100] + b"x" * 50 + packed[150:]), "a")
    bomb = gzip.compress(b"0" * 2**28) * 12
    before = peak_mb()
    monkeypatch.setattr("cje.data.unpacking.MAX_UNPACKED_BYTES", 2**26)
    monkeypatch.setattr("cje.data.unpacking.check_unpacked.__defaults__", (2**26,))
    with pytest.raises(CJEError, match="unpacks to more than"):
        gunzip(io.BytesIO(bomb), "a")
    assert peak_mb() - before < 300


def test_a_parquet_file_that_announces_more_than_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    rows = 40_000_000_000
    schema = pa.schema([("prompt_id", pa.int64()), ("judge_score", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        writer.write_table(pa.table({"prompt_id": [1], "judge_score": [0.5]}, schema=schema))
    real, _ = unpacked_size(path.open("rb"), "a")
    assert real == 1
    content = path.read_bytes()
    # the footer's number of rows (field 3, i64, after the schema): the varint 2 stands for 1
    at = content.rindex(b"\x16\x02\x19")
    announced = bytearray()
    value = rows << 1
    while value > 127:
        announced.append(value & 127 | 128)
        value >>= 7
    announced.append(value)
    footer_start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[footer_start:at] + b"\x16" + bytes(announced) + content[at + 2 : -8]
    path.write_bytes(content[:footer_start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(CJEError, match=r"announces 40,000,000,000 rows"):
        read(path)


def test_a_parquet_file_that_unpacks_beyond_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.parquet"
    n = 2_000_000
    pq.write_table(
        pa.table({"prompt_id": pa.nulls(n, pa.string()).fill_null("x"), "judge_score": [0.5] * n}),
        path,
    )
    assert path.stat().st_size < 300_000
    monkeypatch.setattr(parquet_footer, "_available_memory", lambda: 10 * 2**20)
    with pytest.raises(CJEError, match=r"more than the available memory"):
        read(path)


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_a_damaged_footer_is_an_error(tmp_path: Path, at: int) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"prompt_id": ["a", "b"], "judge_score": [0.5, 0.75]}).write_parquet(path)
    content = bytearray(path.read_bytes())
    content[-9 - at % (len(content) - 12)] ^= 0x5A
    path.write_bytes(bytes(content))
    with contextlib.suppress(CJEError):
        assert len(read(path)) == 2


# ---- scales ------------------------------------------------------------------------------------


def labelled(high: float) -> list[dict[str, object]]:
    rng = np.random.default_rng(1)
    return [
        {
            "prompt_id": f"p{i // 2}",
            "policy": "ab"[i % 2],
            "judge_score": float(rng.random()),
            "oracle_label": float(rng.random()) * (high if i % 2 else 1.0),
        }
        for i in range(200)
    ]


@pytest.mark.parametrize("high", [5.0, 10.0, 100.0])
def test_labels_on_another_scale_for_one_policy_are_refused(high: float) -> None:
    with pytest.raises(CJEError, match=r"oracle_label is on two scales.*policy 'a'"):
        read(labelled(high))


def test_low_ratings_of_one_policy_are_not_another_scale() -> None:
    rows = labelled(5.0)
    for i, row in enumerate(rows):
        row["oracle_label"] = (i % 2 and 1 + i % 5) or i % 3 % 2
    assert str(read(rows).oracle_scale) == "0-5"


def test_a_declared_scale_far_from_the_labels_is_a_finding() -> None:
    rows = labelled(1.0)
    diagnosis = examine(rows, oracle_scale=(0, 1e5))
    result = analyze_dataset(rows, oracle_scale=(0, 1e5))
    assert "scale-too-wide" in [finding.code for finding in diagnosis.findings]
    assert "scale-too-wide" in [finding.code for finding in result.findings]
    usual = analyze_dataset(rows, oracle_scale=(0, 1))
    assert "scale-too-wide" not in [finding.code for finding in usual.findings]
