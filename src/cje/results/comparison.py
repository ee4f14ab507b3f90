"""Comparisons of two policies, and the best policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from cje.errors import CJEError
from cje.inference import InfluenceEstimate, Interval, holm

__all__ = ["BestPolicy", "Comparison", "adjusted", "check_margin", "compare", "refused_pair"]


@dataclass(frozen=True)
class Comparison:
    """The paired difference ``a - b``.

    Attributes
    ----------
    difference, standard_error, p_value : float
        Two-sided test of no difference, clustered by prompt. NaN where the pair is `refused`.
    interval : Interval
        Of this pair alone.
    margin, p_non_inferior : float, optional
        Test of the claim that `a` is worse than `b` by less than `margin` (one-sided).
    caveats : tuple of str
        Conditions of the number, such as borrowed calibration.
    p_non_inferior_back : float, optional
        The same claim with `a` and `b` exchanged; both together are an equivalence test.
    p_adjusted, p_non_inferior_adjusted, p_non_inferior_back_adjusted : float, optional
        In a table of several comparisons: adjusted for their number (Holm). None for a pair that is
        asked for by itself.
    adjusted_interval : Interval, optional
        All intervals of the table hold jointly (Bonferroni). Holm's test never contradicts them: if
        the interval excludes zero, `p_adjusted` is significant.
    refused : str, optional
        The reason if one of the two values was refused. All numbers are then NaN.
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
    p_non_inferior_back: float | None = None
    p_adjusted: float | None = None
    p_non_inferior_adjusted: float | None = None
    p_non_inferior_back_adjusted: float | None = None
    adjusted_interval: Interval | None = None
    refused: str | None = None

    @property
    def verdict(self) -> str:
        """``"better"``, ``"worse"``, ``"non-inferior"``, ``"inconclusive"`` or ``"refused"``.

        In a table of several comparisons the adjusted p-values decide; a pair by itself is decided
        by its own interval.
        """
        if self.refused is not None:
            return "refused"
        half = (1.0 - self.interval.level) / 2.0
        low, high = self.interval
        if self.p_adjusted is not None:
            apart = self.p_adjusted < 2.0 * half
            low, high = (self.difference, self.difference) if apart else (0.0, 0.0)
        claim = self.p_non_inferior
        if self.p_non_inferior_adjusted is not None:
            claim = self.p_non_inferior_adjusted
        if low > 0.0:
            return "better"
        if claim is not None and claim < half:
            return "non-inferior"
        return "worse" if high < 0.0 else "inconclusive"

    def reversed(self) -> Comparison:
        """The same comparison as ``b - a``."""
        return replace(
            self,
            a=self.b,
            b=self.a,
            difference=-self.difference,
            interval=_mirrored(self.interval),
            p_non_inferior=self.p_non_inferior_back,
            p_non_inferior_back=self.p_non_inferior,
            p_non_inferior_adjusted=self.p_non_inferior_back_adjusted,
            p_non_inferior_back_adjusted=self.p_non_inferior_adjusted,
            adjusted_interval=self.adjusted_interval and _mirrored(self.adjusted_interval),
        )

    def alone(self) -> Comparison:
        """The same comparison by itself, without adjustment."""
        return replace(
            self,
            p_adjusted=None,
            p_non_inferior_adjusted=None,
            p_non_inferior_back_adjusted=None,
            adjusted_interval=None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; a refused pair has None in place of every number."""
        found = asdict(self) | {"caveats": list(self.caveats), "verdict": self.verdict}
        if self.refused is not None:
            found |= dict.fromkeys(_NUMBERS)
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Comparison:
        """The inverse of `to_dict`; further keys are ignored."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name != "refused"}
        known["refused"] = data.get("refused")  # not in version 2
        if known["refused"] is not None:
            return refused_pair(
                str(known["a"]),
                str(known["b"]),
                str(known["refused"]),
                level=float("nan"),
                margin=known["margin"],
                caveats=tuple(known["caveats"]),
            )
        wide = known["adjusted_interval"]
        return cls(
            **known
            | {
                "interval": Interval(**known["interval"]),
                "adjusted_interval": None if wide is None else Interval(**wide),
                "caveats": tuple(known["caveats"]),
            }
        )

    def __str__(self) -> str:
        if self.refused is not None:
            return f"{self.a} - {self.b}: refused ({self.refused})"
        low, high = self.interval
        text = (
            f"{self.a} - {self.b} = {self.difference:+.4g} "
            f"({self.interval.level:.0%} interval {low:+.4g} to {high:+.4g}, "
            f"p = {self.p_value:.3g}): {self.verdict}"
        )
        if self.margin is not None and self.p_non_inferior is not None:
            text += (
                f"\n  at most the margin of {self.margin:g} worse: "
                f"p = {self.p_non_inferior:.3g} (one-sided)"
            )
        return text + "".join(f"\n  caution: {caveat}" for caveat in self.caveats)


# Numbers that a refused pair does not have.
_NUMBERS = (
    "difference", "standard_error", "p_value", "interval", "p_non_inferior",
    "p_non_inferior_back", "p_adjusted", "p_non_inferior_adjusted",
    "p_non_inferior_back_adjusted", "adjusted_interval",
)  # fmt: skip


def refused_pair(
    a: str, b: str, reason: str, *, level: float, margin: float | None, caveats: tuple[str, ...]
) -> Comparison:
    """A refused comparison, because a value was refused: NaN, and the reason."""
    nan = math.nan
    return Comparison(
        a, b, nan, nan, Interval(nan, nan, level), nan, margin, caveats=caveats, refused=reason
    )


@dataclass(frozen=True)
class BestPolicy:
    """The best policy, or None if no policy may be named.

    Attributes
    ----------
    policy : str, optional
        Policy with the highest estimate among the usable policies; None if there is none.
    ties : tuple of str
        Usable policies whose difference to `policy` is not significant (max-t, joint level).
    excluded : mapping name -> reason
        Policies that a gate refused; `note` also names them.
    note : str
        The answer as a sentence.
    warnings : tuple of str
        Warnings about `policy` itself; part of `note`.
    """

    policy: str | None
    ties: tuple[str, ...]
    excluded: dict[str, str]
    note: str
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self) | {"ties": list(self.ties), "warnings": list(self.warnings)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BestPolicy:
        """The inverse of `to_dict`."""
        known = {name: data[name] for name in cls.__dataclass_fields__}
        return cls(**known | {"ties": tuple(known["ties"]), "warnings": tuple(known["warnings"])})

    def __str__(self) -> str:
        return self.note


def check_margin(margin: Any) -> float | None:
    """Check a non-inferiority margin: None, or a positive finite number."""
    if margin is None:
        return None
    number = isinstance(margin, int | float) or hasattr(margin, "__float__")
    if not number or isinstance(margin, bool) or not 0.0 < float(margin) < math.inf:
        raise CJEError(
            "a non-inferiority margin must be positive and finite",
            value=margin,
            hint="give the largest loss that is still acceptable, on the label's scale",
        )
    return float(margin)


def compare(
    influence: InfluenceEstimate,
    a: str,
    b: str,
    *,
    level: float,
    margin: float | None,
    caveats: tuple[str, ...],
    among: int | None = None,
) -> Comparison:
    """Compare two quantities of one estimate, as one of `among` comparisons in a table."""
    if a == b:
        raise CJEError("a policy cannot be compared with itself", value=a)
    margin = check_margin(margin)
    gap = influence.difference(a, b)
    there = back = None
    if margin is not None:
        there = float(gap.p_values(-margin, "greater")[0])
        back = float(gap.p_values(margin, "less")[0])
    wide = None
    if among is not None:
        low, high = gap.intervals(1.0 - (1.0 - level) / among)[0]
        wide = Interval(low, high, level, "bonferroni")
    return Comparison(
        a,
        b,
        float(gap.values[0]),
        float(gap.standard_errors()[0]),
        gap.intervals(level)[0],
        float(gap.p_values()[0]),
        margin,
        there,
        caveats,
        back,
        adjusted_interval=wide,
    )


def adjusted(
    pairs: Sequence[Comparison], among: int | None = None
) -> tuple[tuple[Comparison, float], ...]:
    """Add Holm-adjusted p-values to a table of comparisons (NaN for a refused pair).

    Tests of no difference are one family; claims of non-inferiority, in both directions, another.
    Refused pairs belong to neither. `among` is the number of pairs from which the table was
    selected, if that is more than the table shows.
    """
    if any(pair.refused is not None for pair in pairs):
        done = iter(adjusted([pair for pair in pairs if pair.refused is None], among))
        return tuple((p, math.nan) if p.refused is not None else next(done) for p in pairs)
    claims: list[float | None] = [None] * (2 * len(pairs))
    both = [p for pair in pairs for p in (pair.p_non_inferior, pair.p_non_inferior_back)]
    known = [p for p in both if p is not None]
    if known and len(known) == len(both):
        claims = list(_shaffer(known, max(among or 0, len(pairs))))
    p_values = holm([pair.p_value for pair in pairs], among).tolist()
    table = zip(pairs, p_values, claims[::2], claims[1::2], strict=True)
    return tuple(
        (
            replace(
                pair,
                p_adjusted=p,
                p_non_inferior_adjusted=there,
                p_non_inferior_back_adjusted=back,
            ),
            p,
        )
        for pair, p, there, back in table
    )


def _shaffer(p_values: Sequence[float], pairs: int) -> list[float]:
    """Holm's adjustment for claims in both directions, of which at most one per pair can be wrong.

    So at most half of the claims can be wrong, and no factor exceeds that half (Shaffer 1986, JASA
    81, 826-831).
    """
    p = np.asarray(p_values)
    order = np.argsort(p, kind="stable")
    factor = np.minimum(2 * pairs - np.arange(len(p)), pairs)
    found = np.empty_like(p)
    found[order] = np.minimum(np.maximum.accumulate(p[order] * factor), 1.0)
    return [float(value) for value in found]


def _mirrored(interval: Interval) -> Interval:
    return replace(interval, low=-interval.high, high=-interval.low)
