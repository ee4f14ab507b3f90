"""What a result answers about two policies, and about the best one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cje.errors import CJEError
from cje.inference import InfluenceEstimate, Interval

__all__ = ["BestPolicy", "Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """The paired difference ``a - b``.

    Attributes
    ----------
    difference, standard_error, p_value : float
        Two-sided test of no difference, clustered by prompt.
    interval : Interval
    margin, p_non_inferior : float, optional
        Test of the claim that `a` is worse than `b` by less than `margin` (one-sided).
    caveats : tuple of str
        Why the number deserves care: borrowed calibration, refused policies.
    """

    a: str
    b: str
    difference: float
    standard_error: float
    interval: Interval
    p_value: float
    margin: float | None = None
    p_non_inferior: float | None = None
    caveats: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """``"better"``, ``"worse"``, ``"non-inferior"`` or ``"inconclusive"`` at the level."""
        alpha = 1.0 - self.interval.level
        if self.interval.low > 0.0:
            return "better"
        if self.p_non_inferior is not None and self.p_non_inferior < alpha / 2.0:
            return "non-inferior"
        return "worse" if self.interval.high < 0.0 else "inconclusive"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self) | {"caveats": list(self.caveats), "verdict": self.verdict}

    def __str__(self) -> str:
        low, high = self.interval
        text = (
            f"{self.a} - {self.b} = {self.difference:+.4g} "
            f"({self.interval.level:.0%} interval {low:+.4g} to {high:+.4g}, "
            f"p = {self.p_value:.3g}): {self.verdict}"
        )
        return text + "".join(f"\n  caution: {caveat}" for caveat in self.caveats)


@dataclass(frozen=True)
class BestPolicy:
    """The answer to "which one": a name, or none where the data name none.

    Attributes
    ----------
    policy : str, optional
        Highest estimate among the policies that may be used; None where no policy may.
    ties : tuple of str
        Usable policies whose difference to `policy` is not significant (max-t, joint level).
    excluded : mapping name -> reason
        Policies a gate refused. A refused policy with a higher estimate is named in `note`.
    note : str
        The answer in words.
    """

    policy: str | None
    ties: tuple[str, ...]
    excluded: dict[str, str]
    note: str

    def __str__(self) -> str:
        return self.note


def compare(
    influence: InfluenceEstimate,
    a: str,
    b: str,
    *,
    level: float,
    margin: float | None,
    caveats: tuple[str, ...],
) -> Comparison:
    """The comparison of two quantities of one estimate."""
    if a == b:
        raise CJEError("a policy cannot be compared with itself", value=a)
    if margin is not None and not margin > 0.0:
        raise CJEError("a non-inferiority margin must be positive", value=margin)
    gap = influence.difference(a, b)
    p_non_inferior = None if margin is None else float(gap.p_values(-margin, "greater")[0])
    return Comparison(
        a,
        b,
        float(gap.values[0]),
        float(gap.standard_errors()[0]),
        gap.intervals(level)[0],
        float(gap.p_values()[0]),
        margin,
        p_non_inferior,
        caveats,
    )
