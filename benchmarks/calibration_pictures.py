"""The pictures of docs/methods/calibration.md: ``python -m benchmarks.calibration_pictures``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from cje import simulate
from cje.calibration import SimcalConfig, SIMCalibrator, fit_reward_model
from studies.calibration import (
    OBJECTIVES,
    WEIGHT_SHAPES,
    importance_weights,
    weight_study,
)

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "methods" / "img"
INK, RIGHT, WRONG, PALE = "#222222", "#0072B2", "#D55E00", "#BBBBBB"


def calibrated_judge() -> None:
    """A rising and an arched judge: labels, truth, and both modes."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    grid = np.linspace(0, 1, 400)
    for ax, name in zip(axes, ("monotone", "non_monotone"), strict=True):
        data = getattr(simulate, f"{name}_judge")(1000, 200, seed=4).dataset
        rows = data.is_labelled
        score, label = data.judge_score[rows], data.oracle_label[rows]
        ax.plot(score, label, ".", color=PALE, label="200 labels")
        ax.plot(grid, simulate.true_curve(name)(grid), "--", color=INK, lw=1, label="true E[Y|S]")  # type: ignore[arg-type]
        for mode, color in (("monotone", WRONG), ("two_stage", RIGHT)):
            fit = fit_reward_model(score, label, mode=mode)
            ax.plot(grid, fit.predict(grid), color=color, lw=1.8, label=mode.replace("_", "-"))
        ax.set(xlabel="judge score", title=f"{name.replace('_', '-')} judge")
    axes[0].set_ylabel("oracle label, reward")
    axes[1].legend(frameon=False, fontsize=8, loc="lower center")
    _save(figure, "calibrated_judge.png")


def weights_before_and_after() -> None:
    """Raw weights, E[W|S] by fine bins, and both objectives, for three shapes."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True)
    for ax, shape in zip(axes, WEIGHT_SHAPES, strict=True):
        data = _logged(shape, 4000, seed=1)
        raw, score = importance_weights(data)[:, 0], data.judge_score
        raw = raw / raw.mean()
        ax.semilogy(score, raw, ".", color=PALE, ms=2, label="raw")
        ax.semilogy(*_binned_truth(shape), "--", color=INK, lw=1.2, label="true E[W|S]")
        order = np.argsort(score)
        for objective, color in zip(OBJECTIVES, (RIGHT, WRONG), strict=True):
            config = SimcalConfig(objective=objective, include_baseline=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out, _ = SIMCalibrator(config).transform(raw, score, rewards=score)
            label = f'objective="{objective}"'
            ax.semilogy(score[order], out[order], color=color, lw=1.8, label=label)
        ax.set(xlabel="judge score", title=f"E[W|S] {shape.replace('_', '-')}", ylim=(0.02, 60))
    axes[0].set_ylabel("weight (mean one)")
    axes[1].legend(frameon=False, fontsize=8, loc="lower left")
    _save(figure, "weights_before_after.png")


def error_of_both_objectives(draws: int = 100) -> None:
    """Bias with two standard deviations of the estimate, and coverage, for both objectives."""
    figure, ax = plt.subplots(figsize=(7.5, 3.2))
    for i, shape in enumerate(WEIGHT_SHAPES):
        for j, (objective, color) in enumerate(zip(OBJECTIVES, (RIGHT, WRONG), strict=True)):
            study = weight_study(shape, objective, draws)
            y = -(i + 0.3 * j)
            ax.errorbar(study.bias, y, xerr=2 * study.sd, fmt="o", color=color, capsize=3,
                        label=f'objective="{objective}"' if i == 0 else None)  # fmt: skip
            ax.text(0.17, y, f"coverage {study.coverage:.0%}", va="center", color=color, fontsize=9)
    ax.axvline(0, color=INK, lw=0.8)
    ax.set_yticks([-0.15, -1.15, -2.15], [s.replace("_", "-") for s in WEIGHT_SHAPES])
    ax.set(xlim=(-0.16, 0.24), xlabel="error of the estimate (mean, two standard deviations)")
    ax.legend(frameon=False, fontsize=8, loc="lower left")
    _save(figure, "simcal_correction.png")


def _logged(shape: str, n: int, seed: int) -> Any:
    return simulate.logged_with_logprobs(
        n, 0, targets={"t": 0.4}, weight_shape=shape,  # type: ignore[arg-type]
        seed=seed, fresh_draws=0,
    ).dataset  # fmt: skip


def _binned_truth(shape: str) -> tuple[Any, Any]:
    """E[W|S] from a sample large enough to be the truth at this resolution."""
    data = _logged(shape, 1_000_000, seed=2)
    raw = importance_weights(data)[:, 0]
    bins = np.minimum((data.judge_score * 100).astype(np.int64), 99)
    mean = np.bincount(bins, raw, 100) / np.bincount(bins, minlength=100)
    return (np.arange(100) + 0.5) / 100, mean / raw.mean()


def _save(figure: Any, name: str) -> None:
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    FOLDER.mkdir(parents=True, exist_ok=True)
    figure.savefig(FOLDER / name, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    calibrated_judge()
    weights_before_and_after()
    error_of_both_objectives()
