"""The steps of the GitHub action, the GitLab snippet and the pytest plugin, run as written.

They run in an environment of its own that holds the package and its core dependencies only.
"""

from __future__ import annotations

import os
import re
import subprocess
import venv
from pathlib import Path

import polars as pl
import pytest
import yaml

import cje.simulate as simulate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "gate_a_release.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ci")
    data = simulate.policies_on_shared_prompts(300, 2, 60, seed=1).dataset
    names = {"base": "prod", "candidate_1": "cand-v2"}
    pl.DataFrame(
        {
            "policy": [names[p] for p in data.policy.decode()],
            "prompt_id": data.prompt_id.decode(),
            "judge_score": data.judge_score,
            "oracle_label": pl.Series(data.oracle_label).fill_nan(None),
        }
    ).write_csv(place / "evals.csv")
    return place


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    """An empty environment with the working tree installed, and its variables."""
    place = folder / "venv"
    venv.create(place, with_pip=True)
    install = [place / "bin" / "python", "-m", "pip", "install", "-q", "-c",
               ROOT / "constraints.txt", str(ROOT), "pytest"]  # fmt: skip
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no packages can be installed here: {done.stderr[-200:]}")
    return {"PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}


def _bash(script: str, folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _block(title: str, language: str) -> str:
    section = PAGE.split(f"## {title}\n", 1)[1]
    return re.search(rf"```{language}\n(.*?)```", section, re.S)[1]  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, 0),
        ({"baseline": "cand-v2", "candidate": "prod", "margin": ""}, 1),
        ({"margin": "", "min-gain": "0.12"}, 2),
        ({"baseline": "nobody"}, 3),
        ({"baseline": "$(touch hacked)"}, 3),
        ({"arguments": "--seed\n7"}, 0),
    ],
)
def test_the_action_ends_with_the_gates_code(
    changed: dict[str, str], code: int, folder: Path, environment: dict[str, str]
) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    steps = yaml.safe_load(_block("GitHub", "yml"))["jobs"]["gate"]["steps"]
    given = {name: str(spec.get("default", "")) for name, spec in action["inputs"].items()}
    given |= {name: str(value) for name, value in steps[1]["with"].items()} | changed
    assert set(given) == set(action["inputs"])
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "gate")
    variables = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: given[m[1]], value)
        for name, value in step["env"].items()
    }
    outputs = {
        name: str(folder / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
    }
    for path in outputs.values():
        Path(path).write_text("")
    (folder / "cje-gate.md").unlink(missing_ok=True)
    done = _bash(step["run"], folder, environment | variables | outputs)
    assert done.returncode == code, done.stdout + done.stderr
    assert Path(outputs["GITHUB_OUTPUT"]).read_text() == f"exit-code={code}\n"
    word = {0: "PASS", 1: "FAIL", 2: "UNDECIDED", 3: ""}[code]
    assert word in Path(outputs["GITHUB_STEP_SUMMARY"]).read_text()
    assert not (folder / "hacked").exists()


@pytest.mark.slow
def test_the_gitlab_job_ends_with_the_gates_code(folder: Path, environment: dict[str, str]) -> None:
    job = yaml.safe_load(_block("GitLab", "yml"))["release-gate"]
    install, *script = job["script"]
    assert install == "python -m pip install causal-judge"  # done by the environment above
    done = _bash("\n".join(script), folder, environment)
    assert done.returncode == 0, done.stderr
    for name in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
        assert (folder / name).stat().st_size > 0


@pytest.mark.slow
def test_the_pytest_example_passes_with_the_installed_plugin(
    folder: Path, environment: dict[str, str]
) -> None:
    (folder / "test_release.py").write_text(_block("pytest", "py"))
    done = _bash("python -m pytest -q --strict-markers test_release.py", folder, environment)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
