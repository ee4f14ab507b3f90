r"""Number of labels of a probe, so that a calibration that carries over passes its audit.

The audit's mean residual of n labels, with a calibration on L labels of other versions, has

.. math:: se^2 \approx \sigma^2 (1 - R^2) \Bigl(\frac1n + \frac1L\Bigr).

It passes where :math:`|\bar e| + t\,se` is within the margin; of a true difference of zero that
happens with probability :math:`2 \Phi((m - t\,se)/se) - 1`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from cje.analysis.label_plan import JudgeQuality
from cje.checks import check_level, check_number, check_whole_number
from cje.diagnostics.transport import check_transport_margin
from cje.errors import CJEError
from cje.findings.labels import TRANSPORT_INCONCLUSIVE
from cje.hints import by_interface

__all__ = ["ProbePlan", "plan_probe"]

_MOST = 10**7


@dataclass(frozen=True)
class ProbePlan:
    """A probe slice.

    Attributes
    ----------
    n_labels : int
        Labels on each audited version, one per prompt.
    power : float
        Probability that a calibration without error passes.
    half_width : float
        Expected half-width of the audit's interval.
    margin, level : float
    n_policies, calibration_labels : int
        Number of audited versions, and labels of other versions in the calibration.
    """

    n_labels: int
    power: float
    half_width: float
    margin: float
    level: float
    n_policies: int
    calibration_labels: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    def words(self) -> str:
        """The plan as sentences."""
        versions = "" if self.n_policies == 1 else f" of each of {self.n_policies} versions"
        return (
            f"probe: {self.n_labels:,} randomly chosen responses{versions}, one per prompt\n"
            f"a calibration from {self.calibration_labels:,} labels that carries over without "
            f"error passes a margin of {self.margin:g} with probability {self.power:.0%} "
            f"(expected interval: plus or minus {self.half_width:.3g})"
        )


def plan_probe(
    quality: JudgeQuality,
    margin: float,
    *,
    calibration_labels: int,
    n_policies: int = 1,
    level: float = 0.95,
    power: float = 0.8,
) -> ProbePlan:
    """The smallest probe whose audit passes with the wanted probability.

    Parameters
    ----------
    quality : JudgeQuality
        Standard deviation of the labels, and the share of their variance that the judge explains.
    margin : float
        The transport margin, on the label's scale.
    calibration_labels : int
        Labels of other versions that the calibration is learnt from.
    n_policies : int
        Number of audited versions: intervals are adjusted for it.
    level, power : float

    Raises
    ------
    CJEError
        If no probe is large enough: the calibration itself is too uncertain for the margin.

    Examples
    --------
    >>> plan = plan_probe(JudgeQuality(sd=0.25, r2=0.5), 0.1, calibration_labels=400)
    >>> plan.n_labels, plan.power >= 0.8
    (38, True)
    """
    if not isinstance(quality, JudgeQuality):
        raise CJEError("a plan needs a JudgeQuality", value=quality)
    check_transport_margin(margin)
    level = check_level(level)
    power = check_number("power", power, low=0.0, high=0.9999)
    count = check_whole_number("n_policies", n_policies, most=1000)
    behind = check_whole_number("calibration_labels", calibration_labels, least=10)
    least = int(TRANSPORT_INCONCLUSIVE["clusters_for_pass"])
    adjusted = 1.0 - (1.0 - level) / count

    def passes(n: int) -> tuple[float, float]:
        return _passes(quality, float(margin), n, behind, adjusted)

    high = least
    while passes(high)[0] < power:
        high *= 2
        if high > _MOST:
            raise CJEError(
                "no probe is large enough for this margin", value=margin,
                hint="label more rows for the calibration"
                + by_interface("", " (--calibration-labels)") + ", or widen the margin",
            )  # fmt: skip
    low = max(high // 2, least - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle)[0] < power else (low, middle)
    found, half = passes(high)
    return ProbePlan(high, found, half, float(margin), level, count, behind)


def _passes(
    quality: JudgeQuality, margin: float, n: int, behind: int, level: float
) -> tuple[float, float]:
    """Probability of a pass at a true difference of zero, and the interval's half-width."""
    from scipy.special import ndtr, stdtrit

    missed = quality.sd**2 * (1.0 - quality.r2)
    se = math.sqrt(missed * (1.0 / n + 1.0 / behind))
    if se == 0.0:
        return 1.0, 0.0
    parts = (1.0 / n) ** 2 / (n - 1.0) + (1.0 / behind) ** 2 / (behind - 1.0)
    df = (1.0 / n + 1.0 / behind) ** 2 / parts
    half = float(stdtrit(df, 0.5 + level / 2.0)) * se
    return max(2.0 * float(ndtr((margin - half) / se)) - 1.0, 0.0), half
