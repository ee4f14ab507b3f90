"""Short versions of the Monte Carlo studies of benchmarks/calibration.py."""

from pathlib import Path

import pytest

from studies.calibration import (
    WEIGHT_SHAPES,
    arena_table,
    mode_selection_study,
    weight_study,
)


@pytest.mark.parametrize(
    ("judge", "low", "high"),
    [("monotone", 0.0, 0.10), ("non_monotone", 0.95, 1.0), ("mild_dip", 0.0, 1.0)],
)
def test_auto_mode_picks_the_better_model(judge: str, low: float, high: float) -> None:
    study = mode_selection_study(judge, draws=60)
    assert low <= study.share_two_stage <= high
    assert study.rmse_ratio <= 1.02


@pytest.mark.parametrize("shape", WEIGHT_SHAPES)
def test_the_default_covers_and_the_variance_rule_does_not(shape: str) -> None:
    default = weight_study(shape, "projection", draws=80)
    assert default.coverage >= 0.88  # 95% less three standard errors of 80 draws
    assert abs(default.bias) < 0.004
    unsafe = weight_study(shape, "variance", draws=20)
    assert unsafe.coverage <= 0.1
    assert abs(unsafe.bias) > 0.05


@pytest.mark.parametrize("shape", WEIGHT_SHAPES)
def test_the_projection_alone_covers_too(shape: str) -> None:
    study = weight_study(shape, "projection", draws=80, include_baseline=False)
    assert study.coverage >= 0.88
    assert study.ess_after > 1.2 * study.ess_before


def test_a_hopeless_target_keeps_its_small_effective_sample(arena: Path) -> None:
    rows = {row["target"]: row for row in arena_table(arena)}
    assert rows["clone"]["raw_ess"] == pytest.approx(0.21, abs=0.06)
    assert rows["unhelpful"]["raw_ess"] < 0.01
    # The published rule makes the hopeless target look fine; the default does not.
    assert rows["unhelpful"]["published_ess"] > 0.6
    assert rows["unhelpful"]["default_ess"] < 0.05
    assert rows["clone"]["default_estimate"] == pytest.approx(
        rows["clone"]["fresh_estimate"], abs=0.03
    )
