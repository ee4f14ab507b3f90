"""Settings of the stacked weight calibration (`cje.calibration.weights.simcal`)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from cje.checks import check_share, is_number
from cje.errors import CJEError

__all__ = ["SimcalConfig"]

OBJECTIVES = ("projection", "variance")
_DIRECTIONS = ("increasing", "decreasing")


@dataclass(frozen=True)
class SimcalConfig:
    """Settings of `SIMCalibrator`.

    Parameters
    ----------
    ess_floor : float, optional
        Least effective sample size, as a share of n: mean-one weights get a variance of at most
        1 / ess_floor - 1, by blending towards 1. Blending trades bias for variance, so by default
        there is no floor.
    var_cap : float, optional
        Largest variance of the mean-one weights, absolute; by blending too.
    include_baseline : bool
        Let the raw weights into the stack (default): they take over where the score explains too
        little for a projection to be trusted. Without them the projection is used alone.
    baseline_shrink : float
        Share of the raw weights mixed into the result, 0 to 1.
    ridge_lambda : float
        Ridge on the stack's matrix, relative to its mean diagonal.
    n_folds : int
        Folds of the out-of-fold comparison where `fold_ids` are not given: every n-th score where
        scores are distinct, otherwise hashed from each row's score and weights. The order of the
        rows does not matter.
    objective : {"projection", "variance"}
        ``projection`` (default) stacks for the least error against E[W|S]. ``variance`` is the rule
        of the original design, least influence variance alone. **It is unsafe**: it prefers the
        wrong direction, and intervals built on it miss the truth (docs/methods/calibration.md).
    """

    ess_floor: float | None = None
    var_cap: float | None = None
    include_baseline: bool = True
    baseline_shrink: float = 0.0
    ridge_lambda: float = 1e-8
    n_folds: int = 5
    objective: str = "projection"

    def __post_init__(self) -> None:
        floor, cap, shrink = self.ess_floor, self.var_cap, self.baseline_shrink
        if floor is not None:
            check_share("ess_floor", floor)
        if cap is not None and not (is_number(cap) and cap >= 0):
            raise CJEError("var_cap must be a non-negative number", value=cap)
        if not (is_number(shrink) and 0 <= shrink <= 1):
            raise CJEError("baseline_shrink must lie in [0, 1]", value=shrink)
        if not (is_number(self.ridge_lambda) and self.ridge_lambda >= 0):
            raise CJEError("ridge_lambda must be a non-negative number", value=self.ridge_lambda)
        if not isinstance(self.n_folds, int | np.integer) or self.n_folds < 2:
            raise CJEError("n_folds must be an integer of at least 2", value=self.n_folds)
        if not isinstance(self.objective, str) or self.objective not in OBJECTIVES:
            raise CJEError("Unknown objective", value=self.objective, hint=" or ".join(OBJECTIVES))
        implied = self.implied_var_cap()
        if implied is not None and self.var_cap is not None and implied < self.var_cap:
            warnings.warn(
                f"ess_floor={self.ess_floor} implies a variance of at most {implied:.3g}, tighter "
                f"than var_cap={self.var_cap}: the ESS constraint dominates",
                stacklevel=3,
            )

    def implied_var_cap(self) -> float | None:
        """The variance of mean-one weights at the ESS floor: ESS / n = 1 / (1 + Var)."""
        return None if self.ess_floor is None else 1.0 / self.ess_floor - 1.0

    def tightest_cap(self) -> float:
        """The smaller of the two caps, infinite where neither is set."""
        caps = [c for c in (self.implied_var_cap(), self.var_cap) if c is not None]
        return min(caps, default=np.inf)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of the stack's members, in the order of `mixture_weights`."""
        return (("baseline",) if self.include_baseline else ()) + _DIRECTIONS
