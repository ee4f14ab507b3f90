"""The rule of the gate on one interval."""

from __future__ import annotations

import math

import pytest

from cje.errors import CJEError
from cje.inference.decision import Decision, GateRule


@pytest.mark.parametrize(
    ("rule", "low", "high", "expected"),
    [
        (GateRule(), 0.01, 0.5, Decision.PASS),
        (GateRule(), -0.5, -0.01, Decision.FAIL),
        (GateRule(), -0.1, 0.1, Decision.UNDECIDED),
        (GateRule(), 0.0, 0.1, Decision.UNDECIDED),
        (GateRule(margin=0.02), -0.019, 0.1, Decision.PASS),
        (GateRule(margin=0.02), -0.02, 0.1, Decision.UNDECIDED),
        (GateRule(margin=0.02), -0.5, -0.021, Decision.FAIL),
        (GateRule(margin=0.02), -0.5, -0.019, Decision.UNDECIDED),
        (GateRule(min_gain=0.1), 0.05, 0.09, Decision.FAIL),
        (GateRule(min_gain=0.1), 0.11, 0.2, Decision.PASS),
        (GateRule(), None, None, Decision.UNDECIDED),
        (GateRule(), math.nan, math.nan, Decision.UNDECIDED),
    ],
)
def test_an_interval_beyond_the_threshold_decides(
    rule: GateRule, low: float | None, high: float | None, expected: Decision
) -> None:
    assert rule.decide(low, high) is expected


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan, "wide", True])
def test_a_margin_or_gain_that_is_not_a_size_is_an_error(value: object) -> None:
    for name in ("margin", "min_gain"):
        with pytest.raises(CJEError, match="must be a finite number"):
            GateRule(**{name: value})  # type: ignore[arg-type]


def test_margin_and_gain_together_are_an_error() -> None:
    with pytest.raises(CJEError, match="not both"):
        GateRule(margin=0.1, min_gain=0.1)
