"""Print the lower bound of every run-time, `api` and `anthropic` dependency as a requirements file.

`make oldest` installs it. The `test` extra is left to the installer: test tools are not a promise
to users, except for the data-frame libraries, which are.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

FRAMES = ("pandas", "pyarrow")


def lower_bounds(requirements: list[str]) -> list[str]:
    """``name==bound`` for each ``name>=bound``."""
    pairs = [re.match(r"([A-Za-z0-9_.\-]+)(?:\[.*\])?>=([0-9.]+)", text) for text in requirements]
    return [f"{found[1]}=={found[2]}" for found in pairs if found]


def main() -> None:
    """Read pyproject.toml beside this folder and print."""
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    frames = [text for text in extras["test"] if text.split(">=")[0] in FRAMES]
    wanted = project["project"]["dependencies"] + extras["api"] + extras["anthropic"] + frames
    print("\n".join(lower_bounds(wanted)))


if __name__ == "__main__":
    main()
