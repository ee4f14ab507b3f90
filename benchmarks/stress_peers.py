"""The direct estimator on the stress cells beside its peers, on the same data sets.

    python -m benchmarks.stress_peers [--quick] [--cells TEXT] [--table]

cje-eval 0.9.3 (rows of a cluster share a prompt id; it clusters by prompt), PPI++ of ppi-python
(on cluster means where whole clusters are labelled), glide 0.11 (clustered PPI where rows share a
cluster, ASI where labels were drawn with known chances) and the t interval of the labels alone.
Left out: the cells of several raters, which no peer takes, and PPI++ where it does not apply
(clusters labelled in part, unequal chances). cje-eval gets the first `SLOW` of the data sets.

Coverage and width are of the values that a method does not refuse; refusals and errors are counted.
A method covers where it covers at least 93.5% less one standard error of the simulation. A cell is
met where ours covers and is at most as wide as the narrowest other that covers, or where a finding
or a refusal says why not. Draws `docs/methods/img/stress.png` with `benchmarks.stress`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as t_law

from benchmarks import results
from benchmarks.environments import ROOT, python_of
from benchmarks.stress import FIRST_SEED
from benchmarks.stress_picture import LOW, picture
from benchmarks.timing import show
from cje.errors import CJEError
from cje.estimators import DirectEstimator
from studies.stress_direct import CELLS, Cell, Sample, labels_alone

__all__ = ["run"]

SLOW = 100
ENVIRONMENTS = {"cje-eval": "cje093", "PPI++": "cje093", "glide": "glide"}
ALONE, OURS = "labels alone (t)", "direct"


@dataclass(frozen=True)
class Intervals:
    """Limits (repetition, policy) of one method; `refused` and `failed` have none."""

    low: np.ndarray
    high: np.ndarray
    refused: np.ndarray
    failed: np.ndarray
    problem: str = ""

    def summary(self, truth: np.ndarray, unit: float) -> dict[str, Any]:
        """Coverage, mean width (and in units of the oracle's), refusals and errors."""
        truth = truth[: len(self.low)]
        use = ~self.refused & ~self.failed
        hit = (self.low <= truth) & (truth <= self.high)
        width = float((self.high - self.low)[use].mean()) if use.any() else float("nan")
        return {
            "coverage": float(hit[use].mean()) if use.any() else float("nan"),
            "width": width,
            "to_oracle": width / unit,
            "refused": float(self.refused.mean()),
            "errors": float(self.failed.mean()),
            "problem": self.problem,
            "intervals": int(use.sum()),
        }


class Peer:
    """A worker that stays alive for the study."""

    def __init__(self, name: str, stack: ExitStack, folder: Path) -> None:
        self.name, self.folder, self.seconds = name, folder, 0.0
        method = "ppi" if name == "PPI++" else name
        self.process = stack.enter_context(subprocess.Popen(
            [python_of(ENVIRONMENTS[name]), "-I", ROOT / "benchmarks/workers/stress_peer.py", method],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},  # `cje` is the peer
        ))  # fmt: skip

    def intervals(self, given: Mapping[str, Any]) -> Intervals:
        """Its intervals on these data sets."""
        source, target = self.folder / "given.npz", self.folder / "answer.npz"
        np.savez(source, **given)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(source, target, file=self.process.stdin, flush=True)
        said = self.process.stdout.readline()
        if not said:
            raise CJEError(f"the worker of {self.name} ended; its message is above")
        self.seconds += float(said)
        with np.load(target) as stored:
            problems = json.loads(str(stored["problem"]))
            return Intervals(
                stored["low"], stored["high"], stored["state"] == 1, stored["state"] == 2,
                "; ".join(f"{count} x {text}" for text, count in problems.items()),
            )  # fmt: skip


def run(quick: bool = False, *, cells: str = "") -> list[dict[str, Any]]:
    """One row per cell."""
    missing = sorted({e for e in ENVIRONMENTS.values() if not python_of(e).exists()})
    if missing:
        note = f"no environment {', '.join(missing)}: see the table of peers"
        return [{"bar": "peers", "value": float("nan"), "limit": 1.0, "ok": False, "note": note}]
    n, slow = (40, 10) if quick else (800, SLOW)
    rows = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        peers = [Peer(name, stack, Path(folder)) for name in ENVIRONMENTS]
        for cell in CELLS:
            if "raters" not in cell.name and cells in cell.name:
                rows.append(_row(cell, peers, n, slow))
                show(rows[-1:])
        for peer in peers:
            print(f"{peer.name}: {peer.seconds:.0f} s of processor", flush=True)
            peer.process.stdin.close()
    if not cells and not quick:
        recorded = results.load()["modules"].get("stress", {}).get("full", {"rows": []})
        picture(recorded["rows"], rows)
    return rows


def _row(cell: Cell, peers: list[Peer], n: int, slow: int) -> dict[str, Any]:
    samples = [cell.draw(np.random.default_rng([seed, 20])) for seed in _seeds(n)]
    watched = list(samples[0].watched or samples[0].truth)
    truth = np.array([[sample.truth[name] for name in watched] for sample in samples])
    mine, values, told = _ours(cell, samples, watched)
    use = ~mine.refused
    sd = float((values - truth)[use].std()) if use.any() else float("nan")  # refused: no unit
    unit = 2.0 * float(t_law.ppf(0.975, cell.df)) * sd
    found = {OURS: mine.summary(truth, unit), ALONE: _alone(samples, watched).summary(truth, unit)}
    given = _arrays(samples, watched)
    for peer in peers:
        if _applies(peer.name, cell):
            some = {k: v[:slow] if peer.name == "cje-eval" and k in ("score", "label", "chance")
                    else v for k, v in given.items()}  # fmt: skip
            found[peer.name] = peer.intervals(some).summary(truth, unit)
    return _verdict(cell, found, told, n)


