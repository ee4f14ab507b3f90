"""Hash seed, locale, time zone and batch size change no byte; row order at most 1e-12."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cje import analyze_dataset, classification, survival
from cje.calibration import JudgeCalibrator, SIMCalibrator
from cje.data import Dataset, JudgeScores, PrecomputedSampler
from cje.estimators import EstimationResult
from cje.estimators.registry import REGISTRY
from cje.simulate import logged_with_logprobs, policies_on_shared_prompts
from cje.uncertainty import UncertaintyAwareDRCPO

_SCRIPT = """
import sys
from cje import analyze_dataset
result = analyze_dataset(sys.argv[1], by="group")
result.to_json(sys.argv[2])
print(result.summary())
"""
_COUNTRY = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Pacific/Chatham"}


def _frame() -> pl.DataFrame:
    data = policies_on_shared_prompts(150, 3, 40, seed=5).dataset
    return pl.DataFrame(
        {
            "prompt_id": data.prompt_id.decode(),
            "policy": data.policy.decode(),
            "judge_score": data.judge_score,
            "oracle_label": pl.Series(data.oracle_label).fill_nan(None),
            "group": [["x", "y", "z"][int(name[-1]) % 3] for name in data.prompt_id.decode()],
        }
    )


def _run(source: Path, out: Path, **environment: str) -> tuple[bytes, str]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(source), str(out)], check=True, capture_output=True,
        text=True, encoding="utf-8", env=os.environ | {"PYTHONIOENCODING": "utf-8"} | environment,
    )  # fmt: skip
    return out.read_bytes(), done.stdout


def test_hash_seed_locale_and_time_zone_change_no_byte(tmp_path: Path) -> None:
    source = tmp_path / "rows.parquet"
    _frame().write_parquet(source)
    first = _run(source, tmp_path / "a.json", PYTHONHASHSEED="0", TZ="UTC", LC_ALL="C.UTF-8")
    second = _run(source, tmp_path / "b.json", PYTHONHASHSEED="12345", **_COUNTRY)
    threads = _run(source, tmp_path / "c.json", POLARS_MAX_THREADS="1", PYTHONHASHSEED="7")
    assert first == second
    assert first == threads


def test_the_size_of_row_groups_changes_no_byte(tmp_path: Path) -> None:
    found = set()
    for size in (7, 64, 10_000):
        source = tmp_path / f"rows{size}" / "rows.parquet"
        source.parent.mkdir()
        _frame().write_parquet(source, row_group_size=size)
        result = analyze_dataset(source)
        found.add(result.to_json().replace(str(source), "source"))
    assert len(found) == 1


def _close(a: EstimationResult, b: EstimationResult) -> None:
    assert a.policies == b.policies
    for left, right in (
        (a.estimates, b.estimates),
        (a.standard_errors, b.standard_errors),
        (a.robust_standard_errors, b.robust_standard_errors),
        (np.array(a.ci()), np.array(b.ci())),
    ):
        np.testing.assert_allclose(left, right, rtol=0.0, atol=1e-12)


def test_row_order_moves_an_analysis_by_rounding_alone() -> None:
    frame = _frame()
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=3)
    plain, other = analyze_dataset(frame), analyze_dataset(shuffled)
    order = [other.policies.index(name) for name in plain.policies]
    np.testing.assert_allclose(plain.estimates, other.estimates[order], rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(
        plain.robust_standard_errors, other.robust_standard_errors[order], rtol=0.0, atol=1e-12
    )
    np.testing.assert_allclose(
        np.array(plain.ci()), np.array(other.ci())[order], rtol=0.0, atol=1e-12
    )


@pytest.mark.parametrize(
    "name", [name for name, e in REGISTRY.items() if e.needs in ("logged", "both")]
)
def test_row_order_moves_an_off_policy_estimate_by_rounding_alone(name: str) -> None:
    sim = logged_with_logprobs(300, 80, seed=2)
    order = np.random.default_rng(0).permutation(len(sim.dataset))

    def estimate(data: Dataset) -> EstimationResult:
        sampler, entry = PrecomputedSampler(data), REGISTRY[name]
        given = (sampler,) if entry.needs == "logged" else (sampler, sim.fresh)
        result: EstimationResult = entry.load()(*given).fit_and_estimate()
        return result

    _close(estimate(sim.dataset), estimate(sim.dataset.select(order)))


N = 400
_RNG = np.random.default_rng(0)
SCORE, WEIGHT = np.round(_RNG.random(N), 2), _RNG.lognormal(size=N)  # ties, as judges give them
HIT, TIME = _RNG.random(N) < SCORE, np.ceil(20 * _RNG.exponential(size=N)) / 20
LABEL = np.clip(SCORE + _RNG.normal(0, 0.1, N), 0, 1)
SEEN = _RNG.random(N) < 0.4
ORDER = _RNG.permutation(N)
BINARY = ["expected_calibration_error", "debiased_ece", "maximum_calibration_error", "smooth_ece",
          "kuiper_error", "kolmogorov_smirnov_error", "brier_score", "spiegelhalter_z"]  # fmt: skip
TIMED = ["calibration_slope", "integrated_calibration_index", "observed_expected_at_horizon",
         "harrell_c", "uno_c", "time_dependent_auc", "brier_score"]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_row_order_moves_a_calibration_metric_by_rounding_alone(name: str) -> None:
    metric = getattr(classification, name)
    moved = float(metric(HIT[ORDER], SCORE[ORDER])) - float(metric(HIT, SCORE))
    assert abs(moved) <= 1e-12


@pytest.mark.parametrize("name", TIMED)
def test_row_order_moves_a_survival_metric_by_rounding_alone(name: str) -> None:
    metric = getattr(survival, name)
    plain = metric(SCORE, TIME, HIT)
    other = metric(SCORE[ORDER], TIME[ORDER], HIT[ORDER])
    np.testing.assert_allclose(
        [float(plain), *plain.interval], [float(other), *other.interval], rtol=0.0, atol=1e-12
    )


def test_row_order_moves_rewards_weights_and_judge_uncertainty_by_rounding_alone() -> None:
    def work(order: np.ndarray) -> np.ndarray:
        names = [f"p{k}" for k in order]
        model = JudgeCalibrator()
        model.fit_cv(SCORE[order], LABEL[order], SEEN[order], n_folds=5, prompt_ids=names)
        weights = SIMCalibrator().transform(WEIGHT[order], SCORE[order], rewards=LABEL[order])[0]
        found = UncertaintyAwareDRCPO().fit(
            judge_scores=JudgeScores(SCORE[order], np.full(N, 0.01)),
            oracle_rewards=np.where(SEEN, LABEL, np.nan)[order],
            importance_weights=WEIGHT[order],
            prompt_ids=names,
        )
        back = np.argsort(order)
        values = [*found.get_estimates(), *found.get_standard_errors()]
        return np.concatenate([model.predict(SCORE[order])[back], weights[back], values])

    np.testing.assert_allclose(work(ORDER), work(np.arange(N)), rtol=0.0, atol=1e-12)
