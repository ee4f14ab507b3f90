"""Short form of the adversarial cells: 24 repetitions, family-wise bound of 1% over all bars."""

from __future__ import annotations

from functools import cache

import pytest
from scipy.stats import binom

from studies.stress_offpolicy import CELLS, LOGGED, records, summary

REPETITIONS = 24
SHORT = (
    "honest log",
    "hidden quality, slope 0.2",
    "log-prob noise .5, stated",
    "log-probs wrong by length",
    "truncated support, 90%",
)
_CELLS = {cell.name: cell for cell in CELLS}
_BARS = [(name, one) for name in SHORT for one in _CELLS[name].estimators]


@cache
def found(name: str):
    return records(_CELLS[name], REPETITIONS, seed=2_026)


@pytest.mark.parametrize(("name", "estimator"), _BARS)
def test_an_interval_covers_or_the_value_is_refused(name, estimator):
    s = summary(_CELLS[name], estimator, found(name)[estimator])
    least = binom.ppf(0.01 / len(_BARS), REPETITIONS, 0.95)
    assert round(s.repetitions * (1.0 - s.silent)) >= least
    if _CELLS[name].rule == "cover":
        assert s.refused < 0.2
        assert s.width_ratio < 1.5


@pytest.mark.parametrize("estimator", LOGGED)
def test_a_log_without_part_of_the_target_is_refused(estimator):
    s = summary(
        _CELLS["truncated support, 90%"], estimator, found("truncated support, 90%")[estimator]
    )
    assert s.refused == 1.0
