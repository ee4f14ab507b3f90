"""The answers of a result saved without its influence matrix: the numbers as saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cje.errors import CJEError
from cje.hints import by_interface
from cje.results.comparison import BestPolicy, Comparison

__all__ = ["KeptAnswers"]


@dataclass(frozen=True)
class KeptAnswers:
    """The table, the paired differences and the best policy of a result, at its own level.

    Intervals depend on the influence of every cluster: on its skewness and degrees of freedom,
    separately for each difference. A covariance alone would give other intervals, so what was not
    computed before saving is refused and not approximated.
    """

    level: float
    margin: float | None
    rows: Mapping[str, Mapping[str, float]]
    pairs: Mapping[tuple[str, str], Comparison]
    best: BestPolicy | None

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], level: float) -> KeptAnswers:
        """From the saved ``table``, ``differences`` and ``best``."""
        numbers = (
            "single_low", "single_high", "joint_low", "joint_high",
            "standard_error", "robust_standard_error",
        )  # fmt: skip
        computed = content["diagnostics"].get("refused_values", {})
        rows = {
            str(row["name"]): {
                key: float((row if row[key] is not None else computed[row["name"]])[key])
                for key in numbers
            }
            for row in content["table"]
        }
        pairs = [Comparison.from_dict(item) for item in content["differences"]]
        best = content["best"]
        return cls(
            level,
            content["metadata"].get("margin"),
            rows,
            {(pair.a, pair.b): pair for pair in pairs},
            None if best is None else BestPolicy.from_dict(best),
        )

    def limits(self, names: tuple[str, ...], level: float, kind: str) -> list[tuple[float, float]]:
        """Intervals of every quantity, ``"single"`` or ``"joint"``."""
        if level != self.level:
            raise _refused(f"intervals at the level {level:g}", f"{self.level:.0%} intervals")
        return [(self.rows[n][f"{kind}_low"], self.rows[n][f"{kind}_high"]) for n in names]

    def pair(self, a: str, b: str, margin: float | None) -> Comparison:
        """One comparison, in either direction."""
        found = self.pairs.get((a, b))
        if found is None and (b, a) in self.pairs:
            found = self.pairs[b, a].reversed()
        if found is None:
            raise _refused(f"{a} - {b}", "the differences of its table")
        if margin != self.margin:
            raise _refused(f"a margin of {margin}", f"a margin of {self.margin}")
        return found

    def best_among(self, refused: dict[str, str]) -> BestPolicy:
        """The saved best policy; refused if the refused policies have changed since."""
        if self.best is None or self.best.excluded != refused:
            raise _refused("the best of other policies", "the best policy it was saved with")
        return self.best


def _refused(what: str, instead: str) -> CJEError:
    return CJEError(
        f"this result was saved without its influence matrix and cannot answer: {what}",
        hint=f"it has {instead}; for more, save the whole result: "
        + by_interface("to_json()", "--save FILE"),
    )
