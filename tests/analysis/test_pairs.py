"""Comparisons from files and labelling studies to the command's answer, JSON and report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from cje.analysis import analyze_dataset
from cje.cli.main import app
from cje.data import read
from cje.data.comparisons import Comparisons
from cje.errors import CJEError
from cje.label.study import Study, StudyOptions
from cje.results.result import EstimationResult
from studies.pairwise import WORLDS, simulate
from tests.label.conftest import CAND, PROD, put
from tests.label.conftest import rows as scored_rows

WORDS = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}


def frame_of(data: Comparisons) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "question_id": data.prompt_id.decode(),
            "model_a": data.first.decode(),
            "model_b": data.second.decode(),
            "judge_winner": [WORDS.get(v, "") for v in data.judge.tolist()],
            "human_winner": [WORDS.get(v, "") for v in data.human.tolist()],
            "domain": ["x" if code % 2 else "y" for code in data.prompt_id.codes],
        }
    )


@pytest.fixture(scope="module")
def four() -> pl.DataFrame:
    world = WORLDS["four policies, two pairs per prompt"]
    return frame_of(simulate(world, np.random.default_rng(3)))


@pytest.fixture(scope="module")
def two() -> pl.DataFrame:
    return frame_of(simulate(WORLDS["two policies, both orders"], np.random.default_rng(1)))


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["analyze", *map(str, arguments)])


def test_the_command_recognises_comparisons_and_ranks(four: pl.DataFrame, tmp_path: Path) -> None:
    four.write_csv(tmp_path / "pairs.csv")
    done = run(tmp_path / "pairs.csv", "--baseline", "m3", "--by", "domain")
    assert done.exit_code == 0, done.output
    for words in ("win rate against the others", "head to head", "ranking (Bradley-Terry)",
                  "by domain", "human verdicts"):  # fmt: skip
        assert words in done.output


def test_two_versions_are_answered_with_a_share_of_wins(two: pl.DataFrame, tmp_path: Path) -> None:
    two.write_ndjson(tmp_path / "pairs.jsonl")
    done = run(tmp_path / "pairs.jsonl", "--baseline", "m1")
    first = done.output.splitlines()[0]
    assert first.startswith("m0 is preferred to m1 in 60% of comparisons (95% interval 5")
    assert "on 100 human verdicts" in first
    assert "Bradley" not in done.output  # nothing to rank


def test_the_json_has_pairs_and_ranking_and_is_read_again(four: pl.DataFrame) -> None:
    result = analyze_dataset(four)
    text = result.to_json(influence=False)
    found = json.loads(text)["diagnostics"]["pairwise"]
    assert len(found["pairs"]) == len(found["win_probabilities"]) == 6
    assert [row["rank"] for row in found["ranking"]] == [1, 2, 3, 4]
    again = EstimationResult.from_json(text)
    assert again.summary() == result.summary()


def test_the_report_draws_head_to_head_and_ranking(four: pl.DataFrame) -> None:
    page = analyze_dataset(four).to_html()
    for words in ("Head to head", "Ranking (Bradley-Terry)", "Win probabilities by the ranking",
                  "How the verdicts were given", "comparisons"):  # fmt: skip
        assert words in page


def test_names_of_versions_are_escaped_in_the_parts_of_comparisons(four: pl.DataFrame) -> None:
    hostile = "<script>alert(1)</script>"
    renamed = four.with_columns(pl.col("model_a", "model_b").str.replace("^m1$", hostile))
    page = analyze_dataset(renamed).to_html()
    assert hostile not in page
    assert "&lt;script&gt;" in page


def test_the_gate_decides_on_wins_minus_losses(two: pl.DataFrame, tmp_path: Path) -> None:
    two.write_csv(tmp_path / "pairs.csv")
    words = ["gate", str(tmp_path / "pairs.csv"), "--baseline", "m1", "--candidate", "m0"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "PASS" in done.output


def test_a_bare_winner_is_asked_about_with_an_option_to_paste(
    two: pl.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.csv"
    two.drop("human_winner").rename({"judge_winner": "winner"}).write_csv(path)
    done = run(path)
    assert isinstance(done.exception, CJEError)
    assert "--field judge_winner=winner" in str(done.exception)
    assert run(path, "--field", "judge_winner=winner").exit_code == 2  # refused: no human verdict


def test_a_scale_has_no_meaning_for_comparisons(two: pl.DataFrame) -> None:
    with pytest.raises(CJEError, match="judge_scale has no meaning"):
        analyze_dataset(two, judge_scale="1-5")


def test_scores_cannot_be_compared_pairwise_without_a_winner() -> None:
    data = read([{"prompt_id": f"p{i}", "policy": "x", "judge_score": 0.5} for i in range(5)])
    with pytest.raises(CJEError, match="scores of single responses"):
        analyze_dataset(data, estimator="pairwise")


# ---- cje label --pairs ------------------------------------------------------------------------


@pytest.fixture
def labelled(tmp_path: Path) -> Callable[[int], tuple[list[dict[str, Any]], Path]]:
    """A study side by side in which the candidate wins three of four answers."""

    def made(count: int) -> tuple[list[dict[str, Any]], Path]:
        rows, path = scored_rows(120), tmp_path / "labels.db"
        data = read(rows, text=True, judge_scale=(0, 1))
        options = StudyOptions(count=count, pairs=True, baseline=PROD, candidate=CAND)
        study = Study.create(path, data, options)
        for k in range(count):
            item = study.next_item("rater", "tab")
            assert item is not None
            candidate_is_a = item.sides == "ab"
            wins = k % 4 != 0
            put(study.store, "rater", item, "A" if wins == candidate_is_a else "B")
        return rows, path

    return made


def test_answers_side_by_side_give_win_rates_on_the_scored_data(
    labelled: Callable[[int], tuple[list[dict[str, Any]], Path]],
) -> None:
    rows, path = labelled(60)
    result = analyze_dataset(rows, labels=path, judge_scale="0-1", baseline=PROD)
    assert result.estimator == "pairwise"
    assert result.metadata["comparisons"] == {"rows": 120, "labels": 60}
    pair = result.compare_policies(CAND, PROD)
    assert pair.difference == pytest.approx(0.5, abs=0.12)  # wins minus losses
    assert pair.verdict == "better"


def test_style_is_counted_in_the_responses_that_were_compared(
    labelled: Callable[[int], tuple[list[dict[str, Any]], Path]],
) -> None:
    rows, path = labelled(60)
    for row in rows:
        row["response"] += (
            " and more" * (1 + hash_of(row["prompt_id"]) % 3) * (row["policy"] == CAND)
        )
    result = analyze_dataset(rows, labels=path, judge_scale="0-1", covariates=["length"])
    assert result.metadata["quantity"] == "win rate at equal length"
    assert [s["covariate"] for s in result.diagnostics["pairwise"]["style"]] == ["length"]


def hash_of(name: str) -> int:
    return sum(name.encode())


def test_an_export_of_the_answers_gives_the_same_result_by_itself(
    labelled: Callable[[int], tuple[list[dict[str, Any]], Path]], tmp_path: Path
) -> None:
    from cje.label.files import export_labels

    _, path = labelled(60)
    export_labels(path, tmp_path / "answers.csv")
    result = analyze_dataset(tmp_path / "answers.csv", baseline=PROD)
    difference = result.compare_policies(CAND, PROD).difference
    assert difference == pytest.approx(0.5, abs=0.12)  # sides are random
    assert not any(f.code == "position-confounded" for f in result.findings)


def test_answers_side_by_side_are_not_labels_of_single_responses(
    labelled: Callable[[int], tuple[list[dict[str, Any]], Path]],
) -> None:
    rows, path = labelled(20)
    with pytest.raises(CJEError, match="estimator='pairwise'"):
        analyze_dataset(rows, labels=path, judge_scale="0-1", estimator="direct")
