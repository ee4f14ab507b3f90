"""Survival calibration beside its peers: speed, reference values and coverage.

Speed bars are ratios of medians of interleaved rounds in one process. SurvivalEVAL lives in an
environment of its own, where a worker times both sides:
``python3 -m venv .venvs/peers && .venvs/peers/bin/pip install SurvivalEVAL``.
The statistical studies print the numbers that docs/methods/survival.md shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import interleaved, main, ratio, row, show
from cje.survival import (
    bootstrap_calibration,
    calibration_in_the_large,
    calibration_slope,
    d_calibration,
    harrell_c,
    integrated_calibration_index,
    observed_expected_at_horizon,
)
from cje.survival.experiment.reference import dependent_censoring, perfect_model

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".venvs" / "peers" / "bin" / "python"
Rows = list[dict[str, Any]]
CENSORING = (0.0, 0.3, 0.5)


def one_covariate(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Risk, time and event of a simple proportional hazards sample."""
    rng = np.random.default_rng(seed)
    risk = rng.normal(size=n)
    latent, limit = rng.exponential(np.exp(-risk)), rng.exponential(2.0, n)
    return risk, np.minimum(latent, limit), latent <= limit


def speed(quick: bool) -> Rows:
    """Slope, ICI, concordance and bootstrap against lifelines and scikit-survival."""
    import matplotlib as mpl
    import pandas as pd
    from lifelines import CoxPHFitter
    from lifelines.calibration import survival_probability_calibration
    from lifelines.utils import concordance_index
    from sksurv.metrics import concordance_index_censored

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    big, small = (20_000, 2_000) if quick else (100_000, 10_000)
    rounds = 1 if quick else 3
    risk, time, event = one_covariate(big)
    frame = pd.DataFrame({"risk": risk, "T": time, "E": event})
    seconds = interleaved(
        {
            "cje": lambda: calibration_slope(risk, time, event),
            "lifelines": lambda: CoxPHFitter().fit(frame, "T", "E"),
        },
        rounds,
    )
    rows = [row(f"slope, n={big}: time over lifelines", ratio(seconds, "cje", "lifelines"), 0.01)]

    seconds = interleaved(
        {
            "cje": lambda: harrell_c(risk, time, event),
            "lifelines": lambda: concordance_index(time, -risk, event),
            "sksurv": lambda: concordance_index_censored(event, time, risk),
        },
        1 if quick else 2,
    )
    rows += [
        row(
            f"Harrell C, n={big}: time over scikit-survival", ratio(seconds, "cje", "sksurv"), 0.02
        ),
        row(f"Harrell C, n={big}: time over lifelines", ratio(seconds, "cje", "lifelines"), 0.2),
    ]

    r, t, e = one_covariate(small, 1)
    data = pd.DataFrame({"risk": r, "T": t, "E": e})
    model = CoxPHFitter().fit(data, "T", "E")
    horizon = float(np.median(t[e]))
    at = model.predict_survival_function(data, times=[horizon]).to_numpy()[0]
    own = np.exp(-model.predict_cumulative_hazard(data.iloc[:1], times=t).to_numpy()[:, 0]
                 * np.exp(r - r[0]) ** float(model.params_["risk"]))  # fmt: skip

    def peer_ici() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            survival_probability_calibration(model, data, horizon)
        plt.close("all")

    quiet = open(os.devnull, "w")  # noqa: SIM115  lifelines prints its ICI on every call
    stdout, sys.stdout = sys.stdout, quiet
    try:
        seconds = interleaved(
            {
                "cje": lambda: integrated_calibration_index(at, t, e, horizon),
                "lifelines": peer_ici,
            },
            5,
        )
        rows.append(
            row(f"ICI with intervals, n={small}: time over lifelines",
                ratio(seconds, "cje", "lifelines"), 0.05)
        )  # fmt: skip
        seconds = interleaved(
            {
                "cje": lambda: bootstrap_calibration(own, r, at, t, e, horizon, n_draws=500),
                "lifelines": lambda: [peer_ici() for _ in range(20)],
            },
            1,
        )
        rows.append(
            row(f"500 bootstrap draws of O/E, slope, ICI, n={small}: time over 20 lifelines ICI",
                ratio(seconds, "cje", "lifelines"), 1.0)
        )  # fmt: skip
    finally:
        sys.stdout = stdout
        quiet.close()
    return rows


