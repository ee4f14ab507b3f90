"""Naming columns, files and words on the command line; a question is a command to paste."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from cje.cli.main import app
from cje.cli.reading import given_source
from cje.data import read
from cje.errors import CJEError


def rows(seed: int = 0, n: int = 60) -> list[dict[str, object]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "qid": f"q{i}",
            "points": round(float(score := rng.random()), 3),
            "reviewer_says": ("good" if score + rng.normal(0, 0.3) > 0.5 else "bad")
            if i % 2
            else "",
        }
        for i in range(n)
    ]


def write(path: Path, table: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def cje(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


FIELDS = ["--field", "judge_score=points", "--field", "prompt_id=qid", "--field",
          "label=reviewer_says"]  # fmt: skip


def test_two_files_are_two_policies_named_after_them(tmp_path: Path) -> None:
    one, two = write(tmp_path / "prod.csv", rows(0)), write(tmp_path / "cand.csv", rows(1))
    done = cje("analyze", one, two, *FIELDS)
    assert done.exit_code in (0, 2), done.exception
    assert "prod" in done.output
    assert "cand" in done.output


def test_files_can_be_given_the_names_of_their_policies(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.csv", rows(0)), write(tmp_path / "2.csv", rows(1))
    done = cje("doctor", f"old={one}", *FIELDS)
    assert "old" in done.output, done.exception
    done = cje("analyze", f"old={one}", f"new={two}", *FIELDS, "--baseline", "old", "--json")
    assert '"old"' in done.output, done.exception
    assert '"new"' in done.output


def test_a_file_whose_name_has_an_equals_sign_is_that_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a=b.csv", rows())
    assert given_source([str(path)]) == path


def test_a_question_names_the_best_guess_as_a_command_to_paste(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", rows())
    words = ["doctor", str(path)]
    for _ in range(4):  # each answer may lead to one further question
        done = CliRunner().invoke(app, ["analyze", *words[1:]])
        if not isinstance(done.exception, CJEError):
            break
        found = re.search(r"--field (?:'[^']*'|\S+)", str(done.exception))
        assert found, done.exception
        words += [word.rstrip(";,.") for word in shlex.split(found[0])]
    assert done.exit_code in (0, 2), done.exception
    assert "judge_score=points" in words


def test_the_question_in_python_is_in_python(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", rows())
    with pytest.raises(CJEError, match=r"fields=\{'judge_score': 'points'\}"):
        read(path, fields={"prompt_id": "qid"})


def test_words_get_their_values_on_the_command_line(tmp_path: Path) -> None:
    table = [{**row, "reviewer_says": "meh" if row["reviewer_says"] == "bad" else
              row["reviewer_says"]} for row in rows()]  # fmt: skip
    path = write(tmp_path / "a.csv", table)
    asked = cje("doctor", path, *FIELDS)
    assert isinstance(asked.exception, CJEError)
    assert "'meh'" in str(asked.exception)
    assert "--label-map" in str(asked.exception)
    done = cje("doctor", path, *FIELDS, "--label-map", "good=1,meh=0")
    assert "'good' = 1, 'meh' = 0" in done.output


@pytest.mark.parametrize("given", ["judge_score", "=x", "judge_score="])
def test_a_field_without_two_names_is_an_error_that_shows_the_form(
    tmp_path: Path, given: str
) -> None:
    done = cje("doctor", write(tmp_path / "a.csv", rows()), "--field", given)
    assert isinstance(done.exception, CJEError)
    assert "--field ROLE=COLUMN" in str(done.exception)


def test_labels_join_by_names_that_differ(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [{"id": f"q{i}", "score": i / 39} for i in range(40)])
    labels = write(
        tmp_path / "l.csv",
        [
            {"question_id": f"q{i}", "grade": "pass" if i % 3 else "fail", "propensity": 0.25}
            for i in range(20)
        ],
    )
    data = read(path, labels=labels, on="id=question_id")
    assert data.n_labelled == 20
    assert data.label_propensity is not None
    assert np.nansum(data.label_propensity) == 5.0
    done = cje("analyze", path, "--labels", labels, "--on", "id=question_id")
    assert done.exit_code in (0, 2), done.exception
