"""The best policy, and those without a significant difference from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cje.inference import InfluenceEstimate
from cje.results.comparison import BestPolicy
from cje.results.decimals import decimals_for_errors

__all__ = ["find_best"]


def find_best(
    influence: InfluenceEstimate,
    refused: dict[str, str],
    borrowed: Collection[str],
    warnings: Mapping[str, tuple[str, ...]],
    level: float,
) -> BestPolicy:
    """The policy with the highest estimate among those that may be best, and its ties.

    A policy with borrowed calibration has too few labels to contradict the judge, so a judge that
    overrates it would make it the best: it may tie with the best policy, but not be it. Ties are
    policies without a significant difference to the best, by intervals that account for its
    selection (`InfluenceEstimate.lead_intervals`).
    """
    usable = [name for name in influence.names if name not in refused]
    eligible = [name for name in usable if name not in borrowed]
    if not usable:
        return BestPolicy(None, (), refused, "none: every value was refused")
    if not eligible:
        note = "none: every value rests on borrowed calibration; label responses of each policy"
        return BestPolicy(None, (), refused, note)
    value = dict(zip(influence.names, influence.values.tolist(), strict=True))
    best = max(eligible, key=lambda name: value[name])
    rivals = influence.select(usable)
    others = [name for name in usable if name != best]
    gaps = rivals.lead_intervals(best, level) if others else ()
    ties = tuple(n for n, gap in zip(others, gaps, strict=True) if gap.low <= 0.0)
    decimals = decimals_for_errors(rivals.standard_errors(full=True).tolist())
    note = f"{best} has the highest estimate, {value[best]:.{decimals}f}"
    if ties:
        note += f"; no significant difference to {', '.join(ties)}"
    note += _left_out(value, best, [n for n in usable if n in borrowed])
    for name, reason in refused.items():
        note += f"; {name} was refused: {reason}"
    if warnings[best]:
        note += f". Caution for {best}: {'; '.join(warnings[best])}"
    return BestPolicy(best, ties, refused, note, warnings[best])


def _left_out(value: Mapping[str, float], best: str, borrowed: Sequence[str]) -> str:
    """Policies with a higher estimate that are excluded because their calibration is borrowed."""
    higher = [name for name in borrowed if value[name] > value[best]]
    if not higher:
        return ""
    return f"; higher but with too few labels of their own: {', '.join(higher)}"
