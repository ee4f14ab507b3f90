"""`GateRule`: from an interval of candidate minus baseline to PASS, FAIL or UNDECIDED."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cje.errors import CJEError

__all__ = ["Decision", "GateRule"]


class Decision(StrEnum):
    """The outcome of a gate."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNDECIDED = "UNDECIDED"


@dataclass(frozen=True)
class GateRule:
    r"""When a candidate passes, from the two-sided interval of candidate minus baseline.

    With :math:`t = -margin`, :math:`t = min\_gain`, or :math:`t = 0` where neither is given
    (superiority), and the interval :math:`[l, u]`: PASS if :math:`l > t`, FAIL if :math:`u < t`,
    otherwise UNDECIDED. If the interval covers with probability 95% and its two tails are equal, a
    candidate whose true difference is exactly t passes with probability 2.5%, and fails with 2.5%.

    Parameters
    ----------
    margin : float, optional
        Largest loss that is still acceptable, on the label's scale (non-inferiority).
    min_gain : float, optional
        Smallest gain that justifies shipping. Not together with `margin`.

    Raises
    ------
    CJEError
        For a negative or infinite margin or gain, and for both at once.

    Examples
    --------
    >>> rule = GateRule(margin=0.02)
    >>> rule.decide(-0.01, 0.05), rule.decide(-0.09, -0.03), rule.decide(-0.04, 0.05)
    (<Decision.PASS: 'PASS'>, <Decision.FAIL: 'FAIL'>, <Decision.UNDECIDED: 'UNDECIDED'>)
    >>> GateRule().decide(0.0, 0.0)  # no evidence of a gain
    <Decision.UNDECIDED: 'UNDECIDED'>
    """

    margin: float | None = None
    min_gain: float | None = None

    def __post_init__(self) -> None:
        for name in ("margin", "min_gain"):
            value: Any = getattr(self, name)
            if value is None:
                continue
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not (0.0 <= value < math.inf)
            ):
                raise CJEError(
                    f"the {name.replace('_', ' ')} of a gate must be a finite number, zero or more",
                    value=value,
                    hint="give it on the label's scale",
                )
        if self.margin is not None and self.min_gain is not None:
            raise CJEError(
                "a gate has a margin or a minimal gain, not both",
                value=(self.margin, self.min_gain),
                hint="a margin allows a small loss, a minimal gain requires a gain",
            )

    @property
    def threshold(self) -> float:
        """The difference that the interval must lie above to pass."""
        if self.min_gain is not None:
            return float(self.min_gain)
        return 0.0 if not self.margin else -float(self.margin)

    def claim(self, baseline: str) -> str:
        """The conclusion of a PASS about the candidate, as the end of a sentence."""
        if self.min_gain:
            return f"better than {baseline} by more than {self.min_gain:g}"
        if self.margin:
            return f"at most {self.margin:g} worse than {baseline}"
        return f"better than {baseline}"

    def opposite(self, baseline: str) -> str:
        """The conclusion of a FAIL about the candidate."""
        if self.min_gain:
            return f"not better than {baseline} by as much as {self.min_gain:g}"
        if self.margin:
            return f"worse than {baseline} by more than {self.margin:g}"
        return f"worse than {baseline}"

    def decide(self, low: float | None, high: float | None) -> Decision:
        """The decision for the interval from `low` to `high`; None or NaN: no interval."""
        if low is None or high is None or math.isnan(low) or math.isnan(high):
            return Decision.UNDECIDED
        if low > self.threshold:
            return Decision.PASS
        return Decision.FAIL if high < self.threshold else Decision.UNDECIDED
