"""Monte Carlo studies of calibration against known truth, and the Arena sample.

Shared by ``python -m benchmarks.calibration``, the tests (short versions) and the pictures of
docs/methods/calibration.md.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cje import simulate
from cje.calibration import (
    SimcalConfig,
    SIMCalibrator,
    fit_reward_model,
    projection_influence,
)
from cje.calibration.rewards.reward_model import FloatArray
from cje.data.folds import get_folds

ARENA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "arena"
JUDGES = ("monotone", "non_monotone", "mild_dip")
WEIGHT_SHAPES = ("rising", "falling", "u_shaped")
OBJECTIVES = ("projection", "variance")
# A constant is right by symmetry where a U meets a curve that is odd around the middle, so the U
# is studied with the arch.
_CURVE = {"rising": "monotone", "falling": "monotone", "u_shaped": "non_monotone"}


@dataclass(frozen=True)
class ModeStudy:
    """Mode selection on one judge over many draws."""

    judge: str
    draws: int
    share_two_stage: float
    share_skipped: float  # two-stage never trained
    rmse_ratio: float  # mean out-of-fold RMSE of auto over that of the better mode
    worst_ratio: float  # the same within the worst draw, the better mode chosen draw by draw


def mode_selection_study(judge: str, draws: int, n_labels: int = 200) -> ModeStudy:
    """How often auto picks two-stage, and what it costs out of fold against the better mode."""
    modes = ("auto", "monotone", "two_stage")
    rmse = np.empty((draws, len(modes)))
    two_stage = skipped = 0
    for seed in range(draws):
        data = getattr(simulate, f"{judge}_judge")(1000, n_labels, seed=seed).dataset
        rows = data.is_labelled
        folds = get_folds(data.prompt_id, 5, 42)[rows]
        scores, labels = data.judge_score[rows], data.oracle_label[rows]
        for j, mode in enumerate(modes):
            model = fit_reward_model(scores, labels, folds=folds, n_folds=5, mode=mode)
            error = labels - model.predict_oof(scores, folds)
            rmse[seed, j] = np.sqrt(np.mean(error**2))
            if mode == "auto":
                two_stage += model.mode == "two_stage"
                skipped += not model.selection.two_stage_trained
    means = rmse.mean(axis=0)
    return ModeStudy(
        judge, draws, two_stage / draws, skipped / draws,
        float(means[0] / means[1:].min()),
        float(np.max(rmse[:, 0] / rmse[:, 1:].min(axis=1))),
    )  # fmt: skip


@dataclass(frozen=True)
class WeightStudy:
    """One objective under one shape of E[W|S]: error and coverage of nominal 95% intervals."""

    shape: str
    objective: str
    draws: int
    bias: float
    sd: float
    coverage: float  # influence that knows E[W|S] was estimated
    naive_coverage: float  # influence that takes the projected weights as given
    ess_before: float
    ess_after: float


def weight_study(
    shape: str, objective: str, draws: int, n: int = 2000, overlap: float = 0.4, **config: Any
) -> WeightStudy:
    """Weighted mean of the outcome with SIMCal weights, against the exact value of the target."""
    columns = np.empty((draws, 5))
    for seed in range(draws):
        columns[seed] = _one_weight_draw(shape, objective, seed, n, overlap, config)
    error, inside, naive, before, after = columns.T
    return WeightStudy(
        shape, objective, draws, float(error.mean()), float(error.std(ddof=1)),
        float(inside.mean()), float(naive.mean()), float(before.mean()), float(after.mean()),
    )  # fmt: skip


def _one_weight_draw(
    shape: str, objective: str, seed: int, n: int, overlap: float, config: dict[str, Any]
) -> tuple[float, float, float, float, float]:
    curve: Any = _CURVE[shape]
    sim = simulate.logged_with_logprobs(
        n, 0, targets={"t": overlap}, weight_shape=shape, shape=curve,  # type: ignore[arg-type]
        seed=seed, fresh_draws=0,
    )  # fmt: skip
    raw, scores = importance_weights(sim.dataset)[:, 0], sim.dataset.judge_score
    expected = simulate.true_curve(curve)(scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"include_baseline": objective == "projection"} | config
        calibrator = SIMCalibrator(SimcalConfig(objective=objective, **settings))
        weights, info = calibrator.transform(raw, scores, rewards=expected)
    y = sim.outcomes
    estimate = float(np.mean(weights * y))
    error = estimate - sim.truth["t"]
    se = projection_influence(raw, weights, y, expected).std(ddof=1) / np.sqrt(n)
    naive = (weights * (y - estimate)).std(ddof=1) / np.sqrt(n)
    return (
        error, abs(error) < 1.96 * se, abs(error) < 1.96 * naive,
        info["ess_before"] / n, info["ess_after"] / n,
    )  # fmt: skip


def importance_weights(data: Any) -> FloatArray:
    """exp(target log-prob - base log-prob), shifted by the largest of each target (ratios only)."""
    ratios = data.target_policy_logprobs - data.base_policy_logprob[:, None]
    return np.asarray(np.exp(ratios - ratios.max(axis=0)))


def read_arena(folder: Path = ARENA) -> dict[str, Any] | None:
    """The Arena sample as arrays, or None where it is absent."""
    if not (folder / "logged.jsonl").exists():
        return None
    logged = _jsonl(folder / "logged.jsonl")
    targets = sorted(logged[0]["target_policy_logprobs"])
    fresh = {name: _jsonl(folder / "fresh_draws" / f"{name}.jsonl") for name in targets}
    probe = {name: _jsonl(folder / "probe_slice" / f"{name}.jsonl") for name in targets}
    base = np.array([r["base_policy_logprob"] for r in logged])
    ratios = np.array([[r["target_policy_logprobs"][t] for t in targets] for r in logged])
    ratios -= base[:, None]
    return {
        "targets": targets,
        "prompt_id": [r["prompt_id"] for r in logged],
        "score": np.array([r["judge_score"] for r in logged]),
        "label": _labels(logged),
        "weight": np.exp(ratios - ratios.max(axis=0)),
        "fresh_score": {t: np.array([r["judge_score"] for r in fresh[t]]) for t in targets},
        "probe_label": {t: _labels(probe[t]) for t in targets},
    }


def arena_table(folder: Path = ARENA) -> list[dict[str, Any]]:
    """For each target: effective sample size and estimate; raw, default and published rule."""
    data = read_arena(folder)
    if data is None:
        return []
    labelled = ~np.isnan(data["label"])
    folds = get_folds(data["prompt_id"], 5, 42)
    model = fit_reward_model(
        data["score"][labelled], data["label"][labelled], folds=folds[labelled], n_folds=5
    )
    reward = model.predict(data["score"])
    n = len(reward)
    rows = []
    for k, target in enumerate(data["targets"]):
        raw = data["weight"][:, k]
        row: dict[str, Any] = {
            "target": target,
            "raw_ess": float(raw.sum() ** 2 / np.sum(raw**2) / n),
            "raw_estimate": float(raw @ reward / raw.sum()),
            "fresh_estimate": float(model.predict(data["fresh_score"][target]).mean()),
            "probe_labels_mean": float(np.nanmean(data["probe_label"][target])),
        }
        for name, config in (
            ("default", SimcalConfig()),
            ("projection", SimcalConfig(include_baseline=False)),
            ("published", SimcalConfig(objective="variance", include_baseline=False)),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                weights, info = SIMCalibrator(config).transform(
                    raw, data["score"], rewards=reward, fold_ids=folds
                )
            row[f"{name}_ess"] = float(info["ess_after"] / n)
            row[f"{name}_estimate"] = float(np.mean(weights * reward))
        rows.append(row)
    return rows


def _jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _labels(records: list[dict[str, Any]]) -> FloatArray:
    values = [r["oracle_label"] for r in records]
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
