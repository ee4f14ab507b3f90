"""SNIPS and DR beside obp on a problem with few actions, which both can express.

``python -m benchmarks.obp_compare [--quick]``

Contexts x, four actions, a logging and a target softmax policy whose probabilities are multiples of
1/20. A response is an action, its judge score is the reward model's prediction q(x, a), its label
the reward, and every row is labelled. Twenty fresh draws per prompt, in the target's proportions,
make the mean over fresh draws the exact sum over actions that obp takes. The truth is exact.

obp (`.venvs/obp`) bootstraps 200 times; ours is the influence function. Point values coincide for
SNIPS. The DR formulas do not: our `tr-cpo` calibrates the reward model on the labels, fold by fold,
before it is used, obp's self-normalised DR takes it as it is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments import ROOT, python_of
from benchmarks.timing import main, row, show
from cje.data import Dataset, PrecomputedSampler
from cje.estimators import SNIPSEstimator
from cje.estimators.offpolicy.triply_robust import TRCPOEstimator

__all__ = ["run"]

ACTIONS, GRID = 4, 20


@dataclass(frozen=True)
class Problem:
    """Arrays (repetition, row[, action]) and the target's exact value."""

    reward: np.ndarray
    action: np.ndarray
    pscore: np.ndarray
    action_dist: np.ndarray
    model: np.ndarray
    truth: float


def _on_grid(logits: np.ndarray) -> np.ndarray:
    """Probabilities in whole twentieths, at least one each."""
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    counts = 1 + np.floor(p * (GRID - ACTIONS)).astype(int)
    best = np.argmax(p, axis=-1)[..., None]
    short = GRID - counts.sum(axis=-1, keepdims=True)
    np.put_along_axis(counts, best, np.take_along_axis(counts, best, -1) + short, -1)
    return counts / GRID


def draw(repetitions: int, rows: int, seed: int = 3) -> Problem:
    """Contexts are one of 50 kinds, drawn anew; the truth averages over the kinds."""
    rng = np.random.default_rng(seed)
    kinds = 50
    feature = rng.normal(size=(kinds, ACTIONS))
    mean = 1.0 / (1.0 + np.exp(-feature))
    target = _on_grid(1.0 * feature)
    logging_policy = _on_grid(-0.3 * feature + 0.5 * rng.normal(size=feature.shape))
    model = np.clip(0.15 + 0.6 * mean + 0.05 * rng.normal(size=mean.shape), 0.01, 0.99)
    kind = rng.integers(0, kinds, (repetitions, rows))
    edges = logging_policy.cumsum(axis=1)[kind]
    action = (rng.random((repetitions, rows, 1)) > edges[..., :-1]).sum(axis=2)
    chosen = np.take_along_axis(mean[kind], action[..., None], 2)[..., 0]
    reward = (rng.random(chosen.shape) < chosen).astype(float)
    pscore = np.take_along_axis(logging_policy[kind], action[..., None], 2)[..., 0]
    truth = float((target * mean).sum(axis=1).mean())
    return Problem(reward, action, pscore, target[kind], model[kind], truth)


