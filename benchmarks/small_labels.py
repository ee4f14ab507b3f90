"""Fifty labels per policy on real judge data: ours against cje-eval 0.9.3 and PPI++.

    python -m benchmarks.small_labels [--quick]

Replays the Arena sample (`benchmarks.arena`): 4 policies, 500 responses, 50 labels each, 800 times.
The peers run in `.venvs/cje093` (cje-eval 0.9.3 and ppi-python 0.2.3), on the same samples.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import POLICIES, Replay, arena_folder, replay, source_rows
from benchmarks.timing import main, row, show
from cje.data import Codes, Dataset
from cje.estimators import DirectEstimator
from cje.kernels.isotonic import isotonic_fitted

__all__ = ["Answers", "ours", "run"]

ROOT = Path(__file__).resolve().parents[1]
PEER_PYTHON = ROOT / ".venvs" / "cje093" / "bin" / "python"
COVERAGE = 0.935


@dataclass(frozen=True)
class Answers:
    """Estimates and limits of one method, (repetition, policy)."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def rmse(self, truth: np.ndarray) -> np.ndarray:
        """Root mean squared error of each policy."""
        return np.sqrt(((self.estimate - truth) ** 2).mean(axis=0))

    def coverage(self, truth: np.ndarray) -> np.ndarray:
        """Share of intervals that hold the truth, each policy."""
        return ((self.low <= truth) & (truth <= self.high)).mean(axis=0)

    def width(self) -> float:
        """Mean width over policies and repetitions."""
        return float(np.nanmean(self.high - self.low))

    def refused(self) -> float:
        """Share of values without an interval."""
        return float(np.isnan(self.low).mean())


def ours(samples: Replay, *, use_length: bool = False) -> Answers:
    """The direct estimator, defaults; every response has a prompt of its own."""
    repetitions, policies, rows = samples.score.shape
    prompt = Codes(np.arange(policies * rows), [f"q{i}" for i in range(policies * rows)])
    policy = Codes(np.repeat(np.arange(policies), rows), POLICIES)
    hidden = np.arange(rows) >= samples.labelled
    found = []
    for r in range(repetitions):
        data = Dataset.from_arrays(
            prompt_id=prompt,
            policy=policy,
            judge_score=samples.score[r].ravel(),
            oracle_label=np.where(hidden, np.nan, samples.label[r]).ravel(),
            covariates={"length": samples.length[r].ravel()},
        )
        chosen = ("length",) if use_length else ()
        result = DirectEstimator(data, covariates=chosen, seed=r).fit_and_estimate()
        found.append(np.column_stack([result.estimates, np.array(result.ci())]))
    return Answers(*np.moveaxis(np.stack(found), 2, 0))


def peer(name: str, samples: Replay) -> Answers | None:
    """A peer's answers on the same samples; None where its environment is absent."""
    if not PEER_PYTHON.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "samples.npz", Path(folder) / "answers.npz"
        samples.save(given)
        worker = ROOT / "benchmarks" / "workers" / "replay_peer.py"
        subprocess.run([PEER_PYTHON, "-I", worker, name, given, answer], check=True, cwd=folder)
        found = np.load(answer)
        return Answers(found["estimate"], found["low"], found["high"])


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Coverage, width and RMSE; the bars are the issue's."""
    folder = arena_folder()
    if folder is None:
        print("skipped: no Arena sample beside the repository")
        return []
    samples = replay(folder, repetitions=60 if quick else 800)
    answers = {"direct": ours(samples), "direct + length": ours(samples, use_length=True)}
    for name in ("cje-eval", "ppi"):
        found = peer(name, samples)
        if found is not None:
            answers[name] = found
    rows = [_coverage_row(name, found, samples, quick) for name, found in answers.items()]
    ceiling = _efficiency(folder, samples)
    for name in ("direct", "direct + length"):
        mine = answers[name]
        error = mine.rmse(samples.truth)
        if "cje-eval" in answers:
            limit = answers["cje-eval"].width()
            rows.append(row(f"{name}: mean width / cje-eval's", mine.width() / limit, 1.0))
        peers = [answers[p].rmse(samples.truth).mean() for p in ("cje-eval", "ppi") if p in answers]
        if peers:
            rows.append(row(f"{name}: mean RMSE / better peer's", error.mean() / min(peers), 1.0))
        note = "reported, not a bar of the issue; R2 of the score alone"
        rows.append(row(f"{name}: mean RMSE / efficiency bound", float((error / ceiling).mean()),
                        1.1, note))  # fmt: skip
    show(rows)
    return rows


def _coverage_row(name: str, found: Answers, samples: Replay, quick: bool) -> dict[str, Any]:
    cover, error = found.coverage(samples.truth), found.rmse(samples.truth)
    noise = 3 * np.sqrt(0.05 * 0.95 / len(found.low)) if quick else 0.0
    ours_bar = name.startswith("direct")
    return {
        "bar": f"{name}: worst policy's coverage",
        "value": float(cover.min()),
        "limit": COVERAGE,
        "ok": bool(cover.min() >= COVERAGE - noise) or not ours_bar,
        "note": f"coverage {_list(cover)}, mean width {found.width():.4f}, RMSE {_list(error)}, "
        f"refused {found.refused():.4f} (counted as not covered)"
        + ("" if ours_bar else " (peer, for comparison)"),
    }


def _efficiency(folder: Path, samples: Replay) -> np.ndarray:
    """sqrt(sigma^2 (1 - R^2) / labels + sigma^2 R^2 / rows) of each policy's source rows."""
    bounds = []
    for part in source_rows(folder).values():
        variance = part[:, 1].var()
        left = (part[:, 1] - isotonic_fitted(part[:, 0], part[:, 1])).var()
        explained = variance - left
        bounds.append(left / samples.labelled + explained / samples.score.shape[2])
    return np.sqrt(bounds)


def _list(values: np.ndarray) -> str:
    return " ".join(f"{value:.4f}" for value in values)


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
