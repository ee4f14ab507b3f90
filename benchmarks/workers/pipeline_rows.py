"""Many rows in a process of its own: ``python -m benchmarks.workers.pipeline_rows N FOLDER``.

Logged responses, an in-process judge and target: the pipeline itself is what works. Prints JSON
with the seconds and the peak of resident memory.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import yaml

from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.policies import NgramPolicy
from cje.policies.ngram_model import embedded_corpus

POLICY = {"provider": "ngram", "max_tokens": 5}


def write_case(n: int, folder: Path) -> Path:
    """`n` logged rows and a configuration; returns its path."""
    questions = sorted({line.split("\t")[0] for line in embedded_corpus()})
    base = NgramPolicy(name="base", max_tokens=POLICY["max_tokens"])
    pool = [
        {"context": q, "response": r, "logp": base.log_prob(q, r)}
        for i, q in enumerate(questions)
        for r in base.sample(q, 40, seed=i)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "rows.jsonl", "w", encoding="utf-8") as handle:
        for i in range(n):
            handle.write(json.dumps({"id": f"p{i}", **pool[i % len(pool)]}) + "\n")
    settings = {
        "work_dir": "run",
        "dataset": {
            "path": "rows.jsonl", "id_field": "id", "response_field": "response",
            "logprob_field": "logp",
        },
        "judge": {"provider": "offline", "bias": [0.2, 0.6], "noise": 0.05, "variance": "none"},
        "oracle_config": {
            "source": "callable", "function": "cje.judges:lexical_quality", "count": 2000,
        },
        "target_policies": [{"name": "near", **POLICY, "temperature": 0.9}],
        "estimation": {"estimators": ["snips"]},
        "chunk_rows": 5000,
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return folder / "config.yaml"


def main() -> None:
    config = load_config(write_case(int(sys.argv[1]), Path(sys.argv[2])))
    began = time.perf_counter()
    result = CJEPipeline(config).run()
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # kibibytes on Linux
    print(json.dumps({"rows": result.n_rows, "seconds": seconds, "peak": peak}))


if __name__ == "__main__":
    main()
