"""The demo: a whole run, offline, compared with a known truth.

Tiny language models are trained in place. One writes the log, three others are evaluated from it,
a biased and noisy judge scores, and an oracle labels a fifth of the rows. Because the models are
small, each policy's true value is found by brute force: every policy answers every question many
thousand times and the oracle scores all answers. The run itself does not use these values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from cje.checks import check_seed
from cje.data import read
from cje.estimators import EstimationResult, find_estimator
from cje.judges import lexical_quality
from cje.pipeline.config import PipelineConfig, load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.disk import write_atomically
from cje.pipeline.progress import Reporter
from cje.pipeline.stages.estimation import PipelineResult
from cje.policies import NgramPolicy, PolicyConfig, make_runner
from cje.policies.ngram_model import embedded_corpus

__all__ = [
    "RUN_REPORT",
    "DemoRow",
    "demo_settings",
    "direct_settings",
    "run_demo",
    "true_values",
    "write_demo",
]

N_PROMPTS = 1500
RUN_REPORT = "run_report.html"
TRUTH_DRAWS = 4000
_POLICY = {"provider": "ngram", "max_tokens": 12}
# First words of helpful and unhelpful answers: boosting them moves a policy's value.
_NEAR = {"Open": 0.4, "Use": 0.4, "Click": 0.4, "That": -0.4, "No": -0.4}
_MODERATE = {"Open": 1.0, "Use": 1.0, "Click": 1.0, "Choose": 1.0, "We": 0.7,
             "That": -1.5, "No": -1.5, "Sorry": -1.5, "Ask": -1.5}  # fmt: skip


@dataclass(frozen=True)
class DemoRow:
    """One policy: estimate, truth and the reason of a refusal.

    `logging` marks the policy that wrote the log; its value comes from its own labelled responses.
    """

    policy: str
    estimate: float
    low: float
    high: float
    truth: float
    refused: str | None
    logging: bool = False

    @property
    def covered(self) -> bool:
        """Whether the interval contains the truth."""
        return self.low <= self.truth <= self.high


def demo_settings(seed: int = 0) -> dict[str, Any]:
    """The demo's configuration as plain data, which `write_demo` writes to ``config.yaml``."""
    return {
        "work_dir": "run",
        "seed": seed,
        "dataset": {"path": "prompts.jsonl", "context_field": "context", "id_field": "id"},
        "logging_policy": {"name": "base", **_POLICY},
        "judge": {
            "provider": "offline", "bias": [0.25, 0.5], "noise": 0.05,
            "variance": "samples", "n_repeats": 3,
        },
        "oracle_config": {
            "source": "callable", "function": "cje.judges:lexical_quality", "fraction": 0.2,
        },
        "target_policies": [
            {"name": "near", **_POLICY, "boost": _NEAR},
            {"name": "moderate", **_POLICY, "boost": _MODERATE},
            {"name": "bad", **_POLICY, "order": 1},
        ],
        "estimation": {"estimators": ["calibrated-ips", "snips"]},
        "chunk_rows": 500,
    }  # fmt: skip


def direct_settings(seed: int = 0) -> dict[str, Any]:
    """The demo's configuration without log-probs: every policy writes its own responses."""
    settings = demo_settings(seed)
    settings["target_policies"] = settings["target_policies"][:2]
    settings["estimation"] = {"estimators": ["direct"]}
    return settings


def write_demo(
    folder: Path, seed: int = 0, n_prompts: int = N_PROMPTS, *, direct: bool = False
) -> Path:
    """Write the demo's prompts and configuration, and return the path of the configuration.

    Prompts are drawn at random, with replacement, from the questions of the embedded corpus.
    """
    questions = sorted({line.split("\t")[0] for line in embedded_corpus()})
    drawn = check_seed(seed).integers(len(questions), size=n_prompts)
    lines = [
        json.dumps({"id": f"{seed}-{i:05d}", "context": questions[q]}) for i, q in enumerate(drawn)
    ]
    write_atomically(folder / "prompts.jsonl", ("\n".join(lines) + "\n").encode())
    text = yaml.safe_dump((direct_settings if direct else demo_settings)(seed), sort_keys=False)
    write_atomically(folder / "config.yaml", text.encode())
    return folder / "config.yaml"


def true_values(
    policies: Sequence[PolicyConfig], draws: int = TRUTH_DRAWS, seed: int = 12345
) -> dict[str, float]:
    """E[oracle] of each policy over the population of questions, by brute force.

    Each policy answers every question `draws` times; the standard error is below 0.001.
    """
    questions = sorted({line.split("\t")[0] for line in embedded_corpus()})
    values = {}
    for policy in policies:
        runner = make_runner(policy)
        if isinstance(runner, NgramPolicy):
            values[policy.name] = runner.monte_carlo_value(
                questions, lexical_quality, draws=draws, seed=seed
            )[0]
    return values


def run_demo(
    folder: Path, reporter: Reporter | None = None, *, direct: bool = False
) -> tuple[PipelineResult, list[DemoRow]]:
    """Run the demo in `folder` and compare its estimates with the truth.

    With `direct` the policies write responses (1,000 prompts); otherwise the log gives the values.
    """
    config = load_config(write_demo(folder, n_prompts=1000 if direct else N_PROMPTS, direct=direct))
    result = CJEPipeline(config, reporter=reporter).run()
    truth = true_values(config.policies)
    rows = compare(result, truth)
    if not direct:
        rows.insert(0, logging_row(config, truth))
    data = [{**row.__dict__, "covered": row.covered} for row in rows]
    write_atomically(folder / "comparison.json", (json.dumps(data, indent=1) + "\n").encode())
    write_atomically(folder / RUN_REPORT, result.report(truth).encode())
    return result, rows


def logging_row(config: PipelineConfig, truth: dict[str, float]) -> DemoRow:
    """The logging policy's value: the calibrated mean of its logged responses, without weights."""
    assert config.logging_policy is not None
    name = config.logging_policy.name
    chunks = config.work_dir / "chunks" / "target_policy" / "*.parquet"
    logged = read(pl.read_parquet(chunks).sort("row_id"), policy=name)
    result: EstimationResult = find_estimator("direct").build(logged).fit_and_estimate()
    low, high = result.ci()[name]
    return DemoRow(
        name, float(result.estimates[0]), low, high, truth[name], result.refused().get(name), True
    )


def compare(result: PipelineResult, truth: dict[str, float]) -> list[DemoRow]:
    """Estimate, interval, truth and refusal of each policy, for the first estimator."""
    first = result.first
    refused = first.refused()
    return [
        DemoRow(name, float(value), low, high, truth[name], refused.get(name))
        for name, value, (low, high) in zip(
            first.policies, first.estimates, first.ci(), strict=True
        )
    ]
