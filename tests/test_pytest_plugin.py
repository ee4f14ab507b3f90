"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import polars as pl
import pytest

import cje.simulate as simulate

_TESTS = """
import pytest

@pytest.mark.cje("rows.csv", baseline="base", candidate="candidate_1")
def test_better(cje_gate):
    assert cje_gate.decision == "PASS"

@pytest.mark.cje("rows.csv", baseline="candidate_1")
def test_worse(cje_gate):
    pass

@pytest.mark.cje("rows.csv", baseline="base", min_gain=0.12)
def test_undecided(cje_gate):
    pass

@pytest.mark.cje("rows.csv", baseline="base", min_gain=0.12, undecided="skip")
def test_skipped(cje_gate):
    pass

@pytest.mark.cje("rows.csv", baseline="base", min_gain=0.12, undecided="pass")
def test_allowed(cje_gate):
    assert cje_gate.decision == "UNDECIDED"

@pytest.mark.cje("rows.csv", baseline="nobody")
def test_error(cje_gate):
    pass

def test_function(cje_gate):
    assert cje_gate("rows.csv", baseline="base", margin=0.1).decision == "PASS"
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("plugin")
    data = simulate.policies_on_shared_prompts(300, 2, 60, seed=1).dataset
    pl.DataFrame(
        {
            "policy": data.policy.decode(),
            "prompt_id": data.prompt_id.decode(),
            "judge_score": data.judge_score,
            "oracle_label": pl.Series(data.oracle_label).fill_nan(None),
        }
    ).write_csv(folder / "rows.csv")
    (folder / "test_it.py").write_text(_TESTS)
    command = [
        sys.executable, "-m", "pytest", "-p", "cje.pytest_plugin", "-p", "no:cacheprovider",
        "--strict-markers", "-rA", "-q", "test_it.py",
    ]  # fmt: skip
    # Named here and nowhere else: where the package is installed, its entry point names it, too.
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=alone
    )
    found = {"output": done.stdout}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("PASSED", "FAILED", "ERROR", "SKIPPED"):
            found[rest.partition("::")[2].partition(" ")[0] or "skipped"] = word
    return found


@pytest.mark.parametrize(
    ("test", "word"),
    [
        ("test_better", "PASSED"),
        ("test_worse", "ERROR"),
        ("test_undecided", "ERROR"),
        ("test_allowed", "PASSED"),
        ("test_error", "ERROR"),
        ("test_function", "PASSED"),
        ("skipped", "SKIPPED"),
    ],
)
def test_a_marked_test_ends_as_its_gate(outcome: dict[str, str], test: str, word: str) -> None:
    assert outcome[test] == word, outcome["output"]


def test_a_failure_shows_the_decision_not_a_traceback(outcome: dict[str, str]) -> None:
    assert "FAIL: base is worse than candidate_1." in outcome["output"]
    assert "the baseline is not in the data" in outcome["output"]
