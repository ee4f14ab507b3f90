"""Event logs by OpenAI Evals' LocalRecorder: python make_openai_evals.py OUT (needs: evals).

The recorder needs little of the package; modules that are not installed are replaced by mocks, so
``pip install --no-deps evals pydantic`` is enough.
"""

import importlib.abc
import importlib.machinery
import sys
from unittest.mock import MagicMock

ABSENT = ("openai", "blobfile", "zstandard", "lz4", "pyzstd", "numpy", "snowflake", "backoff",
          "tiktoken", "yaml", "langchain", "requests", "fire", "pandas", "tqdm", "evals.api",
          "evals.eval", "evals.registry", "evals.completion_fns", "evals.elsuite",
          "evals.cli")  # fmt: skip


class Mocks(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if any(name == absent or name.startswith(f"{absent}.") for absent in ABSENT):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock()
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Mocks())

from evals import record  # noqa: E402
from evals.base import RunSpec  # noqa: E402

record.bf = MagicMock()
record.bf.BlobFile = lambda path, mode: open(path, mode)  # noqa: SIM115
SPEC = RunSpec(
    completion_fns=["mock-model"],
    eval_name="capitals.dev.v0",
    base_eval="capitals",
    split="dev",
    run_config={},
    created_by="",
    run_id="run1",
    created_at="2026-01-01",
)


def write(name, prompt, grade):
    recorder = record.LocalRecorder(f"{sys.argv[1]}/{name}", run_spec=SPEC)
    for i in range(4):
        with recorder.as_default_recorder(f"capitals.dev.{i}"):
            recorder.record_sampling(prompt(i), [f"answer {i}"])
            grade(recorder, i)
    recorder.record_final_report({"accuracy": 0.5})
    recorder.flush_events()


write("match.jsonl", "question {}".format, lambda r, i: r.record_match(i % 2 == 0, expected="x"))
write(
    "graded.jsonl",
    lambda i: [{"role": "user", "content": f"question {i}"}],
    lambda r, i: r.record_metrics(choice="ABCD"[i], score=0.25 * i),
)
