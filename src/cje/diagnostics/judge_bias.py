"""Judge biases: do the judge's errors depend on length, position or policy?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cje.findings import Finding
from cje.findings.labels import JUDGE_BIAS
from cje.hints import by_interface
from cje.inference import holm
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["JudgeBias", "judge_biases"]


_MIN_LABELS = 20


@dataclass(frozen=True)
class JudgeBias:
    """Dependence of the out-of-fold error f(S) - Y on one factor.

    `effect` is the change of the error for one standard deviation of a number, or the largest mean
    error of a category's level; positive: the calibrated score is too high.
    """

    factor: str
    effect: float
    p_value: float
    p_adjusted: float
    level: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    def findings(self, width: float = 1.0) -> list[Finding]:
        """A warning where the bias is significant and large; the labels' scale is `width` wide."""
        if self.p_adjusted >= JUDGE_BIAS["p_value"] or abs(self.effect) < JUDGE_BIAS["effect"]:
            return []
        return [
            JUDGE_BIAS.finding(
                direction="high" if self.effect > 0 else "low",
                where=f"for {self.factor} {self.level}"
                if self.level
                else f"where {self.factor} is larger",
                effect=width * self.effect,
                each="" if self.level else " per standard deviation",
                p_adjusted=self.p_adjusted,
                or_covariate="" if self.level else _or_covariate(self.factor),
                details=self.to_dict(),
            )
        ]


def _or_covariate(factor: str) -> str:
    """How a number can enter the calibration instead; a category cannot."""
    return "; it can also be a covariate: " + by_interface(
        f"covariates=({factor!r},)", f"--covariate {factor}"
    )


def judge_biases(
    error: FloatArray,
    numbers: Mapping[str, FloatArray],
    categories: Mapping[str, tuple[IntArray, tuple[str, ...]]],
) -> list[JudgeBias]:
    """Regress the calibration's error on each factor; heteroscedastic z tests, Holm-adjusted.

    Parameters
    ----------
    error : array (n,)
        f(S) - Y of the labelled rows, out of fold.
    numbers : mapping name -> array (n,)
        Numeric factors, such as the log of the length; rows with NaN take no part.
    categories : mapping name -> (codes, names)
    """
    found: list[tuple[str, float, float, str | None]] = []
    for name, values in numbers.items():
        known = np.isfinite(values)
        if known.sum() >= _MIN_LABELS and float(np.std(values[known])) > 0:
            found.append((name, *_slope(error[known], values[known]), None))
    for name, (codes, names) in categories.items():
        tested = _levels(error, codes, names)
        if tested is not None:
            found.append((name, *tested))
    adjusted: Any = holm([p for _, _, p, _ in found]) if found else []
    return [
        JudgeBias(name, effect, p, float(q), level)
        for (name, effect, p, level), q in zip(found, adjusted, strict=True)
    ]


def _slope(error: FloatArray, values: FloatArray) -> tuple[float, float]:
    from scipy.special import stdtr

    z = (values - values.mean()) / values.std()
    slope = float(z @ error) / len(z)
    residual = error - error.mean() - slope * z
    se = float(np.sqrt((z**2) @ (residual**2))) / len(z)
    p = float(2.0 * stdtr(len(z) - 2, -abs(slope) / se)) if se > 0 else 1.0
    return slope, p


def _levels(
    error: FloatArray, codes: IntArray, names: tuple[str, ...]
) -> tuple[float, float, str] | None:
    """Wald test that all levels' mean errors are equal, and the level that is furthest off."""
    from scipy.special import chdtrc

    present = [int(c) for c in np.unique(codes) if int((codes == c).sum()) >= 10]
    if len(present) < 2:
        return None
    parts = [error[codes == c] for c in present]
    means = np.array([p.mean() for p in parts])
    variance = np.maximum([p.var(ddof=1) / len(p) for p in parts], 1e-300)
    pooled = float((means / variance).sum() / (1.0 / variance).sum())
    statistic = float(((means - pooled) ** 2 / variance).sum())
    worst = int(np.argmax(np.abs(means - pooled)))
    p = float(chdtrc(len(present) - 1, statistic))
    return float(means[worst] - pooled), p, names[present[worst]]
