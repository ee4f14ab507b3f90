"""Small configurations that the pipeline's tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from cje.policies.ngram_model import embedded_corpus

QUESTIONS = sorted({line.split("\t")[0] for line in embedded_corpus()})


def write_prompts(folder: Path, n: int, **more: Any) -> None:
    """`n` prompts with different contexts, so that no two calls are the same call."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "prompts.jsonl", "w", encoding="utf-8") as handle:
        for i in range(n):
            context = f"{i}. {QUESTIONS[i % len(QUESTIONS)]}"
            handle.write(json.dumps({"id": f"p{i}", "context": context, **more}) + "\n")


def write_config(folder: Path, settings: dict[str, Any], **changes: Any) -> Path:
    """Write `settings`, with some replaced, as the configuration in `folder`."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**settings, **changes}, sort_keys=False), encoding="utf-8")
    return path


def ngram_settings() -> dict[str, Any]:
    """Everything in this process: no server."""
    policy = {"provider": "ngram", "max_tokens": 6}
    return {
        "work_dir": "run",
        "dataset": {"path": "prompts.jsonl", "id_field": "id"},
        "logging_policy": {"name": "base", **policy},
        "judge": {"provider": "offline", "bias": [0.2, 0.6], "noise": 0.05, "n_repeats": 2},
        "oracle_config": {
            "source": "callable", "function": "cje.judges:lexical_quality", "fraction": 0.4,
        },
        "target_policies": [
            {"name": "near", **policy, "temperature": 0.9},
            {"name": "far", **policy, "temperature": 0.6},
        ],
        "estimation": {"estimators": ["calibrated-ips"]},
        "chunk_rows": 25,
    }  # fmt: skip


def server_settings(base_url: str, timeout: float = 2.0) -> dict[str, Any]:
    """Every model behind the test server; `timeout` is long where no call may be given up."""
    server = {"provider": "openai-compatible", "base_url": base_url, "timeout": timeout}
    policy = {**server, "max_tokens": 8, "eos": "</s>", "scoring": "echo1"}
    return {
        "work_dir": "run",
        "dataset": {"path": "prompts.jsonl", "id_field": "id"},
        "logging_policy": {"name": "base", "model": "base", **policy},
        "judge": {**server, "model": "judge", "variance": "none", "template": "rubric_score"},
        "oracle_config": {
            "source": "model",
            "fraction": 0.2,
            "judge": {**server, "model": "oracle", "variance": "none", "template": "rubric_score"},
        },
        "target_policies": [
            {"name": "near", "model": "near", **policy},
            {"name": "moderate", "model": "moderate", **policy},
        ],
        "target_policy": {"replicates": 0},
        "estimation": {"estimators": ["calibrated-ips", "snips"]},
        "limits": {"default": {"max_concurrency": 16, "retry_seconds": 0.01}},
        "chunk_rows": 60,
    }


def results_of(work_dir: Path) -> dict[str, bytes]:
    """Every file that a run's result consists of, and its chunks, by name."""
    return {
        path.relative_to(work_dir).as_posix(): path.read_bytes()
        for pattern in ("result/*", "chunks/*/*.parquet", "manifest.json")
        for path in sorted(work_dir.glob(pattern))
    }
