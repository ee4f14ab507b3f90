"""The Arena replay and the coverage grid in one figure, ours and the peers.

``python -m benchmarks.arena_figure [--quick]``

Per method on the replayed Arena sample (`benchmarks.arena`): coverage of nominal 95% intervals,
mean width, RMSE, pairwise ranking accuracy (share of pairs of policies put in their true order) and
Kendall's tau. The grid is what `results.json` holds of `coverage` and `coverage_offpolicy`. Writes
`coverage.png`. The peers' answers, which take minutes, are kept in `.benchmarks/`.
"""

from __future__ import annotations

import hashlib
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from benchmarks import results
from benchmarks.arena import Replay, arena_folder, replay
from benchmarks.environments import PINS, ROOT
from benchmarks.small_labels import Answers, ours, peer
from benchmarks.timing import main, show

__all__ = ["run"]

PICTURE = Path(__file__).with_name("coverage.png")
CACHE = ROOT / ".benchmarks"
SHOWN = {"direct": "direct (ours)", "direct + length": "direct + length (ours)",
         "cje-eval": "cje-eval 0.9.3", "ppi": "PPI++ (ppi-python)",
         "labels": "labels only, t interval", "judge": "judge's mean, t interval"}  # fmt: skip
Metrics = dict[str, float]


def _mean_answers(values: np.ndarray) -> Answers:
    """Mean and t interval over the last axis."""
    n = values.shape[-1]
    mean = values.mean(axis=-1)
    half = student.ppf(0.975, n - 1) * values.std(axis=-1, ddof=1) / np.sqrt(n)
    return Answers(mean, mean - half, mean + half)


def _peer(name: str, samples: Replay) -> Answers | None:
    """A peer's answers, from the cache where its pinned version answered these very samples."""
    content = hashlib.blake2b(samples.score.tobytes() + samples.label.tobytes(), digest_size=8)
    content.update(PINS.read_bytes())
    kept = CACHE / f"arena_{name}_{content.hexdigest()}.npz"
    if kept.exists():
        with np.load(kept) as stored:
            return Answers(stored["estimate"], stored["low"], stored["high"])
    found = peer(name, samples)
    if found is not None:
        CACHE.mkdir(exist_ok=True)
        np.savez(kept, estimate=found.estimate, low=found.low, high=found.high)
    return found


def all_answers(samples: Replay) -> dict[str, Answers]:
    """Every method that could run."""
    found = {"direct": ours(samples), "direct + length": ours(samples, use_length=True)}
    for name in ("cje-eval", "ppi"):
        answers = _peer(name, samples)
        if answers is not None:
            found[name] = answers
    found["labels"] = _mean_answers(samples.label[..., : samples.labelled])
    found["judge"] = _mean_answers(samples.score)
    return found


def metrics(found: Answers, truth: np.ndarray) -> Metrics:
    """What the figure shows of one method."""
    pairs = list(combinations(range(len(truth)), 2))
    right = [
        np.sign(found.estimate[:, j] - found.estimate[:, i]) == np.sign(truth[j] - truth[i])
        for i, j in pairs
    ]
    accuracy = float(np.mean(right))
    cover = found.coverage(truth)
    return {
        "worst coverage": float(cover.min()),
        "mean coverage": float(cover.mean()),
        "width": found.width(),
        "RMSE": float(found.rmse(truth).mean()),
        "pairwise accuracy": accuracy,
        "Kendall tau": 2.0 * accuracy - 1.0,  # no ties: the same counting, from -1 to 1
    }


def grid() -> dict[str, list[float]]:
    """Coverage of every cell measured at full size: direct, and off-policy where usable."""
    stored = results.load()["modules"]
    found: dict[str, list[float]] = {}
    for entry in stored.get("coverage", {}).get("full", {}).get("rows", []):
        found.setdefault("direct", []).append(entry["value"])
    for entry in stored.get("coverage_offpolicy", {}).get("full", {}).get("rows", []):
        if entry["usable_share"] > 0.5:
            found.setdefault(entry["estimator"], []).append(entry["value"])
    return found