def _seeds(n: int) -> range:
    """The data sets that `benchmarks.stress` begins with."""
    return range(FIRST_SEED, FIRST_SEED + n)


def _applies(name: str, cell: Cell) -> bool:
    """PPI++ takes independent rows or clusters, with equal chances; the others take all."""
    return name != "PPI++" or cell.peers


def _ours(cell: Cell, samples: list[Sample], watched: list[str]) -> tuple[Intervals, Any, float]:
    """Intervals and values of the direct estimator, and how often a finding names the cause."""
    limits = np.full((len(samples), len(watched), 2), np.nan)
    values = np.full(limits.shape[:2], np.nan)
    refused = np.ones(limits.shape[:2], dtype=bool)
    told = 0
    for r, (seed, sample) in enumerate(zip(_seeds(len(samples)), samples, strict=True)):
        options = {"seed": seed, **sample.options}
        try:
            result = DirectEstimator(sample.dataset, **options).fit_and_estimate()
        except CJEError:  # refused as a whole
            continue
        at = [result.policies.index(name) for name in watched]
        limits[r], values[r] = np.array(result.ci())[at], np.array(result.estimates)[at]
        refused[r] = [name in result.refused() for name in watched]
        told += bool({f.code for f in result.findings} & set(cell.may_say))
    none = np.zeros_like(refused)
    return Intervals(limits[..., 0], limits[..., 1], refused, none), values, told / len(samples)


def _alone(samples: list[Sample], watched: list[str]) -> Intervals:
    limits = np.array([[labels_alone(sample, name) for name in watched] for sample in samples])
    none = np.zeros(limits.shape[:2], dtype=bool)
    return Intervals(limits[..., 0], limits[..., 1], none, none)


def _arrays(samples: list[Sample], watched: list[str]) -> dict[str, Any]:
    """What the workers read; every policy has the same prompts in the same order."""
    first = samples[0].dataset
    size = len(first) // first.policy.n_names
    names = [first.policy.names[code] for code in first.policy.codes[::size]]

    def stack(column: str) -> np.ndarray:
        return np.stack([
            getattr(s.dataset, column).reshape(len(names), size) for s in samples
        ])  # fmt: skip

    _, cluster = np.unique(first.units.codes[:size], return_inverse=True)
    given = {"score": stack("judge_score"), "label": stack("oracle_label"), "cluster": cluster,
             "watched": np.array([names.index(name) for name in watched])}  # fmt: skip
    if first.label_propensity is not None:
        given["chance"] = stack("label_propensity")
    return given


def _verdict(
    cell: Cell, found: Mapping[str, Mapping[str, Any]], told: float, n: int
) -> dict[str, Any]:
    covering = {
        name: part["width"] for name, part in found.items() if name != OURS and _covers(part)
    }
    mine = found[OURS]
    excused = mine["refused"] >= 0.95 or told >= 0.95
    narrowest = min(covering.values(), default=float("nan"))
    share = mine["width"] / narrowest
    notes = [f"{name} {_says(part)}" for name, part in found.items()]
    best = min(covering, key=covering.__getitem__) if covering else "no method beside ours"
    return {
        "bar": f"{cell.name}: width, direct / narrowest that covers",
        "value": share,
        "limit": 1.0,
        "ok": bool(excused or (_covers(mine) and not share > 1.0)),
        "note": f"narrowest that covers: {best}; " + "; ".join(notes)
        + f"; a finding names the cause {told:.3f}; {n} data sets",
        "found": {name: dict(part) for name, part in found.items()},
    }  # fmt: skip


def _noise(part: Mapping[str, Any]) -> float:
    """One standard error of a coverage of 95%."""
    return float(np.sqrt(0.05 * 0.95 / max(part["intervals"], 1)))


def _covers(part: Mapping[str, Any]) -> bool:
    """At least 93.5%, but for simulation noise, where at least half the values are given."""
    given = part["refused"] + part["errors"] < 0.5
    return bool(given and part["coverage"] >= LOW - _noise(part))


def _says(part: Mapping[str, Any]) -> str:
    text = f"{part['coverage']:.3f} (width {part['width']:.4f}"
    text += f", refused {part['refused']:.3f}" if part["refused"] else ""
    text += f", errors {part['errors']:.3f}: {part['problem']}" if part["errors"] else ""
    return text + ")"


def table(rows: list[dict[str, Any]]) -> str:
    """The record as the table of `docs/methods/estimators.md`: coverage and mean width."""
    names = (OURS, *ENVIRONMENTS, ALONE)
    lines = [f"| design | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for found in (entry for entry in rows if "found" in entry):
        cells = [_cell(found["found"].get(name)) for name in names]
        lines.append(f"| {found['bar'].partition(': width')[0]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(part: Mapping[str, Any] | None) -> str:
    if part is None:
        return "-"
    if part["coverage"] is None:
        return "errors" if part["errors"] > part["refused"] else "refused"
    text = f"{part['coverage']:.3f} {part['width']:.3f}"
    lacking = part["refused"] + part["errors"]
    return text + (f" ({lacking:.0%} without)" if lacking >= 0.005 else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cells", default="", help="only cells whose name holds this text")
    parser.add_argument("--table", action="store_true", help="print the record as Markdown")
    chosen = parser.parse_args()
    if chosen.table:
        print(table(results.load()["modules"]["stress_peers"]["full"]["rows"]))
        return
    run(chosen.quick, cells=chosen.cells)


if __name__ == "__main__":
    sys.exit(main())
