"""Bars of calibration: speed against sorts and cje-eval 0.3.0, and the two Monte Carlo studies.

``python -m benchmarks.calibration [--quick]``

The peer runs in an environment of its own, made with
``python3 -m venv .venvs/cje030 && .venvs/cje030/bin/pip install cje-eval==0.3.0``;
without it its bars are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.timing import interleaved, main, middle, ratio, row, show
from cje.calibration import JudgeCalibrator, SimcalConfig, SIMCalibrator
from cje.calibration.rewards.reward_model import FloatArray
from studies.calibration import (
    JUDGES,
    OBJECTIVES,
    WEIGHT_SHAPES,
    arena_table,
    mode_selection_study,
    weight_study,
)

_ROOT = Path(__file__).resolve().parents[1]
PEER = _ROOT / ".venvs" / "cje030" / "bin" / "python"
WORKER = _ROOT / "benchmarks" / "workers" / "calibration_peer.py"
_AS_PEER = SimcalConfig(include_baseline=False)  # the peer's default candidates


def sort_bars(n: int, repeats: int) -> list[dict[str, Any]]:
    """JudgeCalibrator and SIMCal on continuous scores, in units of one argsort of them."""
    rng = np.random.default_rng(7)
    score = rng.random(n)
    mask = np.zeros(n, dtype=bool)
    mask[rng.permutation(n)[: n // 10]] = True
    noise = 0.15 * rng.standard_normal(n)
    rising = np.clip(score + noise, 0, 1)
    arch = np.clip(4 * score * (1 - score) + noise, 0, 1)
    weight = np.exp(np.linspace(-1.5, 1.5, 4) * score[:, None] + rng.standard_normal((n, 4)))
    seconds = interleaved(
        {
            "sort": lambda: np.argsort(score),
            "monotone": lambda: JudgeCalibrator().fit_cv(score, rising, mask, n_folds=5),
            "two_stage": lambda: JudgeCalibrator().fit_cv(score, arch, mask, n_folds=5),
            "simcal": lambda: SIMCalibrator().transform(weight, score, rewards=rising),
        },
        repeats,
    )
    label = f"{n:.0e} rows"
    return [
        row(f"JudgeCalibrator auto, 5 folds, {label}, monotone judge, in sorts",
            ratio(seconds, "monotone", "sort"), 8.0, f"sort {median(seconds['sort']):.3f} s"),
        row(f"JudgeCalibrator auto, 5 folds, {label}, arched judge, in sorts",
            ratio(seconds, "two_stage", "sort"), 8.0),
        row(f"SIMCal default, {label} x 4 policies, in sorts",
            ratio(seconds, "simcal", "sort"), 20.0),
    ]  # fmt: skip


class Peer:
    """cje-eval 0.3.0 in its own process: tasks in, seconds out, results at the end."""

    def __init__(self, arrays: Mapping[str, FloatArray], folder: Path) -> None:
        np.savez(folder / "arrays.npz", **arrays)  # type: ignore[arg-type]
        self.out = folder / "out.npz"
        self.process = subprocess.Popen(
            [str(PEER), "-I", str(WORKER), str(folder / "arrays.npz"), str(self.out)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def seconds(self, task: str, kind: str) -> float:
        """Let the peer do one task; how long it took there."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{task} {kind}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def results(self) -> dict[str, FloatArray]:
        """Close the peer and read what it computed last."""
        self.process.communicate()
        with np.load(self.out) as stored:
            return {name: stored[name] for name in stored.files}


def peer_bars(n: int, repeats: int) -> list[dict[str, Any]]:
    """Time ratios to the peer on the same arrays, round by round, and equality of values."""
    if not PEER.exists():
        return []
    arrays = _peer_arrays(n)
    ours = _our_tasks(arrays)
    quotients: dict[str, list[float]] = {name: [] for name in ours}
    values: dict[str, FloatArray] = {}
    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(arrays, Path(folder))
        for turn in range(repeats + 1):  # the first round warms both sides up
            for name, call in ours.items():
                theirs = peer.seconds(*name.split("_"))
                start = time.process_time()
                values[name] = call()
                elapsed = time.process_time() - start
                if turn > 0:
                    quotients[name].append(elapsed / theirs)
        reference = peer.results()
    limits = {"rewards": 20.0, "simcal": 3.0}
    rows = []
    for name, q in quotients.items():
        task, kind = name.split("_")
        if task in ("monotone", "stacked"):
            continue
        bar = 20.0 if kind == "discrete" else limits[task]
        times = f"{1 / median(q):.1f} x faster (bar {bar:g} x)"
        rows.append(row(f"{task}, {kind}, time over cje-eval 0.3.0's", middle(q), 1 / bar, times))
    return rows + _equalities(values, reference)


