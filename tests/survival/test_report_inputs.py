"""What `survival_report` refuses, leaves out with a reason, or reads in R's manner."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cje.errors import CJEError
from cje.survival import compare_survival, integrated_calibration_index, survival_report
from cje.survival.in_the_large import calibration_in_the_large


def _exponential(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hazard, time and event of a model that is right; follow-up ends at 3."""
    rng = np.random.default_rng(seed)
    hazard = np.exp(0.6 * rng.normal(size=n))
    latent = rng.exponential(1 / hazard)
    return hazard, np.minimum(latent, 3.0), (latent <= 3.0).astype(int)


def test_curves_at_a_few_horizons_give_no_oe_at_own_times_but_say_why() -> None:
    hazard, time, event = _exponential()
    for grid in ([0.5, 1.0], [0.5, 1.0, 3.0]):
        frame = pd.DataFrame({t: np.exp(-hazard * t) for t in grid})
        report = survival_report(frame, (time, event), [0.5, 1.0])
        assert "O/E" not in [m.label for m in report.metrics]
        assert "curves over all observed times" in report.omitted["O/E"]
        assert [f.code for f in report.findings] == ["curve-too-coarse"]
        assert 1.0 in report["O/E at 1"].interval
    fine = np.linspace(0.01, 3.0, 300)
    curves = survival_report(np.exp(-np.outer(hazard, fine)), (time, event), [1.0], times=fine)
    exact = calibration_in_the_large(np.exp(-hazard * time), event)
    assert float(curves["O/E"]) == pytest.approx(float(exact), rel=0.01)


def test_delayed_entry_takes_survival_at_entry_for_oe_at_own_times() -> None:
    hazard, time, event = _exponential()
    entry = 0.3 * np.random.default_rng(1).random(len(time))
    seen = time > entry
    hazard, time, event, entry = (a[seen] for a in (hazard, time, event, entry))
    own = {"survival_at_own_time": np.exp(-hazard * time)}
    y = (entry, time, event)
    report = survival_report(
        np.exp(-hazard), y, 1.0, survival_at_entry=np.exp(-hazard * entry), **own
    )
    assert float(report["O/E"]) == pytest.approx(event.sum() / (hazard * (time - entry)).sum())
    assert "survival at entry" in survival_report(np.exp(-hazard), y, 1.0, **own).omitted["O/E"]


@pytest.mark.parametrize("names", [("lower", "upper"), ("time", "time2"), ("Left", "Right")])
def test_frames_of_intervals_are_named_interval_censored(names: tuple[str, str]) -> None:
    frame = pd.DataFrame({names[0]: [1.0, 2.0], names[1]: [2.0, 4.0], "status": [3, 3]})
    with pytest.raises(CJEError, match="interval-censored times are not supported"):
        survival_report(np.array([0.5, 0.4]), frame, 1.5)


def test_codes_one_and_two_are_explained_as_rs_coding() -> None:
    hazard, time, event = _exponential(50)
    with pytest.raises(CJEError, match="subtract 1"):
        survival_report(np.exp(-hazard), (time, event + 1), 1.0)
    mixed = np.where(np.arange(50) % 3 == 0, 2, event)
    with pytest.raises(CJEError, match="cause=1") as caught:
        survival_report(np.exp(-hazard), (time, mixed), 1.0)
    assert ("subtract" in str(caught.value)) == (mixed.min() > 0)


def test_one_metric_at_two_horizons_is_printed_under_two_labels() -> None:
    hazard, time, event = _exponential()
    rows = {
        str(integrated_calibration_index(np.exp(-hazard * t), time, event, t)).split(":")[0]
        for t in (0.5, 1.0)
    }
    assert rows == {"ICI at 0.5", "ICI at 1"}


def test_two_models_of_equal_ranks_do_not_differ_by_rounding() -> None:
    hazard, time, event = _exponential()
    good = np.exp(-hazard)
    result = compare_survival(good, good**1.4, (time, event), [1.0])
    slope = next(d for d in result.differences if d.name == "calibration slope at 1")
    assert (slope.value, slope.p_value, *slope.interval) == (0.0, 1.0, 0.0, 0.0)
    assert "-0.0000" not in str(result)
