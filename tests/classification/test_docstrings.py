"""The examples in the docstrings of the classification layer are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import cje.classification

MODULES = [m.name for m in pkgutil.iter_modules(cje.classification.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_print_what_they_show(name):
    module = importlib.import_module(f"cje.classification.{name}")
    assert doctest.testmod(module).failed == 0


def test_every_public_name_exists():
    for name in cje.classification.__all__:
        assert getattr(cje.classification, name) is not None


def test_the_metrics_load_without_scikit_learn():
    code = (
        "import sys; from cje.classification import assess, top_label_ece, confidence_curve; "
        "sys.exit('sklearn' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