def _equalities(
    values: Mapping[str, FloatArray], reference: Mapping[str, FloatArray]
) -> list[dict[str, Any]]:
    rows = []
    for kind in ("continuous", "discrete"):
        gap = np.abs(values[f"monotone_{kind}"] - reference[f"monotone_{kind}"]).max()
        rows.append(row(f"monotone rewards, {kind}, largest difference", float(gap), 1e-6))
    # The peer stacks for least variance and compares candidates in sample; ours refits them out of
    # fold. The results coincide where both choose one candidate alone, as on discrete scores.
    gap = np.abs(values["stacked_discrete"] - reference["stacked_discrete"]).max()
    note = "objective='variance', the peer's rule"
    return [*rows, row("SIMCal weights, discrete, largest difference", float(gap), 1e-6, note)]


def _peer_arrays(n: int) -> dict[str, FloatArray]:
    rng = np.random.default_rng(11)
    arrays: dict[str, Any] = {}
    for kind in ("continuous", "discrete"):
        score = rng.random(n)
        if kind == "discrete":
            score = np.rint(score * 99) / 99
        arrays[f"score_{kind}"] = score
        arrays[f"label_{kind}"] = np.clip(score + 0.15 * rng.standard_normal(n), 0, 1)
        arrays[f"mask_{kind}"] = rng.random(n) < 0.1
        arrays[f"weight_{kind}"] = np.exp(1.5 * score + rng.standard_normal(n))
    return arrays


def _our_tasks(arrays: Mapping[str, Any]) -> dict[str, Callable[[], FloatArray]]:
    tasks: dict[str, Callable[[], FloatArray]] = {}
    for kind in ("continuous", "discrete"):
        score, label, mask, weight = (
            arrays[f"{name}_{kind}"] for name in ("score", "label", "mask", "weight")
        )

        def rewards(s: Any = score, y: Any = label, m: Any = mask) -> FloatArray:
            return JudgeCalibrator().fit_cv(s, y[m], m, n_folds=5).calibrated_scores

        def monotone(s: Any = score, y: Any = label, m: Any = mask) -> FloatArray:
            return JudgeCalibrator("monotone").fit_transform(s, y[m], m).calibrated_scores

        def simcal(s: Any = score, w: Any = weight) -> FloatArray:
            return SIMCalibrator(_AS_PEER).transform(w, s)[0]

        def stacked(s: Any = score, w: Any = weight) -> FloatArray:
            config = SimcalConfig(include_baseline=False, objective="variance")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that this objective is unsafe: known here
                return SIMCalibrator(config).transform(w, s, fold_ids=np.arange(len(s)) % 5)[0]

        tasks |= {
            f"stacked_{kind}": stacked,
            f"rewards_{kind}": rewards,
            f"simcal_{kind}": simcal,
            f"monotone_{kind}": monotone,
        }
    return tasks


def study_bars(draws: int) -> list[dict[str, Any]]:
    """Mode selection and SIMCal coverage against known truth."""
    rows = []
    for judge in JUDGES:
        study = mode_selection_study(judge, draws)
        note = (
            f"{study.share_two_stage:.1%} two-stage, {study.share_skipped:.0%} decided without it"
        )
        if judge == "monotone":
            rows.append(row("monotone judge: share two-stage", study.share_two_stage, 0.10, note))
        if judge == "non_monotone":
            share = 1 - study.share_two_stage
            rows.append(row("non-monotone judge: share monotone", share, 0.05, note))
        worst = f"worst single draw {study.worst_ratio:.4f}; {note}"
        rows.append(
            row(
                f"{judge} judge: out-of-fold RMSE over the better mode's",
                study.rmse_ratio,
                1.02,
                worst,
            )
        )
    for shape in WEIGHT_SHAPES:
        for objective in OBJECTIVES:
            rows.append(_coverage_row(shape, objective, draws))
    return rows


def _coverage_row(shape: str, objective: str, draws: int) -> dict[str, Any]:
    """Default: misses of the 95% interval. Published rule: that it misses is the statement."""
    study = weight_study(shape, objective, draws)
    note = (
        f"bias {study.bias:+.4f}, sd {study.sd:.4f}, coverage {study.coverage:.3f} "
        f"(weights taken as given {study.naive_coverage:.3f}), "
        f"ESS {study.ess_before:.0%} -> {study.ess_after:.0%}"
    )
    if objective == "projection":
        return row(
            f"SIMCal default, {shape}: misses of 95% intervals", 1 - study.coverage, 0.08, note
        )
    return row(f"SIMCal variance, {shape}: coverage (unsafe)", study.coverage, 0.5, note)


def run(quick: bool) -> list[dict[str, Any]]:
    """All rows; `quick` uses smaller arrays and fewer draws."""
    n, repeats, draws = (200_000, 3, 40) if quick else (1_000_000, 5, 200)
    rows = sort_bars(n, repeats)
    rows += peer_bars(100_000, 3 if quick else 7)
    rows += study_bars(draws)
    show(rows)
    for line in arena_table():
        print(
            "  ".join(f"{k}={v:.3f}" if isinstance(v, float) else str(v) for k, v in line.items())
        )
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
