"""Every command under the fuzz rule: any file, any option; a result or one message, exit code 1."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from cje.cli.main import _UsageProblem, app
from cje.errors import CJEError
from tests.robustness.fuzzing import fuzz
from tests.robustness.test_fuzz_planning import SOUND, anything

ROWS = b"prompt_id,policy,judge_score,oracle_label\n" + b"".join(
    f"p{i // 2},{'ab'[i % 2]},{i / 40},{i / 40 if i % 3 else ''}\n".encode() for i in range(40)
)
# Files as they are, cut short, with bytes put in, and no such files at all.
contents = st.one_of(
    st.just(ROWS),
    st.builds(
        lambda k, junk: ROWS[:k] + junk + ROWS[k:], st.integers(0, 900), st.binary(max_size=9)
    ),
    st.binary(max_size=120),
    st.none(),
)
words = st.sampled_from(
    ["0.95", "0", "-1", "nan", "inf", "1-5", "a", "", "oracle_label", "draws", "7"]
)


def holds(command: list[str]) -> None:
    """The command ends with a documented exit code; a refusal has a message."""
    done = CliRunner().invoke(app, command, standalone_mode=False)
    if isinstance(done.exception, CJEError | _UsageProblem):
        assert str(done.exception).strip() or done.exception.args == ()
    elif done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in (0, 1, 2, 3)
    numbers = [word.strip("[](),;:") for word in done.output.split()]
    assert not any(word in ("nan", "NaN", "-inf") for word in numbers), done.output


def on_a_file(name: str, content: bytes | None, command: list[str]) -> None:
    """Run `command` with FILE standing for a file of these bytes, from a folder of its own."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if content is not None:
            path.write_bytes(content)
        os.chdir(folder)
        try:
            holds([str(path) if part == "FILE" else part for part in command])
        finally:
            os.chdir(here)


@fuzz()
@given(contents, st.sampled_from(["x.csv", "x.jsonl", "x.parquet", "x.txt"]),
       st.lists(st.tuples(st.sampled_from(["--estimator", "--by", "--margin", "--level", "--on",
                "--judge-scale", "--oracle-scale", "--repeats", "--seed", "--covariate"]), words),
                max_size=2))  # fmt: skip
def test_analyze_ends_with_a_documented_exit_code(
    content: bytes | None, name: str, options: list[tuple[str, str]]
) -> None:
    given_options = [part for option in options for part in option]
    on_a_file(name, content, ["analyze", "FILE", *given_options])


@fuzz()
@given(contents, st.sampled_from(["x.csv", "x.json"]), st.booleans())
def test_doctor_ends_with_a_documented_exit_code(
    content: bytes | None, name: str, as_json: bool
) -> None:
    on_a_file(name, content, ["doctor", "FILE", *(["--json"] if as_json else [])])


@fuzz()
@given(contents, st.sampled_from(["x.csv", "x.json", "x.xlsx", "x.db", "x.csv.gz"]),
       st.sampled_from([[], ["--field", "judge_score=x"], ["--label-map", "a=1"],
                        ["--policy-column", "none"], ["--skip-bad-rows"]]))  # fmt: skip
def test_convert_ends_with_a_documented_exit_code(
    content: bytes | None, name: str, options: list[str]
) -> None:
    on_a_file(name, content, ["convert", "FILE", "out.csv", *options])


amounts = st.one_of(
    st.floats(0.01, 0.9), st.floats(1e-3, 1e3), st.sampled_from([0.0, -1.0, math.nan])
)


@fuzz()
@given(amounts, amounts, amounts, st.sampled_from(["--width", "--difference-width", "--detect"]))
def test_plan_ends_with_a_documented_exit_code(
    sd: float, r2: float, size: float, goal: str
) -> None:
    holds(["plan", "--sd", str(sd), "--r2", str(r2), goal, str(size)])


@pytest.mark.parametrize("command", ["run", "resume", "status", "validate"])
@fuzz()
@given(field=st.sampled_from([*SOUND, "nonsense"]), value=anything, junk=st.binary(max_size=20))
def test_pipeline_commands_end_with_a_documented_exit_code(
    command: str, field: str, value: Any, junk: bytes
) -> None:
    # No data file is there, so no run gets past its first stage.
    content = yaml.safe_dump({**SOUND, field: value}).encode() + junk
    extra = {"validate": ["--offline"], "run": ["--quiet"]}.get(command, [])
    on_a_file("config.yaml", content, [command, "FILE", *extra])


@fuzz()
@given(anything, st.sampled_from(["seeds", "n", "models", "out", "processes", "nonsense"]))
def test_survival_experiments_end_with_a_documented_exit_code(value: Any, field: str) -> None:
    content = yaml.safe_dump({field: value, "unknown": 1}).encode()  # refused before any fitting
    on_a_file("config.yaml", content, ["survival", "run", "FILE"])


PREDICTIONS = b"t,e,risk_1\n" + b"".join(
    f"{0.2 + i / 10},{i % 3 % 2},{(i % 7) / 7}\n".encode() for i in range(30)
)


@fuzz(25)
@given(
    st.builds(
        lambda k, junk: PREDICTIONS[:k] + junk + PREDICTIONS[k:],
        st.integers(0, 300), st.sampled_from([b"", b"x", b"nan", b"-1", b"\n", b"\xff", b","]),
    ) | st.binary(max_size=80),
    st.sampled_from(["1", "0", "nan", "a", "1,1", ""]),
    st.sampled_from([[], ["--cause", "1"], ["--entry", "risk_1"], ["--groups", "e"],
                     ["--level", "2"], ["--risk", "nothing_{t}"]]),
)  # fmt: skip
def test_survival_predictions_end_with_a_documented_exit_code(
    content: bytes, horizons: str, extra: list[str]
) -> None:
    fixed = ["--time", "t", "--event", "e", "--horizons", horizons]
    on_a_file("preds.csv", content, ["survival", "check", "FILE", *fixed, *extra])


MORE = {
    "gate": ["FILE", "--baseline", "a", "--candidate", "b"],
    "judge": ["FILE"],
    "score": ["FILE", "--policy", "cand=nowhere", "-o", "out.parquet"],
    "monitor": ["FILE"],
    "drift": ["FILE", "FILE", "--on", "prompt_id"],
    "convert": ["FILE", "out.parquet"],
    "show": ["FILE"],
    "labels": ["export", "FILE", "out.csv"],
}


@pytest.mark.parametrize("command", list(MORE))
@fuzz(60)
@given(contents, st.sampled_from(["x.csv", "x.jsonl", "x.json", "x.db"]))
def test_further_commands_on_a_file_end_with_a_documented_exit_code(
    command: str, content: bytes | None, name: str
) -> None:
    on_a_file(name, content, [command, *MORE[command]])


def test_every_command_has_a_target() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    others = {
        "label": "tests/label and tests/browser run it; it serves a page until stopped",
        "findings": "takes no file; tests/test_findings.py runs it",
        "classifier": "tests/classification runs it on files",
        "demo": "tests/pipeline/test_pipeline.py runs it; it takes a folder only",
    }
    for name in get_command(app).commands:  # type: ignore[attr-defined]
        assert f'"{name}"' in source or name in others, f"cje {name} has no fuzz target"
