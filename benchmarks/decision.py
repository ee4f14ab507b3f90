"""Labels to a decision: how many labels until a correct ship / do not ship at 5% error?

    python -m benchmarks.decision [--quick]

The decision. Ship if the candidate is better than the baseline by more than 0.05 on a scale from 0
to 1: `GateRule(min_gain=0.05)` on a two-sided 95% interval of the difference, so that PASS and FAIL
are wrong in at most 2.5% each. Both responses of a pair are labelled, and every label counts: 100
pairs are 200 labels. At most 480 of 2,000 judged pairs are labelled.

The cases (`studies.decision.CASES`). A gain of 0.10 (ship), none and a loss of 0.05 (do not ship),
and a gain of exactly 0.05, where PASS and FAIL are both wrong. The last is the test of honesty: a
method whose intervals are too short is fast in the first three and errs in more than 5% here.

The worlds. Four simulated judges of five-step ratings (good; mediocre; one that likes length, where
the candidate writes longer; two judges that see one side of the quality each) and the Arena sample
(`benchmarks.arena`), whose rows are drawn with replacement, so that the truth is known; its pairs
are independent responses.

What is counted.

- A fixed sample: the number of labels at which 80% of the repetitions decide correctly, between
  sizes a factor of two apart (`labels_to`). **It is an oracle's number**: nobody knows it before
  the study. A team that guesses too low decides nothing, one that guesses too high pays for it.
- A sequence (looks a quarter more labels apart, stop at the first decision): the mean number of
  labels at stopping, 960 where nothing was decided, and the number by which 80% have decided
  correctly. It needs no guess, so its mean is what a team pays.

Who is compared. Labels only (paired t; Welch on Arena), PPI++ (ppi-python), cje-eval and ours with
a fixed sample; as sequences glide's prediction-powered monitor (one for each side at 97.5%, a look
every 20 pairs, because it needs several labels per batch), truescore's confidence sequence (labels
only; looks as ours) and ours: the mixture with its default of 500 labels, and the finite horizon at
960. Ours has further forms where they apply: length as a covariate, both judges, active labels
(`cje.label`). 1,000 repetitions; 500 of what takes ten times as long as the plain fit (length,
both judges, active labels); 200 of cje-eval, which takes 0.2 s: two sizes, Arena only. It could be
given the length, too, and was not.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena import arena_folder, source_rows
from benchmarks.environments import ROOT, python_of
from benchmarks.results import plain
from benchmarks.timing import main
from studies.decision import (
    CASES,
    LOOKS,
    SIZES,
    Limits,
    Outcome,
    active_fixed,
    active_sequential,
    direct,
    labels_only,
    outcome,
    wrong_at_each_look,
)
from studies.decision_worlds import WORLDS, Samples, World, resampled

__all__ = ["ARENA", "run"]

ARENA = "Arena sample"
SHOWN = ("good judge", "mediocre judge", "judge that likes length",
         "two judges, each sees one side")  # fmt: skip
SEQUENCES = ("good judge", ARENA)
SLOW = {ARENA: (120, 300)}
MOST_WRONG = 0.065  # the coverage of 0.935 that every section asks for
REPS = {"full": (1_000, 500, 200), "quick": (12, 6, 2)}
SEED = 20_261


@dataclass(frozen=True)
class Method:
    """One method's limits in one world."""

    name: str
    limits: Limits
    ours: bool = True


def _peer(program: str, venv: str, samples: Samples, sizes: Sequence[int]) -> Limits | None:
    """A peer's limits on the same samples; None where its environment is absent."""
    python = python_of(venv)
    if not python.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "samples.npz", Path(folder) / "answer.npz"
        np.savez(given, score=samples.score, label=samples.label, paired=samples.paired,
                 sizes=sizes)  # fmt: skip
        worker = ROOT / "benchmarks" / "workers" / "decision_peer.py"
        # Isolated: a PYTHONPATH to this tree would make the peer's `cje` ours.
        subprocess.run([python, "-I", worker, program, given, answer], check=True, cwd=folder)
        with np.load(answer) as found:
            return Limits(found["sizes"], found["low"], found["high"], float(found["seconds"]),
                          program in ("glide", "truescore"))  # fmt: skip


def _peers(world: str, samples: Samples, slow: int) -> Iterator[Method]:
    asked: list[tuple[str, str, str, Samples, Sequence[int]]] = [
        ("PPI++ 0.2.3", "ppi", "cje093", samples, SIZES)
    ]
    if world in SLOW:
        asked.append(("cje-eval 0.9.3", "cje-eval", "cje093", samples.head(slow), SLOW[world]))
    if world in SEQUENCES:
        asked.append(("glide 0.11 monitor", "glide", "glide", samples, LOOKS))
        asked.append(("truescore 0.7.4 sequence", "truescore", "truescore", samples, LOOKS))
    for name, program, venv, part, sizes in asked:
        limits = _peer(program, venv, part, sizes)
        if limits is None:
            print(f"{name}: no environment {venv}, left out", file=sys.stderr)
        else:
            yield Method(name, limits, ours=False)


