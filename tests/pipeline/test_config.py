"""Configuration and command line: mistakes are errors with a line, a name and a way out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cje.errors import CJEError
from cje.pipeline.config import PipelineConfig, load_config
from cje.pipeline.progress import BarProgress, LineProgress, Moment, TimeLeft
from cje.pipeline.yaml_lines import parse_yaml
from tests.pipeline.scenes import ngram_settings, server_settings, write_config, write_prompts
from tests.server.running import TestServer

GOOD = """work_dir: run
dataset:
  path: prompts.jsonl
  id_field: id
logging_policy: {name: base, provider: ngram}
judge: {provider: offline}
target_policies:
  - name: near
    provider: ngram
    temperature: 0.9
estimation:
  estimators: calibrated-ips
"""


def test_a_good_file_is_read_and_paths_are_taken_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(GOOD)
    config = load_config(tmp_path / "c.yaml", limit=5)
    assert config.work_dir == tmp_path / "run"
    assert config.dataset.path == tmp_path / "prompts.jsonl"
    assert config.dataset.limit == 5
    assert config.estimation.estimators == ("calibrated-ips",)
    assert config.estimation.log_ratio_clip == 20.0


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("id_field", "id_feild", 4, "unknown key 'dataset.id_feild'.*did you mean 'id_field'"),
        ("temperature: 0.9", "temprature: 0.9", 10, "did you mean 'temperature'"),
        ("estimators:", "estimator:", 12, "did you mean 'estimators'"),
        ("judge:", "jugde:", 6, "unknown key 'jugde'.*did you mean 'judge'"),
        ("temperature: 0.9", "temperature: hot", 10, "temperature.*valid number.*'hot'"),
        ("temperature: 0.9", "temperature: -1", 10, "greater than or equal to 0"),
        ("provider: ngram}", "provider: ngarm}", 5, "unknown provider 'ngarm'"),
        ("  path: prompts.jsonl\n", "", 2, "'dataset.path' is missing"),
        ("work_dir: run", "work_dir: run\nwork_dir: other", 2, "given twice"),
        ("judge: {", "judge: {{", 7, "not valid YAML"),
    ],
)
def test_a_mistake_is_an_error_with_its_line(old: str, new: str, line: int, message: str) -> None:
    with pytest.raises(CJEError, match=message) as caught:
        parse_yaml(GOOD.replace(old, new, 1), PipelineConfig, name="c.yaml")
    assert f"c.yaml, line {line}" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("logging_policy: {name: base, provider: ngram}\n", "response_field"),
        ("    temperature: 0.9\n", None),
    ],
)
def test_sections_that_do_not_fit_together_are_refused(change: str, message: str | None) -> None:
    text = GOOD.replace(change, "")
    if message is None:
        assert parse_yaml(text, PipelineConfig).target_policies[0].temperature == 1.0
        return
    with pytest.raises(CJEError, match=message):
        parse_yaml(text, PipelineConfig)


def test_two_targets_with_one_name_are_refused() -> None:
    with pytest.raises(CJEError, match="two target policies are called 'near'"):
        parse_yaml(
            GOOD.replace("estimation:", "  - {name: near, provider: ngram}\nestimation:"),
            PipelineConfig,
        )


def test_oracle_without_its_source_is_refused() -> None:
    with pytest.raises(CJEError, match="source 'csv' needs the key 'path'"):
        parse_yaml(GOOD + "oracle_config: {source: csv}\n", PipelineConfig)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"context": "x"}\n{"context": 3}\n', "row 2.*got 3"),
        ("a.jsonl", '{"prompt": "x"}\n', "no 'context'"),
        ("a.jsonl", '{"context": "x"\n', "line 1"),
        ("a.jsonl", "[1]\n", "not a JSON object"),
        ("a.jsonl", "", "no rows"),
        ("a.csv", "context\n", "no rows"),
        ("a.parquet", "rubbish", "not a Parquet file"),
        ("a.xlsx", "x", "unknown kind of data file"),
        ("b.jsonl", None, "does not exist"),
    ],
)
def test_damaged_data_files_are_errors(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    from cje.pipeline.stages.dataset import count_rows

    if content is not None:
        (tmp_path / name).write_text(content)
    config = parse_yaml(
        GOOD.replace("prompts.jsonl", str(tmp_path / name)).replace("  id_field: id\n", ""),
        PipelineConfig,
    )
    with pytest.raises(CJEError, match=message):
        count_rows(config.dataset)


def _cje(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cje.cli.main", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_command_line_runs_validates_and_shows_the_state(tmp_path: Path) -> None:
    write_prompts(tmp_path, 60)
    path = str(write_config(tmp_path, ngram_settings()))
    nothing = _cje("resume", path)
    assert nothing.returncode == 1
    assert "nothing to resume" in nothing.stderr
    done = _cje("run", path)
    assert done.returncode == 0, done.stderr
    assert "near" in done.stdout
    assert "target_policy: done" in done.stderr  # plain lines: this is no terminal
    state = _cje("status", path)
    assert "state: finished; 60 rows, 0 with an error" in state.stdout
    log = (tmp_path / "run" / "events.jsonl").read_text()
    events = [json.loads(line) for line in log.splitlines()]
    assert [e["stage"] for e in events if e["event"] == "stage_finished"][-1] == "estimation"
    assert "help" not in log  # numbers and names only


@pytest.mark.accounts_apart("a check by itself has no work folder to keep books in")
def test_validate_asks_each_model_once_and_prints_calls_and_cost(tmp_path: Path) -> None:
    write_prompts(tmp_path, 40)
    with TestServer(key="sesame-1234") as server:
        settings = server_settings(server.base_url)
        policies = (settings["logging_policy"], *settings["target_policies"], settings["judge"])
        for part in (*policies, settings["oracle_config"]["judge"]):
            part["api_key_env"] = "CJE_TEST_KEY"
        settings["prices"] = {"judge": {"prompt_per_million": 10.0}}
        settings["budget"] = {"max_calls": 50}
        path = str(write_config(tmp_path, settings))
        missing = _cje("validate", path, CJE_TEST_KEY="")
        assert missing.returncode == 1
        assert "FAIL key for logging_policy" in missing.stdout
        shown = _cje("validate", path, CJE_TEST_KEY="sesame-1234")
        assert "sesame" not in shown.stdout + shown.stderr
        assert shown.returncode == 0, shown.stdout
        assert server.app.by_path == {"/v1/chat/completions": 2, "/v1/completions": 1}
    assert "ok   the judge (judge): answers" in shown.stdout
    assert "judge                  40         0        40" in shown.stdout
    assert "211 calls are planned, budget.max_calls is 50" in shown.stdout
    cost = float(shown.stdout.split("total")[1].split()[1])
    assert 0.0 < cost < 1.0


def test_no_time_left_is_promised_while_nothing_is_answered() -> None:
    left = TimeLeft(0.0)
    moving = Moment(10, 40, 25, 5, 0, 0, 8, 0.0)
    assert left.text(moving, 5.0) == "about 15 s left"
    assert left.text(moving, 40.0) == "no answer for 35 s"
    down = replace(moving, finished=26, waiting="openai failed 20 calls in a row, next call in 9 s")
    assert left.text(down, 50.0) == "waiting"
    assert "next call in 9 s" in down.text(50.0)


def test_progress_is_lines_off_a_terminal_and_bars_on_one() -> None:
    stream = io.StringIO()
    lines = LineProgress(stream, every=0.0)
    moment = Moment(10, 40, 25, 5, 1, 2, 8, 0.5)
    lines.start("judge", 40)
    lines.update("judge", moment)
    lines.done("judge", "40 rows")
    said = stream.getvalue()
    assert "10/40 rows" in said
    assert "2 retries, 1 errors, 8 at once, cost 0.5000" in said
    assert "left" in said
    screen = io.StringIO()
    bars = BarProgress(Console(file=screen, force_terminal=True, width=120))
    bars.start("judge", 40)
    bars.update("judge", moment)
    bars.done("judge", "40 rows")
    bars.close()
    assert "judge" in screen.getvalue()
    assert "40/40" in screen.getvalue()
