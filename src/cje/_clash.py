"""Detect the unrelated distribution `cje-eval`, which also installs the import name `cje`.

Looked for only where it matters (`cje --version`, an unknown attribute of `cje`): listing every
folder of `sys.path` would slow down each import.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["clash_message"]


def clash_message() -> str | None:
    """What to do about an installed `cje-eval`, or None where there is none."""
    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue  # sys.path may name zip files and folders that do not exist
        if any(name.startswith("cje_eval-") and name.endswith(".dist-info") for name in entries):
            here = Path(__file__).with_name("__init__.py")
            return (
                "The distribution 'cje-eval' is installed in this environment and also provides "
                f"the import name 'cje'. The module in use is {here}. "
                "Keep the two in separate environments, or run: pip uninstall cje-eval"
            )
    return None
