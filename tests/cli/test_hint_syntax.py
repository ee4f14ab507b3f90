"""Messages give hints in the syntax of the interface: options here, arguments in Python."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cje import analyze_dataset
from cje.cli.main import main
from cje.errors import CJEError
from cje.findings import RULES
from cje.hints import by_interface, command_line_hints, flag_option, option_hint

# How Python passes a value: `word=(1, 2)`, `word=True`, `word='text'`, `word={'a': 1}`, `word=[1]`.
PYTHON = re.compile(r"\b[a-z_]+=(?:\(|\[|\{['\"]|'|\"|True\b|False\b|None\b)")
OPTION = re.compile(r"(?<![\w-])--[a-z]")


def rows(**changes: Any) -> list[dict[str, Any]]:
    """Sixty rows of two policies, half of them labelled, with columns changed in the first row."""
    made: list[dict[str, Any]] = [
        {
            "prompt_id": f"q{i}", "policy": policy, "judge_score": (i * 7 + k) % 10 / 10,
            "oracle_label": (i * 3 + k) % 11 / 10 if i % 2 else None,
        }
        for k, policy in enumerate(("prod", "cand")) for i in range(30)
    ]  # fmt: skip
    made[0] |= changes
    return made


def without(column: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != column} for row in rows()]


def repeated() -> list[dict[str, Any]]:
    return [*rows(), rows()[3] | {"judge_score": 0.95}]


def renamed(old: str, new: str) -> list[dict[str, Any]]:
    return [{new if name == old else name: value for name, value in r.items()} for r in rows()]


def two_scores() -> list[dict[str, Any]]:
    return [row | {"gpt4_score": 0.5, "claude_score": 0.4} for row in without("judge_score")]


def wide() -> list[dict[str, Any]]:
    return [{"prompt_id": f"q{i}", "score_prod": 0.4, "score_cand": 0.6} for i in range(20)]


def words_as_labels() -> list[dict[str, Any]]:
    return [row | {"oracle_label": ("fine", "odd", "grim")[i % 3]} for i, row in enumerate(rows())]


def on_two_scales() -> list[dict[str, Any]]:
    return [row | {"judge_score": 7 if i == 5 else i % 2} for i, row in enumerate(rows())]


def logprob_lists() -> list[dict[str, Any]]:
    lists = [[-1.0, -2.0]] * 59 + [[-1.0]]
    return [
        row | {"base_policy_logprob": -1.0, "target_policy_logprobs": given}
        for row, given in zip(rows(), lists, strict=True)
    ]


# What is wrong with the rows, and how the data are read in Python.
WRONG: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "a score above the scale": lambda: rows(judge_score=7.5),
    "a label above the scale": lambda: rows(oracle_label=42),
    "a score that is a word": lambda: rows(judge_score="high"),
    "a label that is a word": lambda: rows(oracle_label="splendid"),
    "a score that is missing": lambda: rows(judge_score=None),
    "labels in words": words_as_labels,
    "scores on two scales": on_two_scales,
    "the same prompt twice": repeated,
    "no score": lambda: without("judge_score"),
    "two scores": two_scores,
    "a score under another name": lambda: renamed("judge_score", "my_points"),
    "a policy under another name": lambda: renamed("policy", "deployment"),
    "versions side by side": wide,
    "a policy of one row": lambda: [*rows(), rows()[0] | {"policy": "third"}],
    "a propensity above 1": lambda: [row | {"label_propensity": 3.0} for row in rows()],
    "log-probs of other lengths": logprob_lists,
    "too few labels": lambda: [
        row | {"oracle_label": 0.5 if i < 3 else None} for i, row in enumerate(rows())
    ],
}


def run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["cje", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def write(path: Path, content: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(json.dumps(row) for row in content) + "\n")
    return str(path)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("command", ["analyze", "doctor"])
def test_the_command_line_writes_no_python(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    data = write(tmp_path / "evals.jsonl", WRONG[name]())
    run([command, data], monkeypatch)
    out, err = capsys.readouterr()
    assert out + err
    assert not PYTHON.findall(out + err), out + err


@pytest.mark.parametrize(
    "words",
    [
        ["gate", "{data}", "--baseline", "prod", "--candidate", "nobody"],
        ["gate", "{three}", "--baseline", "prod"],
        ["analyze", "{data}", "--raters", "random"],
        ["analyze", "{data}", "--estimator", "pairwise"],
        ["analyze", "{data}", "--estimator", "stacked-dr"],
        ["analyze", "{data}", "--labels", "{strange}"],
        ["analyze", "{data}", "--judge-scale", "0-0.5"],
        ["analyze", "{pairs}", "--estimator", "direct"],
        ["analyze", "{pairs}", "--judge-scale", "1-5"],
        ["analyze", "{bytes}"],
        ["analyze", "{nolabels}"],
        ["convert", "{high}", "{out}"],
        ["drift", "{data}", "{high}"],
        ["drift", "{data}", "{strange}"],
        ["judge", "{nolabels}"],
        ["label", "{high}", "--plan"],
        ["monitor", "{high}"],
        ["plan", "{nolabels}", "--width", "0.1"],
        ["score", "{data}", "--policy", "a=model/", "-o", "{out}"],
        ["show", "{data}"],
        ["classifier", "check", "{classes}", "--label", "truth"],
        ["findings"],
    ],
    ids=" ".join,
)
def test_no_command_writes_python(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    pairs = [
        {"prompt_id": f"q{i}", "model_a": "prod", "model_b": "cand", "winner": "model_a"}
        for i in range(20)
    ]
    (tmp_path / "bytes.jsonl").write_bytes(b'{"judge_score": 1, "x": "\xff"}\n')
    places = {
        "data": write(tmp_path / "data.jsonl", rows()),
        "three": write(
            tmp_path / "three.jsonl", [*rows(), *(row | {"policy": "x"} for row in rows()[:30])]
        ),
        "strange": write(tmp_path / "strange.jsonl", [{"prompt_id": "zz", "oracle_label": 1}]),
        "high": write(tmp_path / "high.jsonl", rows(judge_score=7.5)),
        "nolabels": write(tmp_path / "nolabels.jsonl", without("oracle_label")),
        "pairs": write(tmp_path / "pairs.jsonl", pairs),
        "classes": write(
            tmp_path / "classes.jsonl",
            [{"truth": "yes" if i % 2 else "no", "probability": 0.5} for i in range(30)],
        ),
        "bytes": str(tmp_path / "bytes.jsonl"),
        "out": str(tmp_path / "out.jsonl"),
    }  # fmt: skip
    run([word.format(**places) for word in words], monkeypatch)
    out, err = capsys.readouterr()
    assert out + err
    assert not PYTHON.findall(out + err), out + err


@pytest.mark.parametrize("name", WRONG)
def test_python_reads_no_options_of_the_command(name: str, tmp_path: Path) -> None:
    said: list[str] = []
    for given in (WRONG[name](), write(tmp_path / "evals.jsonl", WRONG[name]())):
        try:
            result = analyze_dataset(given)
        except CJEError as error:
            said.append(str(error))
        else:
            said += [str(finding) for finding in result.findings]
            said.append(result.summary())
    assert not OPTION.findall("\n".join(said)), said


def test_every_rule_has_its_action_in_both_syntaxes() -> None:
    for rule in RULES.values():
        assert not OPTION.findall(rule.message + rule.action), rule.code
        with command_line_hints():
            assert not PYTHON.findall("\n".join(rule.plain()) + rule.message), rule.code


def test_hints_return_to_python_after_the_command() -> None:
    assert option_hint("estimator", "naive") == "estimator='naive'"
    with command_line_hints():
        assert option_hint("estimator", "naive") == flag_option("estimator", "naive")
        assert by_interface("a", "b") == "b"
    assert by_interface("a", "b") == "a"