class _Given:
    """The reward model is given: the score itself."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Given:
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X[:, 0]


def _data(problem: Problem, r: int) -> tuple[PrecomputedSampler, Dataset]:
    n = problem.reward.shape[1]
    ids = [f"x{i}" for i in range(n)]
    action, dist = problem.action[r], problem.action_dist[r]
    rows = np.arange(n)
    logged = Dataset.from_arrays(
        prompt_id=ids,
        policy="logging",
        judge_score=problem.model[r][rows, action],
        oracle_label=problem.reward[r],
        base_policy_logprob=np.log(problem.pscore[r]),
        target_policy_logprobs={"target": np.log(dist[rows, action])},
    )
    counts = np.rint(dist * GRID).astype(int)
    drawn = np.repeat(np.tile(np.arange(ACTIONS), n), counts.ravel()).reshape(n, GRID)
    fresh = Dataset.from_arrays(
        prompt_id=[name for name in ids for _ in range(GRID)],
        policy="target",
        draw_idx=np.tile(np.arange(GRID), n),
        judge_score=np.take_along_axis(problem.model[r], drawn, 1).ravel(),
    )
    return PrecomputedSampler(logged), fresh


def ours(problem: Problem) -> dict[str, Any]:
    """(repetition, 3) of each method, and processor seconds."""
    found: dict[str, list[list[float]]] = {"snips": [], "tr-cpo": []}
    seconds = dict.fromkeys(found, 0.0)
    for r in range(len(problem.reward)):
        sampler, fresh = _data(problem, r)
        made = {
            "snips": SNIPSEstimator(sampler),
            "tr-cpo": TRCPOEstimator(sampler, fresh, outcome_model=_Given),
        }
        for name, estimator in made.items():
            start = time.process_time()
            result = estimator.fit_and_estimate()
            limits = result.ci()[0]
            seconds[name] += time.process_time() - start
            found[name].append([float(result.estimates[0]), *limits])
    return {name: np.array(table) for name, table in found.items()} | {
        f"{name}_seconds": value for name, value in seconds.items()
    }


def theirs(problem: Problem) -> dict[str, Any]:
    """The same from obp's environment."""
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "problem.npz", Path(folder) / "answer.npz"
        np.savez(given, reward=problem.reward, action=problem.action, pscore=problem.pscore,
                 action_dist=problem.action_dist, model=problem.model)  # fmt: skip
        worker = ROOT / "benchmarks" / "workers" / "obp_peer.py"
        subprocess.run([python_of("obp"), "-I", worker, given, answer], check=True, cwd=folder)
        with np.load(answer) as stored:
            return {name: stored[name] for name in stored.files}


def _says(table: np.ndarray, truth: float) -> tuple[float, float, float]:
    """Coverage, mean width, RMSE."""
    value, low, high = table.T
    return (
        float(((low <= truth) & (truth <= high)).mean()),
        float((high - low).mean()),
        float(np.sqrt(np.mean((value - truth) ** 2))),
    )


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Equality of values, coverage and width, time."""
    repetitions, n = (40, 500) if quick else (400, 1000)
    if not python_of("obp").exists():
        note = "obp's environment could not be made: see the table of peers"
        return [{"bar": "obp", "value": float("nan"), "limit": 1.0, "ok": False, "note": note}]
    problem = draw(repetitions, n)
    mine, peer = ours(problem), theirs(problem)
    rows = []
    noise = 3.0 * np.sqrt(0.05 * 0.95 / repetitions)
    for name, their_name in (("snips", "snips"), ("tr-cpo", "sndr")):
        gap = np.abs(mine[name][:, 0] - peer[their_name][:, 0])
        cover, width, rmse = _says(mine[name], problem.truth)
        other = _says(peer[their_name], problem.truth)
        if name == "snips":
            rows.append(row("snips: largest difference of values from obp's", gap.max(), 1e-10))
        else:
            note = "formulas differ: reported"
            rows.append(row("tr-cpo: mean difference from obp's self-normalised DR, in widths",
                            gap.mean() / width, 1.0, note))  # fmt: skip
        rows.append(
            row(f"{name}: |coverage - 0.95|", abs(cover - 0.95), 0.015 + noise,
                f"ours {cover:.3f}, width {width:.4f}, RMSE {rmse:.4f}; obp {other[0]:.3f}, "
                f"width {other[1]:.4f}, RMSE {other[2]:.4f}; {repetitions} repetitions of {n} rows")
        )  # fmt: skip
        rows.append(row(f"{name}: mean width / obp's", width / other[1], 1.05))
        spent, their = mine[f"{name}_seconds"], float(peer[f"{their_name}_seconds"])
        each, other_each = 1e3 * spent / repetitions, 1e3 * their / repetitions
        note = f"{each:.1f} ms against {other_each:.1f} ms; ours includes gates and findings"
        rows.append(row(f"{name}: processor time / obp's with 200 draws", spent / their, 1.0, note))
    other = _says(peer["dr"], problem.truth)
    rows.append(
        row(
            "obp's plain DR: |coverage - 0.95|, for comparison",
            abs(other[0] - 0.95),
            1.0,
            f"coverage {other[0]:.3f}, width {other[1]:.4f}, RMSE {other[2]:.4f}",
        )
    )
    show(rows)
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
