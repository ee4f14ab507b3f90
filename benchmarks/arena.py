"""The Arena sample (numbers only, not part of the repository) and how to replay it.

Per policy, rows that have a label are drawn with replacement and given new ids; all labels but the
first few are hidden. The truth is the mean label of the source rows.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["POLICIES", "Replay", "arena_folder", "replay", "source_rows"]

POLICIES = ("base", "clone", "parallel_universe_prompt", "unhelpful")


def arena_folder() -> Path | None:
    """Where the sample lies: $CJE_ARENA, or ../shared/data/arena beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "arena"
    folder = Path(os.environ.get("CJE_ARENA", beside))
    return folder if folder.is_dir() else None


def source_rows(folder: Path) -> dict[str, np.ndarray]:
    """policy -> (rows, 3): judge score, label, log of the response's length; labelled rows only."""
    found = {}
    for policy in POLICIES:
        part = "fresh_draws" if policy == "base" else "probe_slice"
        lines = (folder / part / f"{policy}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [row for row in map(json.loads, lines) if row["oracle_label"] is not None]
        found[policy] = np.array(
            [[r["judge_score"], r["oracle_label"], np.log1p(r["response_chars"])] for r in rows]
        )
    return found


@dataclass(frozen=True)
class Replay:
    """Replayed samples: arrays (repetition, policy, row); the first `labelled` rows keep labels."""

    score: np.ndarray
    label: np.ndarray
    length: np.ndarray
    labelled: int
    truth: np.ndarray

    def save(self, path: Path) -> None:
        """For the peers' workers, which run in environments of their own."""
        np.savez(path, score=self.score, label=self.label, labelled=self.labelled)


def replay(
    folder: Path, *, repetitions: int, rows: int = 500, labelled: int = 50, seed: int = 20260
) -> Replay:
    """Draw the samples."""
    source = source_rows(folder)
    rng = np.random.default_rng(seed)
    drawn = np.stack(
        [part[rng.integers(0, len(part), (repetitions, rows))] for part in source.values()], axis=1
    )
    truth = np.array([part[:, 1].mean() for part in source.values()])
    return Replay(drawn[..., 0], drawn[..., 1], drawn[..., 2], labelled, truth)
