"""`--help`: every command ends with examples; each is valid, and runs on files of its names."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from cje import analyze_dataset, read, simulate
from cje.cli.examples import EXAMPLES
from cje.cli.main import app
from cje.label.files import write_sheet
from cje.label.study import Study, StudyOptions
from cje.survival.experiment.config import EXAMPLE
from tests.pipeline.scenes import ngram_settings, write_config, write_prompts

# What an example needs beyond files, and the tests that run the command.
ELSEWHERE = {
    "demo": "the wheel's check and tests/pipeline/test_demo_question.py run it",
    "label": "it serves a page until stopped: tests/label and tests/browser",
    "score": "it needs torch: tests/policies/local",
}
RUNNABLE = [line for name, lines in EXAMPLES.items() if name not in ELSEWHERE for line in lines]


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name, and those of groups."""
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        members = getattr(command, "commands", None)
        if members is None:
            yield name, command
        else:
            yield from ((f"{name} {member}", found) for member, found in members.items())


COMMANDS = dict(commands())


def test_every_command_and_sub_command_has_examples() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_an_example_is_a_valid_command_line(name: str) -> None:
    for line in EXAMPLES[name]:
        assert line.startswith(f"cje {name}")
        words = shlex.split(line)[1 + len(name.split()) :]
        context = COMMANDS[name].make_context(name, words)
        assert line in COMMANDS[name].get_help(context)


def test_the_help_of_a_group_shows_an_example_of_each_command() -> None:
    for name, group in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for member in getattr(group, "commands", ()):
            line = EXAMPLES[f"{name} {member}"][0]
            assert line in group.get_help(typer.Context(group, info_name=name))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every file that the examples name."""
    here = tmp_path_factory.mktemp("examples")
    _evaluations(here)
    _logged(here)
    _predictions(here)
    write_prompts(here, 60)
    write_config(here, ngram_settings())
    words = ["evals.csv", "--judge", "gpt-4o", "--rubric", "rubric.txt", "--save", "card.json"]
    with contextlib.chdir(here):
        assert CliRunner().invoke(app, ["judge", *words]).exit_code == 0
    quick = yaml.safe_load(EXAMPLE) | {
        "out": "out", "scenarios": ["gaussian"], "n": 300, "models": ["true_risk", "cox"],
        "seeds": [1, 2], "processes": 1,
    }  # fmt: skip
    (here / "experiment.yaml").write_text(yaml.safe_dump(quick))
    return here


def _evaluations(here: Path) -> None:
    rng = np.random.default_rng(0)
    n = 240
    score = rng.random((n, 2)).round(3)
    label = np.clip(score + rng.normal(0.0, 0.1, (n, 2)), 0.0, 1.0).round(3)
    rows = [
        {"id": f"{k}-{i}", "prompt_id": f"p{i}", "policy": name, "judge_score": score[i, k].item(),
         "claude_score": (1.0 - score[i, k]).item(), "date": f"2026-0{1 + i % 6}-01",
         "response": f"answer {i} of {name}", "prompt": f"question {i}",
         "label": label[i, k].item() if i % 2 == 0 else None}
        for k, name in enumerate(("prod", "cand")) for i in range(n)
    ]  # fmt: skip
    frame = pl.DataFrame(rows)
    frame.write_csv(here / "evals.csv")
    for name in ("prod", "cand"):
        frame.filter(pl.col("policy") == name).write_csv(here / f"{name}.csv")
    sheet = frame.rename({"judge_score": "gpt4", "label": "human"}).drop("claude_score")
    sheet.write_excel(here / "evals.xlsx", worksheet="results")
    frame.write_excel(here / "export.xlsx")
    for name in ("last_month.csv", "today.csv"):
        frame.filter(pl.col("policy") == "prod").drop("policy").write_csv(here / name)
    (here / "rubric.txt").write_text("Is the answer right? 0 to 1.")
    analyze_dataset(frame, baseline="prod").to_json(here / "result.json")
    _labels(here, frame)


def _labels(here: Path, frame: pl.DataFrame) -> None:
    """A study with a sheet for Bob, and one answer exported by Label Studio."""
    data = read(frame.drop("label", "claude_score"), text=True, judge_scale=(0, 1))
    Study.create(here / "labels.db", data, StudyOptions(count=12, scale="0-1"))
    write_sheet(here / "labels.db", here / "for_bob.xlsx", "bob")
    (here / "label_studio.json").write_text(json.dumps([{
        "data": {"prompt_id": "p3", "policy": "cand"},
        "annotations": [{"completed_by": 7, "result": [{"value": {"rating": 1}}]}],
    }]))  # fmt: skip


def _logged(here: Path) -> None:
    """A log of one policy, and fresh responses of its targets."""
    logged = simulate.logged_with_logprobs(300, 100, seed=1).dataset
    names = logged.target_policies
    (here / "fresh_draws").mkdir()
    for name in names:
        pl.DataFrame({
            "prompt_id": [f"p{i}" for i in range(len(logged))],
            "judge_score": np.roll(logged.judge_score, 1),
        }).write_csv(here / "fresh_draws" / f"{name}.csv")  # fmt: skip
    with open(here / "logged.jsonl", "w", encoding="utf-8") as file:
        for i in range(len(logged)):
            label = logged.oracle_label[i].item()
            file.write(json.dumps({
                "prompt_id": f"p{i}", "judge_score": logged.judge_score[i].item(),
                "human": {"rating": None if np.isnan(label) else label},
                "oracle_label": None if np.isnan(label) else label,
                "base_policy_logprob": logged.base_policy_logprob[i].item(),
                "target_policy_logprobs": dict(
                    zip(names, logged.target_policy_logprobs[i].tolist(), strict=True)
                ),
            }) + "\n")  # fmt: skip


def _predictions(here: Path) -> None:
    rng = np.random.default_rng(1)
    n = 200
    risk = rng.uniform(0.1, 0.6, n)
    years, censoring = rng.exponential(1.0 / -np.log1p(-risk)), rng.uniform(0.5, 6.0, n)
    table = {
        "years": np.minimum(years, censoring), "died": (years <= censoring).astype(int),
        "site": np.where(np.arange(n) % 2, "a", "b"),
        "label": (rng.random(n) < risk).astype(int), "probability": risk,
    }  # fmt: skip
    for t in (1, 3):
        table |= dict.fromkeys((f"risk_{t}", f"new_{t}"), 1.0 - (1.0 - risk) ** t)
        table[f"old_{t}"] = np.full(n, table[f"new_{t}"].mean())
    pl.DataFrame(table).write_csv(here / "predictions.csv")


@pytest.mark.parametrize("line", RUNNABLE)
def test_an_example_runs_on_files_of_its_names(
    folder: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, shlex.split(line)[1:], catch_exceptions=False)
    assert done.exit_code in (0, 2), done.output[-2000:]
