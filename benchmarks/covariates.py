"""What automatic covariates save where they explain the judge's errors, and cost elsewhere.

    python -m benchmarks.covariates [--quick]

Simulated responses (`studies.covariates`), whose texts a model of random word vectors embeds, and
the Arena sample, whose responses have a length only.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import POLICIES, arena_folder, replay
from benchmarks.timing import main, row, show
from cje.data import Codes, Dataset
from cje.estimators import DirectEstimator
from studies.covariates import hedged, saving, tiny_text_model

__all__ = ["run"]


def run(quick: bool = False) -> list[dict[str, Any]]:
    """RMSE with automatic covariates over that without, on the same data sets."""
    n = 60 if quick else 400
    rows = _text(n)
    for effect, limit in ((0.0, 1.01), (0.1, 1.0), (0.3, 0.95)):
        found = saving(effect, n, first_seed=10_000)
        note = f"used in {found.used:.0%}, coverage {found.coverage:.3f}, standard error x "
        note += f"{found.errors:.3f}, {n} repetitions"
        rows.append(row(f"judge likes length and lists by {effect}: RMSE, auto / none",
                        found.ratio, limit, note))  # fmt: skip
    rows += _arena(n)
    show(rows)
    return rows


def _text(n: int) -> list[dict[str, Any]]:
    """Text that shifts the labels at a given score, through a model of random word vectors."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_text_model(Path(folder))
        for effect, labels, limit in ((0.0, 50, 1.01), (0.0, 200, 1.01), (0.3, 50, 1.0),
                                      (1.0, 50, 0.9), (1.0, 200, 0.95)):  # fmt: skip
            found = saving(
                effect, n, first_seed=10_000, draw=hedged, labels=labels, text_model=model
            )
            note = f"used in {found.used:.0%}, coverage {found.coverage:.3f}, standard error x "
            note += f"{found.errors:.3f}, {n} repetitions"
            rows.append(row(f"text shifts labels by {effect}, {labels} labels per policy: RMSE, "
                            "embeddings / none", found.ratio, limit, note))  # fmt: skip
    return rows


def _arena(n: int) -> list[dict[str, Any]]:
    folder = arena_folder()
    if folder is None:
        return []
    samples = replay(folder, repetitions=n)
    policies, size = samples.score.shape[1:]
    prompt = Codes(np.arange(policies * size), [f"q{i}" for i in range(policies * size)])
    policy = Codes(np.repeat(np.arange(policies), size), POLICIES)
    hidden = np.arange(size) >= samples.labelled
    errors, used = [], 0
    for r in range(n):
        data = Dataset.from_arrays(
            prompt_id=prompt, policy=policy, judge_score=samples.score[r].ravel(),
            oracle_label=np.where(hidden, np.nan, samples.label[r]).ravel(),
            covariates={"response_chars": np.expm1(samples.length[r]).ravel()},
        )  # fmt: skip
        plain = DirectEstimator(data, seed=r).fit_and_estimate()
        auto = DirectEstimator(data, seed=r, covariates="auto").fit_and_estimate()
        used += auto.diagnostics["covariates"][0]["used"]
        errors.append([plain.estimates - samples.truth, auto.estimates - samples.truth])
    plain_rmse, auto_rmse = np.sqrt((np.array(errors) ** 2).mean(axis=0)).mean(axis=1)
    note = f"length only, used in {used / n:.0%}; RMSE {plain_rmse:.4f} without, {n} repetitions"
    return [row("Arena sample: RMSE, auto / none", auto_rmse / plain_rmse, 1.0, note)]


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