def _ours(world: str, samples: Samples, few: Samples) -> Iterator[Method]:
    """The plain forms on all samples, what takes longer on a few."""
    found = direct(samples, sizes=LOOKS if world in SEQUENCES else SIZES)
    yield Method("ours", found["fixed"].at(SIZES))
    if samples.second is not None:
        yield Method("ours, both judges", direct(few, judges=True, sizes=SIZES)["fixed"])
    if world in ("judge that likes length", ARENA):
        yield Method("ours + length", direct(few, length=True, sizes=SIZES)["fixed"])
    if world == ARENA:
        yield Method("ours, active labels", active_fixed(few))
    if world in SEQUENCES:
        yield Method("ours, sequential", found["mixture"])
        yield Method("ours, sequential to 960", found["horizon"])
    if world == ARENA:
        sequences = active_sequential(few)
        yield Method("ours, active + sequential", sequences["mixture"])


def _worlds() -> dict[str, World]:
    worlds = {name: WORLDS[name] for name in SHOWN}
    folder = arena_folder()
    if folder is None:
        print("no Arena sample beside the repository: set CJE_ARENA", file=sys.stderr)
        return worlds
    rows = source_rows(folder)
    return {**worlds, ARENA: resampled(rows["base"], rows["parallel_universe_prompt"])}


def _study(world: str, make: World, seed: int, reps: Sequence[int]) -> list[dict[str, Any]]:
    """All rows of one world: labels needed, and the wrong decisions at the bar."""
    all_reps, few, slow = reps
    samples = make(np.random.default_rng([SEED, seed]), all_reps)
    by_hand = Method("labels only", labels_only(samples), ours=False)
    methods = [by_hand, *_ours(world, samples, samples.head(few)), *_peers(world, samples, slow)]
    rows: list[dict[str, Any]] = []
    limit = outcome(by_hand.limits, "gain", samples.truth).enough[0]
    for method in methods:
        cases = {case: outcome(method.limits, case, samples.truth) for case in CASES}
        rows += _rows(world, method, cases, samples.truth, limit)
    return rows


def _rows(
    world: str, method: Method, cases: dict[str, Outcome], truth: float, limit: float
) -> Iterator[dict[str, Any]]:
    limits, gain = method.limits, cases["gain"]
    n_reps = len(limits.low)
    found = {
        "world": world, "method": method.name, "ours": method.ours, "reps": n_reps,
        "sequential": limits.sequential, "milliseconds": 1e3 * gain.seconds,
        "sizes": (2 * limits.sizes).tolist(), "cases": {},
    }  # fmt: skip
    for case, o in cases.items():
        found["cases"][case] = {
            "enough": [plain(value) for value in o.enough], "mean": o.mean, "median": o.median,
            "right": o.right, "wrong": o.wrong, "undecided": o.undecided,
        }  # fmt: skip
    wrong = cases["at the bar"].wrong
    found["wrong_by_size"] = wrong_at_each_look(limits, truth).tolist()
    needed = gain.mean if limits.sequential else gain.enough[0]
    asked = limit if method.ours and not limits.sequential else None
    yield {
        "bar": f"{world}: {method.name}, labels to ship a gain",
        "value": needed,
        "limit": "for comparison" if asked is None else asked,
        "ok": asked is None or needed <= asked,
        "note": _note(limits, cases, n_reps),
        "found": found,
    }
    noise = 2.0 * (MOST_WRONG * (1.0 - MOST_WRONG) / n_reps) ** 0.5 * (n_reps < 1_000)
    yield {
        "bar": f"{world}: {method.name}, wrong decisions at the bar",
        "value": wrong,
        "limit": MOST_WRONG if method.ours else "for comparison",
        "ok": not method.ours or wrong <= MOST_WRONG + noise,
        "note": f"nominal 0.05; {n_reps} repetitions",
    }


def _note(limits: Limits, cases: dict[str, Outcome], n_reps: int) -> str:
    parts = []
    for case in ("gain", "no gain", "loss"):
        o = cases[case]
        if limits.sequential:
            taken = f"mean {o.mean:.0f}, median {o.median:.0f}, 80% right by {o.enough[0]:.0f}"
        else:
            taken = f"{o.enough[0]:.0f} ({o.enough[1]:.0f} to {o.enough[2]:.0f})"
        parts.append(f"{case}: {taken}, wrong {o.wrong:.1%}, undecided {o.undecided:.1%}")
    spent = f"{1e3 * cases['gain'].seconds:.2g} ms of processor per decision"
    return "; ".join([*parts, spent, f"{n_reps} repetitions"])


def _ratio(rows: Sequence[dict[str, Any]], world: str, mine: str, peer: str) -> dict[str, Any]:
    """Labels of ours over a peer's, on the same samples."""
    value = {row["found"]["method"]: row["value"] for row in rows
             if row.get("found", {}).get("world") == world}  # fmt: skip
    quotient = value[mine] / value[peer] if peer in value else float("nan")
    return {"bar": f"{world}: labels, {mine} / {peer}", "value": quotient, "limit": 1.0,
            "ok": quotient <= 1.0, "note": "to ship a gain"}  # fmt: skip


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Rows of every world; then ours against each peer of its kind."""
    rows: list[dict[str, Any]] = []
    worlds = _worlds()
    for seed, (world, make) in enumerate(worlds.items()):
        found = _study(world, make, seed, REPS["quick" if quick else "full"])
        for row in found:
            print(f"{row['bar']:<75} {row['value']:>8.3f}  {row['note']}", flush=True)
        rows += found
    rows += [_ratio(rows, world, "ours", "PPI++ 0.2.3") for world in worlds]
    for world in (w for w in SEQUENCES if w in worlds):
        for peer in ("glide 0.11 monitor", "truescore 0.7.4 sequence"):
            rows.append(_ratio(rows, world, "ours, sequential", peer))
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
