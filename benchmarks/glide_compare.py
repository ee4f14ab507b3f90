"""The direct estimator beside glide's clustered, stratified and plain PPI on the same samples.

``python -m benchmarks.glide_compare [--quick]``

One policy, 250 prompts with two responses each, 50 prompts labelled (both responses: glide's
clusters are labelled as a whole); exact truth. glide (`.venvs/glide`) takes the judge score as its
proxy, ours calibrates it. Then one sample of 10^5 rows for the time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments import ROOT, python_of
from benchmarks.timing import main, row, show
from cje.data import Dataset
from cje.estimators import DirectEstimator
from cje.simulate import policies_on_shared_prompts

__all__ = ["run"]

SHAPES = ("monotone", "non_monotone")


def _sample(prompts: int, labels: int, seed: int, shape: str) -> tuple[Dataset, float]:
    sim = policies_on_shared_prompts(prompts, 1, labels, draws=2, seed=seed, shape=shape)
    chosen = np.random.default_rng(seed).permutation(prompts)[:labels]
    seen = np.isin(sim.dataset.prompt_id.codes, chosen)
    label = np.where(seen, sim.outcomes, np.nan)
    (truth,) = sim.truth.values()
    return sim.dataset.with_columns(oracle_label=label), truth


def _theirs(given: list[Dataset], big: Dataset) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        samples, answer = Path(folder) / "samples.npz", Path(folder) / "answer.npz"
        np.savez(
            samples,
            score=np.stack([data.judge_score for data in given]),
            label=np.stack([data.oracle_label for data in given]),
            cluster=given[0].prompt_id.codes,
            big_score=big.judge_score, big_label=big.oracle_label, big_cluster=big.prompt_id.codes,
        )  # fmt: skip
        worker = ROOT / "benchmarks" / "workers" / "glide_peer.py"
        subprocess.run([python_of("glide"), "-I", worker, samples, answer], check=True, cwd=folder)
        with np.load(answer) as stored:
            return {name: stored[name] for name in stored.files}


def _ours(data: Dataset) -> list[float]:
    result = DirectEstimator(data).fit_and_estimate()
    return [float(result.estimates[0]), *result.ci()[0]]


def _says(table: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    value, low, high = table.T
    return (
        float(((low <= truth) & (truth <= high)).mean()),
        float((high - low).mean()),
        float(np.sqrt(np.mean((value - truth) ** 2))),
    )


def _study(shape: str, repetitions: int, big_prompts: int) -> list[dict[str, Any]]:
    pairs = [_sample(250, 50, seed, shape) for seed in range(repetitions)]
    given, truth = [data for data, _ in pairs], np.array([value for _, value in pairs])
    big, _ = _sample(big_prompts, big_prompts // 10, 0, shape)
    peer = _theirs(given, big)
    mine = np.array([_ours(data) for data in given])
    cover, width, rmse = _says(mine, truth)
    noise = 3.0 * np.sqrt(0.05 * 0.95 / repetitions)
    others = {name: _says(peer[name], truth) for name in ("clustered", "stratified", "plain")}
    theirs = "; ".join(
        f"glide {n} {c:.3f}, width {w:.4f}, RMSE {e:.4f}" for n, (c, w, e) in others.items()
    )
    least = min(other[2] for other in others.values())
    rows = [
        row(f"direct, {shape} judge, two draws per prompt: |coverage - 0.95|", abs(cover - 0.95),
            0.015 + noise, f"ours {cover:.3f}, width {width:.4f}, RMSE {rmse:.4f}; {theirs}; "
            f"{repetitions} repetitions"),
        row(f"direct, {shape} judge: RMSE / best of glide's", rmse / least, 1.0),
        row(f"direct, {shape} judge: width / glide clustered's", width / others["clustered"][1],
            1.0),
    ]  # fmt: skip
    seconds = []
    for _ in range(5):
        start = time.process_time()
        _ours(big)
        seconds.append(time.process_time() - start)
    spent, their = float(np.median(seconds)), float(peer["seconds"])
    note = (
        f"{1e3 * spent:.0f} ms against {1e3 * their:.0f} ms of processor, {len(big):,} rows; "
        "glide wins: it takes the proxy as it is, ours fits and cross-fits a calibration"
    )
    rows.append(row(f"direct, {shape} judge: time / glide clustered PPI", spent / their, 1.0, note))
    return rows


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Coverage, width, RMSE and time."""
    if not python_of("glide").exists():
        note = "glide's environment could not be made: see the table of peers"
        return [{"bar": "glide", "value": float("nan"), "limit": 1.0, "ok": False, "note": note}]
    rows = []
    for shape in SHAPES:
        rows += _study(shape, 100 if quick else 1000, 20_000 if quick else 50_000)
    show(rows)
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
