"""Figures of the experiment, from the aggregated table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.special import stdtrit

from cje.inference._plot import INK, MUTED, PALETTE, tidy
from cje.survival.experiment.paired import threshold_regions

__all__ = ["draw_models", "draw_width_sweep", "write_figures"]

Rows = Sequence[Mapping[str, Any]]
LABELS = {
    "calibration_in_the_large": ("O/E", 1.0),
    "calibration_slope": ("calibration slope", 1.0),
    "ici": ("ICI", None),
    "c_index": ("Harrell's C", None),
    "ibs": ("integrated Brier score", None),
}


def write_figures(folder: Path, summary: Rows) -> list[Path]:
    """All figures that the table supports."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    if any(row["width"] is None for row in summary):
        paths.append(folder / "models.png")
        draw_models(summary).savefig(paths[-1], metadata={"Software": None})
    for scenario in dict.fromkeys(row["scenario"] for row in summary):
        figure = draw_width_sweep(summary, scenario)
        if figure is not None:
            paths.append(folder / f"width_{scenario}.png")
            figure.savefig(paths[-1], metadata={"Software": None})
    return paths


def _pick(rows: Rows, **wanted: Any) -> list[Mapping[str, Any]]:
    return [r for r in rows if all(r[k] == v for k, v in wanted.items()) and r["mean"] is not None]


def _half_width(row: Mapping[str, Any]) -> float:
    """Half width of the 95% t interval of a mean over seeds."""
    return 0.0 if row["se"] is None else float(stdtrit(row["n"] - 1, 0.975)) * float(row["se"])


def draw_models(summary: Rows) -> Any:
    """Test-set metrics of the models without a width, mean and 95% interval over seeds."""
    from matplotlib.figure import Figure

    scenarios = list(dict.fromkeys(row["scenario"] for row in summary))
    models = list(dict.fromkeys(row["model"] for row in summary if row["width"] is None))
    figure = Figure(figsize=(12, 3.4), layout="constrained", dpi=110)
    axes = figure.subplots(1, len(LABELS))
    for ax, (metric, (label, target)) in zip(axes, LABELS.items(), strict=True):
        tidy(ax)
        if target is not None:
            ax.axvline(target, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for m, model in enumerate(models):
            for s, scenario in enumerate(scenarios):
                for row in _pick(
                    summary, scenario=scenario, model=model, width=None, split="test", metric=metric
                ):
                    ax.errorbar(
                        row["mean"],
                        s + 0.2 * (m - (len(models) - 1) / 2),
                        xerr=_half_width(row),
                        fmt="o",
                        markersize=4,
                        color=PALETTE[m % len(PALETTE)],
                        label=model.replace("_", " ") if s == 0 else None,
                    )
        ax.set_title(label, fontsize=10, color=INK, loc="left")
        ax.set_yticks(range(len(scenarios)))
        ax.set_yticklabels([s.replace("_", " ") for s in scenarios] if ax is axes[0] else [])
        ax.set_ylim(len(scenarios) - 0.5, -0.5)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center",
                  ncols=len(models), frameon=False, fontsize=9)  # fmt: skip
    return figure


def draw_width_sweep(summary: Rows, scenario: str) -> Any:
    """Metrics of the neural model against its number of parameters, with the threshold region.

    The threshold region is where the parameters number between half and twice the training events:
    around it the network begins to interpolate; the measured one reaches from a training
    concordance of 0.95 to one of 0.999. None where the sweep is absent.
    """
    from matplotlib.figure import Figure

    rows = [r for r in summary if r["scenario"] == scenario and r["width"] is not None]
    rows = [r for r in rows if r["weight_decay"] == rows[0]["weight_decay"]]
    if len({r["width"] for r in rows}) < 2:
        return None
    events = rows[0]["n_train_events"]
    region = threshold_regions(rows)
    measured = (region[0]["measured_low"], region[0]["measured_high"]) if region else (None, None)
    figure = Figure(figsize=(13, 3.4), layout="constrained", dpi=110)
    axes = figure.subplots(1, len(LABELS))
    for ax, (metric, (label, target)) in zip(axes, LABELS.items(), strict=True):
        tidy(ax)
        ax.axvspan(events / 2, 2 * events, color="#F2E9D8", zorder=0, label="threshold, counted")
        if None not in measured:
            ax.axvspan(*measured, facecolor="none", edgecolor=MUTED, hatch="///", linewidth=0,
                       alpha=0.5, zorder=0, label="threshold, measured")  # fmt: skip
        for color, split in zip(PALETTE, ("train", "test"), strict=False):
            line = sorted(_pick(rows, split=split, metric=metric), key=lambda r: r["n_parameters"])
            ax.errorbar(
                [r["n_parameters"] for r in line],
                [r["mean"] for r in line],
                yerr=[_half_width(r) for r in line],
                marker="o",
                markersize=3.5,
                linewidth=1.3,
                color=color,
                label=split,
            )
        if target is not None:
            ax.axhline(target, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        ax.set_xscale("log")
        if metric in ("calibration_in_the_large", "calibration_slope"):
            ax.set_yscale("log")
        ax.set_xlabel("parameters", color=INK)
        ax.set_title(label, fontsize=10, color=INK, loc="left")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4,
                  frameon=False, fontsize=9)  # fmt: skip
    return figure
