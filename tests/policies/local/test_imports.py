"""Nothing of the extra `local` is imported unless a configuration asks for it."""

from __future__ import annotations

import subprocess
import sys

from cje.pipeline.progress import TokenMoment

CODE = """
import sys
import cje, cje.policies, cje.pipeline, cje.cli.main, cje.judges, cje.pipeline.scoring
cje.policies.make_runner({"name": "n", "provider": "ngram"})
names = ("torch", "transformers", "safetensors", "cje.policies.local")
print([name for name in names if name in sys.modules])
"""


def test_torch_is_not_imported_by_what_does_not_need_it():
    shown = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
    ).stdout
    assert shown.strip() == "[]"


def test_progress_states_rows_and_tokens_per_second():
    moment = TokenMoment(50, 100, 80, 20, 1, 0, 0, 0.0, tokens=9000, rows_here=40)
    assert moment.text(2.0) == "20 rows/s, 4500 tokens/s, 20 reused, 1 errors"