def survival_eval(quick: bool) -> Rows:
    """ICI against SurvivalEVAL, both timed in the peers' environment."""
    n = 2_000 if quick else 10_000
    bar = f"ICI with intervals, n={n}: time over SurvivalEVAL (rcs, 3 knots, no interval)"
    if not PEERS.exists():
        line = row(bar, float("inf"), 1.0, "no .venvs/peers: install SurvivalEVAL there")
        return [line]
    done = subprocess.run(
        [str(PEERS), str(ROOT / "benchmarks" / "workers" / "survival_peer.py"), str(n)],
        capture_output=True, text=True, check=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )  # fmt: skip
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return [
        row(bar, answer["ratio_default"], 1.0),
        row(f"ICI by cox_rcs, n={n}: time over SurvivalEVAL", answer["ratio_cox_rcs"], 1.0),
        row("ICI by cox_rcs: difference from SurvivalEVAL", answer["difference"], 2e-3,
            f"{answer['cje']:.5f} and {answer['peer']:.5f}"),
    ]  # fmt: skip


def reference_values(quick: bool) -> Rows:
    """Means over seeds that a perfectly calibrated model must give."""
    seeds = range(20 if quick else 200)
    rows = []
    for censoring in CENSORING:
        wrong = {0.0: 1.99, 0.3: 1.82, 0.5: 1.71}[censoring]
        table = []
        for seed in seeds:
            r = perfect_model(seed, censoring)
            time, event = r.data.time, r.data.event
            index = integrated_calibration_index(r.at_horizon, time, event)
            naive = integrated_calibration_index(r.at_horizon, time, event, method="naive")
            table.append(
                [
                    calibration_in_the_large(r.own, event).value,
                    calibration_in_the_large(r.own, event, expected="one_minus_survival").value,
                    index.value,
                    naive.value,
                    index.null_reference,
                    calibration_slope(r.data.log_risk, time, event).value,
                ]
            )
        oe, old, ici, naive_ici, null, slope = np.mean(table, axis=0)
        label = f"{censoring:.0%} censored"
        rows += [
            row(f"{label}: |O/E - 1|", abs(oe - 1), 0.02, f"O/E {oe:.4f}, slope {slope:.4f}"),
            row(f"{label}: |one_minus_survival O/E - {wrong}|", abs(old - wrong), 0.03,
                f"{old:.3f}"),
            row(f"{label}: |ICI - 0.02|", abs(ici - 0.02), 0.005,
                f"ICI {ici:.4f}, null reference {null:.4f}, naive {naive_ici:.4f}"),
            row(f"{label}: 6 / (naive ICI / ICI)", 6 / (naive_ici / ici), 1.0,
                f"naive is {naive_ici / ici:.1f} times the ICI"),
        ]  # fmt: skip
    return rows


def dependent(quick: bool) -> Rows:
    """Censoring that follows the covariates: what breaks, what is said, what holds."""
    table = []
    seeds = range(20 if quick else 200)
    for seed in seeds:
        r = dependent_censoring(seed)
        time, event = r.data.time, r.data.event
        broken = observed_expected_at_horizon(r.at_horizon, time, event)
        table.append(
            [
                broken.value,
                bool(broken.findings),
                calibration_in_the_large(r.own, event).value,
                integrated_calibration_index(r.at_horizon, time, event).value,
                integrated_calibration_index(r.at_horizon, time, event, method="cox_rcs").value,
            ]
        )
    km, said, oe, pseudo, rcs = np.mean(table, axis=0)
    return [
        row("covariate-dependent censoring (55%): share not diagnosed", 1 - said, 0.01,
            f"Kaplan-Meier O/E {km:.3f}, O/E {oe:.3f}, pseudo ICI {pseudo:.3f}"),
        row("covariate-dependent censoring (55%): ICI by cox_rcs", rcs, 0.025),
    ]  # fmt: skip


