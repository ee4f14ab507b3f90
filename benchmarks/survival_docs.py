"""Regenerates what docs/methods/survival.md shows: the real-data table and the figures.

``python -m benchmarks.survival_docs`` writes the figures and rewrites the part of the page between
its two markers. Needs the ``survival`` extra.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from cje.survival import (
    calibration_in_the_large,
    calibration_slope,
    from_survival,
    harrell_c,
    integrated_calibration_index,
    recalibrate,
)
from cje.survival.datasets import DATASETS, RealData, load_dataset
from cje.survival.experiment import (
    CoxPHBaseline,
    ExperimentConfig,
    RandomSurvivalForestBaseline,
    run_experiment,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "methods" / "survival.md"
FIGURES = PAGE.parent / "img"
BEGIN, END = "<!-- real data: begin -->", "<!-- real data: end -->"


def thirds(data: RealData, seed: int) -> list[np.ndarray]:
    """Training, recalibration and test rows, with events spread evenly."""
    rng = np.random.default_rng(seed)
    parts: list[list[int]] = [[], [], []]
    for status in (True, False):
        rows = rng.permutation(np.flatnonzero(data.event == status))
        for index, row in enumerate(rows):
            parts[index % 3].append(int(row))
    return [np.sort(np.array(part)) for part in parts]


def study(data: RealData, make: Any, seed: int) -> tuple[list[list[float]], Any]:
    """One model and split: C, O/E, slope, ICI on the test third before and after recalibration."""
    train, middle, test = thirds(data, seed)
    model = make().fit(data.x[train], data.time[train], data.event[train])
    horizon = float(np.median(data.time[train][data.event[train]]))

    def score(rows: Any) -> Any:
        if hasattr(model, "predict_log_risk"):
            return model.predict_log_risk(data.x[rows])
        return from_survival(model.predict_survival(data.x[rows], np.array([horizon]))[:, 0])

    time, event, eta = data.time[test], data.event[test], score(test)
    fixed = recalibrate(score(middle), data.time[middle], data.event[middle])
    versions = [
        (
            model.predict_own_survival(data.x[test], time),
            eta,
            model.predict_survival(data.x[test], np.array([horizon]))[:, 0],
        ),
        (
            fixed.own_survival(eta, time),
            fixed.log_risk(eta),
            fixed.survival(eta, np.array([horizon]))[:, 0],
        ),
    ]
    c = harrell_c(eta, time, event).value
    numbers, curves = [], []
    for own, risk, at in versions:
        ici = integrated_calibration_index(at, time, event, horizon)
        curves.append(ici.curve)
        oe, slope = calibration_in_the_large(own, event), calibration_slope(risk, time, event)
        numbers.append([c, oe.value, slope.value, ici.value])
    return numbers, curves


def real_data() -> tuple[str, dict[Any, Any]]:
    """The table as Markdown, and the first split's curves by data set and model."""
    lines = [
        "| data (rows, events) | model | C | | O/E | slope | ICI |",
        "|---|---|---|---|---|---|---|",
    ]
    curves = {}
    models = {"Cox": CoxPHBaseline, "forest": lambda: RandomSurvivalForestBaseline(50, 5, seed=0)}
    for name in DATASETS:
        data = load_dataset(name)
        for label, make in models.items():
            splits = 20 if label == "Cox" else 3 if len(data.time) > 5000 else 10
            parts = [study(data, make, seed) for seed in range(splits)]
            curves[name, label] = parts[0][1]
            table = np.array([numbers for numbers, _ in parts])  # split, before/after, metric
            low, middle, high = np.quantile(table, [0.25, 0.5, 0.75], axis=0)
            spread = (high - low) / 2
            for when, label_when in enumerate(("before", "after")):
                cells = [
                    f"{middle[when, k]:.{digits}f} ({spread[when, k]:.{digits}f})"
                    for k, digits in ((1, 2), (2, 2), (3, 3))
                ]
                head = f"{name} ({len(data.time)}, {int(data.event.sum())}) | {label}"
                lead = f"{head} | {middle[0, 0]:.3f}" if when == 0 else " | | "
                lines.append(f"| {lead} | {label_when} | {' | '.join(cells)} |")
    return "\n".join(lines), curves


def draw_curves(curves: dict[str, Any]) -> None:
    """Calibration curves of one forest before and after recalibration, side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained", dpi=110)
    axes = figure.subplots(1, 2)
    for ax, title, curve in zip(
        axes, ("before", "after recalibration"), curves["flchain", "forest"], strict=True
    ):
        curve.plot(ax)
        ax.set_title(f"flchain, random survival forest: {title}", fontsize=10, loc="left")
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
    figure.savefig(FIGURES / "survival_flchain.png", metadata={"Software": None})


def draw_experiment(folder: Path, quick: bool) -> None:
    """The experiment's own figures, for two scenarios."""
    config = ExperimentConfig.model_validate(
        {
            "out": folder,
            "scenarios": ["gaussian", "nonlinear"],
            "n": 600,
            "neural": {"widths": [1, 2, 4, 8, 16, 32, 64, 128], "epochs": 200},
            "forest": {"n_trees": 50},
        }
        | ({"seeds": [42, 123, 456]} if quick else {"seeds": [42, 123, 456, 789, 1011, 2024, 2025]})
    )
    paths = run_experiment(config)
    for name in ("models", "width_gaussian"):
        (FIGURES / f"survival_{name}.png").write_bytes(paths[name].read_bytes())


def main() -> None:
    """Write figures and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three seeds in the experiment")
    parser.add_argument("--work", type=Path, default=Path("build/survival-docs"))
    arguments = parser.parse_args()
    FIGURES.mkdir(parents=True, exist_ok=True)
    table, curves = real_data()
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")
    draw_curves(curves)
    draw_experiment(arguments.work, arguments.quick)
    print(table)


if __name__ == "__main__":
    main()
