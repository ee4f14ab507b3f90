"""A noisier judge in the demo's world: what the calibration then borrows wrongly, and who notices.

    python -m benchmarks.judge_noise [--quick]

The whole pipeline is run with other seeds and judge noises (standard deviation of the averaged
judgement, on the scale of the label). `calibrated-ips` weights labels by m(S), which assumes that
E[Y | S] carries over to the target; part of a noisy high score is luck, so it does not. Reported
for each target: how often its interval covers the truth, how often the finding
`calibration-does-not-carry-over` is raised, how often the truth is missed without a finding, and
how often the interval covers where the labels themselves are weighted (augmentation).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.timing import main
from cje import CalibratedIPS, PrecomputedSampler
from cje.calibration import OracleSliceConfig
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.demo import demo_settings, true_values, write_demo

__all__ = ["run"]

NOISES = (0.06, 0.11, 0.2)
REPEATS, SLOPE = 3, 0.5
CODE = "calibration-does-not-carry-over"


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Three noises, two targets."""
    seeds = 4 if quick else 40
    truth: dict[str, float] = {}
    rows = []
    for noise in NOISES:
        runs = []
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(_one(Path(folder), seed, noise, truth))
        for k, policy in enumerate(("near", "moderate")):
            covered, accused, weighted, error = np.array([r[k] for r in runs]).T
            silent = float(np.mean((covered == 0) & (accused == 0)))
            rows.append(
                {
                    "bar": f"{policy}, judge noise {noise}: intervals that hold the truth",
                    "value": float(covered.mean()),
                    "limit": "reported",
                    "ok": True,
                    "note": f"reported in {accused.mean():.2f} of {seeds} runs, missed without a "
                    f"finding {silent:.2f}; bias {error.mean():+.4f}; labels weighted by W hold "
                    f"{weighted.mean():.2f}",
                }
            )
            print(rows[-1]["bar"], f"{rows[-1]['value']:.2f}", rows[-1]["note"], flush=True)
    return rows


def _one(
    folder: Path, seed: int, noise: float, truth: dict[str, float]
) -> list[tuple[bool, bool, bool, float]]:
    """(covered, accused, covered with labels weighted, error) of the targets near and moderate."""
    path = write_demo(folder, seed)
    settings = demo_settings(seed)
    settings["judge"] |= {"noise": noise * SLOPE * REPEATS**0.5, "n_repeats": REPEATS}
    path.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    config = load_config(path)
    if not truth:
        truth.update(true_values(config.target_policies))
    result = CJEPipeline(config).run().first
    assert result.evidence is not None  # fresh from a run, not loaded
    augmented = CalibratedIPS(
        PrecomputedSampler(result.evidence.dataset),
        oracle_slice_config=OracleSliceConfig(enable_augmentation=True),
    ).fit_and_estimate()
    found = []
    for policy in ("near", "moderate"):
        k, other = result.policies.index(policy), augmented.policies.index(policy)
        (low, high), (low_w, high_w) = result.ci()[k], augmented.ci()[other]
        true = truth[policy]
        accused = any(f.code == CODE and f.subject == policy for f in result.findings)
        error = float(result.estimates[k]) - true
        found.append((low <= true <= high, accused, low_w <= true <= high_w, error))
    return found


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