def draw(table: dict[str, Metrics], cells: dict[str, list[float]], repetitions: int) -> None:
    """The figure: five panels of the replay, one of the grid."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from cje.inference._plot import INK, MUTED, PALETTE, tidy

    figure, axes = plt.subplots(2, 3, figsize=(12.0, 6.2), layout="constrained")
    names = list(table)
    places = np.arange(len(names))[::-1]
    colours = [PALETTE[0] if "direct" in name else MUTED for name in names]
    for ax, panel in zip(axes.flat, ("", "width", "RMSE", "pairwise accuracy", "Kendall tau"),
                         strict=False):  # fmt: skip
        ax.set_yticks(places, [SHOWN[name] for name in names] if ax in axes[:, 0] else [])
        tidy(ax)
        if not panel:
            continue
        values = np.array([table[name][panel] for name in names])
        ax.barh(places, values, color=colours, height=0.62)
        for place, value in zip(places, values, strict=True):
            ax.text(value, place, f" {value:.3f}", va="center", fontsize=8, color=INK)
        ax.set_xlim(0.0, 1.25 * max(values))
        ax.set_title(panel, fontsize=10, loc="left", color=INK)
    first = axes[0, 0]
    first.axvline(0.95, color=INK, linewidth=0.8, linestyle=":")
    for place, name, colour in zip(places, names, colours, strict=True):
        value = table[name]["worst coverage"]
        if value < 0.88:
            first.text(0.882, place, f"{value:.3f}, off this scale", va="center", fontsize=8)
            continue
        first.plot(value, place, "o", color=colour, ms=9)
        first.text(value - 0.004, place, f"{value:.3f}", va="center", ha="right", fontsize=8)
    first.set_xlim(0.88, 0.97)
    first.set_ylim(-0.6, len(names) - 0.4)
    first.set_title("coverage of the worst policy (nominal 0.95)", fontsize=10, loc="left",
                    color=INK)  # fmt: skip
    last = axes[1, 2]
    for place, (_, values) in enumerate(reversed(cells.items())):
        last.plot(values, np.full(len(values), place), "o", color=PALETTE[0], alpha=0.5, ms=5)
    last.set_yticks(range(len(cells)), list(reversed(cells)))
    last.axvspan(0.935, 0.965, color=MUTED, alpha=0.15, linewidth=0)
    last.axvline(0.95, color=INK, linewidth=0.8, linestyle=":")
    last.set_title("coverage in simulation, 4,000 draws per cell", fontsize=10, loc="left",
                   color=INK)  # fmt: skip
    tidy(last)
    figure.suptitle(
        f"Arena sample replayed {repetitions} times: 4 policies, 500 responses, 50 labels each",
        fontsize=11, color=INK,
    )  # fmt: skip
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)


def run(quick: bool = False) -> list[dict[str, Any]]:
    """A row per method and metric; ours against the best peer where there is a bar."""
    folder = arena_folder()
    if folder is None:
        note = "no Arena sample beside the repository: set CJE_ARENA"
        return [{"bar": "Arena replay", "value": float("nan"), "limit": 0.935, "ok": False,
                 "note": note}]  # fmt: skip
    samples = replay(folder, repetitions=60 if quick else 800)
    table = {name: metrics(found, samples.truth) for name, found in all_answers(samples).items()}
    rows = []
    for name, found in table.items():
        note = ", ".join(f"{key} {value:.4f}" for key, value in found.items())
        mine = name.startswith("direct")
        worst = found["worst coverage"]
        noise = 3.0 * np.sqrt(0.05 * 0.95 / len(samples.score)) if quick else 0.0
        rows.append({"bar": f"{SHOWN[name]}: worst policy's coverage", "value": worst,
                     "limit": ">= 0.935" if mine else "for comparison",
                     "ok": not mine or worst >= 0.935 - noise,
                     "note": f"{note}; {len(samples.score)} repetitions"})  # fmt: skip
    if not quick:
        draw(table, grid(), len(samples.score))
    show([{**entry, "limit": 0.935} for entry in rows])
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
