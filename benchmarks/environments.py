"""The peers' environments: created under .venvs/ from `peers.toml`, reported where they fail."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ROOT", "Environment", "make_environments", "python_of"]

ROOT = Path(__file__).resolve().parents[1]
PINS = Path(__file__).with_name("peers.toml")
_INSTALL_SECONDS = 900
_VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Environment:
    """One environment after the attempt to make it."""

    name: str
    versions: dict[str, str | None] = field(default_factory=dict)
    problem: str = ""

    @property
    def usable(self) -> bool:
        return not self.problem


def python_of(name: str) -> Path:
    """Interpreter of a peer's environment (there or not).

    Start it with ``-I`` where only the peer is wanted: some peers also import as `cje`, and a
    PYTHONPATH that names this tree would put ours in their place.
    """
    return ROOT / ".venvs" / name / "bin" / "python"


def make_environments() -> list[Environment]:
    """Create what is missing; an environment that already holds the pinned versions is kept."""
    pins = tomllib.loads(PINS.read_text(encoding="utf-8"))
    return [_make(name, table["install"], table.get("python")) for name, table in pins.items()]


def _make(name: str, requirements: list[str], wanted_python: str | None) -> Environment:
    wanted = dict(_split(requirement) for requirement in requirements)
    python = python_of(name)
    versions = _installed(python, wanted)
    if _wrong(versions, wanted):
        print(f"environment {name}: installing {', '.join(requirements)}", flush=True)
        try:
            if not python.exists():
                base = _interpreter(wanted_python)
                if base is None:
                    return Environment(name, versions, f"no Python {wanted_python} was found")
                subprocess.run([base, "-m", "venv", python.parents[1]], check=True)
            done = subprocess.run(
                [python, "-m", "pip", "install", "-q", *requirements],
                capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS,
            )  # fmt: skip
            problem = _last_line(done.stderr) if done.returncode else ""
        except subprocess.TimeoutExpired:
            problem = f"installing took more than {_INSTALL_SECONDS} s"
        except subprocess.CalledProcessError as error:
            problem = f"no virtual environment: exit status {error.returncode}"
        versions = _installed(python, wanted)
        wrong = _wrong(versions, wanted)
        if problem or wrong:
            return Environment(name, versions, problem or f"wrong version of {', '.join(wrong)}")
    return Environment(name, versions)


def _interpreter(wanted: str | None) -> str | None:
    """This Python, or the first one found whose version fits (``>=3.12`` or ``==3.10``)."""
    if wanted is None:
        return sys.executable
    exact, need = wanted.startswith("=="), tuple(map(int, wanted[2:].split(".")))
    known = [shutil.which(f"python3.{minor}") for minor in range(9, 16)]
    kept = sorted(map(str, Path.home().glob(".pyenv/versions/3.*/bin/python")))
    for candidate in (sys.executable, *filter(None, known), *kept):
        done = subprocess.run(
            [candidate, "-c", "import sys; print(*sys.version_info[:2])"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        version = tuple(map(int, done.stdout.split())) if done.returncode == 0 else ()
        if version and (version == need if exact else version >= need):
            return candidate
    return None


def _split(requirement: str) -> tuple[str, str | None]:
    name, _, version = requirement.partition("==")
    return name, version or None


def _installed(python: Path, wanted: dict[str, str | None]) -> dict[str, str | None]:
    if not python.exists():
        return dict.fromkeys(wanted)
    done = subprocess.run(
        [python, "-c", _VERSIONS, *wanted], capture_output=True, text=True, check=False
    )
    return dict(json.loads(done.stdout)) if done.returncode == 0 else dict.fromkeys(wanted)


def _wrong(versions: dict[str, str | None], wanted: dict[str, str | None]) -> list[str]:
    return [
        name
        for name, version in wanted.items()
        if (found := versions[name]) is None
        or (version is not None and found.partition("+")[0] != version)  # 2.13.0+cpu is 2.13.0
    ]


def _last_line(text: str) -> str:
    errors = [line for line in text.splitlines() if line.startswith("ERROR")]
    return (errors or text.strip().splitlines() or ["pip failed without a message"])[-1]