def _share(hits: list[bool]) -> float:
    return float(np.mean(hits))


def coverage(quick: bool) -> Rows:
    """O/E and slope intervals over 4,000 repetitions at each censoring rate."""
    repetitions = 400 if quick else 4000
    rows = []
    for censoring in CENSORING:
        oe, slope = [], []
        for seed in range(repetitions):
            r = perfect_model(seed, censoring)
            oe.append(1.0 in calibration_in_the_large(r.own, r.data.event).interval)
            score = r.data.log_risk
            slope.append(1.0 in calibration_slope(score, r.data.time, r.data.event).interval)
        slack = 0.015 if not quick else 0.04
        for name, hits in (("O/E", oe), ("slope", slope)):
            rows.append(
                row(f"{name} interval, {censoring:.0%} censored: |coverage - 0.95|",
                    abs(_share(hits) - 0.95), slack, f"{_share(hits):.2%} of {repetitions}")
            )  # fmt: skip
    return rows


def folded_coverage(quick: bool) -> Rows:
    """ICI, E50, E90 and Emax intervals: a perfect and a miscalibrated model."""
    repetitions = 60 if quick else 400
    rows = []
    for power in (1.0, 1.5):
        for censoring in CENSORING:
            for method in ("pseudo", "cox_rcs"):
                hits: dict[str, list[bool]] = {name: [] for name in ("ICI", "E50", "E90", "Emax")}
                for seed in range(20_000, 20_000 + repetitions):
                    r = perfect_model(seed, censoring)
                    truth = _true_errors(r.data.true_survival(1.0), power)
                    at = r.data.true_survival(1.0) ** power
                    index = integrated_calibration_index(
                        at, r.data.time, r.data.event, 1.0, method=method
                    )
                    parts = {"ICI": index, "E50": index.e50, "E90": index.e90, "Emax": index.emax}
                    for name, part in parts.items():
                        hits[name].append(truth[name] in part.interval)
                worst = min(hits, key=lambda name: _share(hits[name]))
                note = ", ".join(f"{name} {_share(h):.1%}" for name, h in hits.items())
                kind = "perfect" if power == 1.0 else "over-predicting"
                rows.append(
                    row(f"{kind} model, {method}, {censoring:.0%} censored: worst non-coverage",
                        1 - _share(hits[worst]), 0.085 if not quick else 0.15, note)
                )  # fmt: skip
    return rows


def _true_errors(survival: np.ndarray, power: float) -> dict[str, float]:
    """|observed - predicted| of these subjects when S^power is predicted where S is true."""
    errors = np.abs(survival - survival**power)
    return {
        "ICI": float(errors.mean()),
        "E50": float(np.quantile(errors, 0.5)),
        "E90": float(np.quantile(errors, 0.9)),
        "Emax": float(errors.max()),
    }


def d_calibration_size(quick: bool) -> Rows:
    """Size of the D-calibration tests for a perfect model, nominal 5%."""
    repetitions = 300 if quick else 2000
    rows = []
    for censoring in (0.0, 0.5):
        robust, pearson = [], []
        for seed in range(repetitions):
            r = perfect_model(seed, censoring, n=500)
            for test, hits in (("robust", robust), ("pearson", pearson)):
                result = d_calibration(r.own, r.data.event, test=test)
                hits.append(result.details["p_value"] < 0.05)
        rows.append(
            row(f"D-calibration, {censoring:.0%} censored: |size - 0.05|",
                abs(_share(robust) - 0.05), 0.02 if not quick else 0.04,
                f"robust {_share(robust):.3f}, pearson {_share(pearson):.3f}")
        )  # fmt: skip
    return rows


SECTIONS: tuple[Callable[[bool], Rows], ...] = (
    speed, survival_eval, reference_values, dependent, coverage, folded_coverage,
    d_calibration_size,
)  # fmt: skip


def run(quick: bool) -> Rows:
    """All sections."""
    rows: Rows = []
    for section in SECTIONS:
        part = section(quick)
        show(part)
        rows += part
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
