"""Does a calibration learned on some policies hold on another? An audit on a probe slice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.errors import CJEError
from cje.inference import Finding, Severity

__all__ = ["TransportAudit", "TransportStatus", "audit_transport", "not_checked"]

FloatArray = NDArray[np.float64]

MIN_PROBE_LABELS = 10


class TransportStatus(StrEnum):
    """The verdict of a transport audit."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_CHECKED = "NOT_CHECKED"


@dataclass(frozen=True)
class TransportAudit:
    """Mean residual Y - f(S) of a policy's own labels under a calibration made without them.

    Attributes
    ----------
    mean_residual, low, high : float or None
        With its t interval; positive: the calibration is too pessimistic about this policy.
    margin : float
        Half-width of the equivalence region.
    n_labels : int
        Labels of the policy itself.
    by_region : tuple of (float, int)
        Mean residual and number of labels in the low, middle and high third of its scores.
    """

    policy: str
    status: TransportStatus
    margin: float
    n_labels: int
    mean_residual: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    by_region: tuple[tuple[float, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**self.__dict__, "status": str(self.status), "by_region": list(self.by_region)}

    def findings(self) -> list[Finding]:
        """What the verdict means for the policy's number, where it rests on this calibration."""
        details = self.to_dict()
        more = "label about 50 randomly chosen responses of this policy (a probe slice)"
        if self.status is TransportStatus.NOT_CHECKED:
            message = "its value rests on labels of other policies, and nothing checks that"
            return [Finding("transport-not-checked", message, Severity.WARNING, more,
                            self.policy, details)]  # fmt: skip
        words = (
            f"its own {self.n_labels} labels differ from the calibration by "
            f"{self.mean_residual:+.3f} [{self.low:+.3f}, {self.high:+.3f}] on average"
        )
        if self.status is TransportStatus.FAIL:
            return [Finding("transport-fail", words, Severity.REFUSE,
                            "use this policy's own labels (the direct estimator does, where they "
                            "are in the data), and do not borrow the calibration",
                            self.policy, details)]  # fmt: skip
        if self.status is TransportStatus.INCONCLUSIVE:
            words += f"; too uncertain to tell from the margin of {self.margin:g}"
            return [Finding("transport-inconclusive", words, Severity.WARNING, more,
                            self.policy, details)]  # fmt: skip
        return []


def not_checked(policy: str, *, margin: float = 0.05) -> TransportAudit:
    """The audit of a policy without labels of its own."""
    return TransportAudit(policy, TransportStatus.NOT_CHECKED, margin, 0)


def audit_transport(
    policy: str,
    labels: FloatArray,
    predicted: FloatArray,
    *,
    scores: FloatArray | None = None,
    weights: FloatArray | None = None,
    prediction_variance: float = 0.0,
    prediction_df: float = np.inf,
    margin: float = 0.05,
    level: float = 0.95,
) -> TransportAudit:
    r"""Compare a policy's labels with rewards predicted by a calibration that never saw them.

    The mean residual :math:`\bar e` has variance :math:`s_e^2 / n` plus the variance of the mean
    prediction that comes from the finite calibration slice (`prediction_variance`, with
    `prediction_df` degrees of freedom). PASS: the interval lies within the equivalence margin;
    FAIL: it excludes zero and does not lie within the margin; otherwise INCONCLUSIVE.

    Parameters
    ----------
    labels, predicted : array (n,)
        On [0, 1], one value per labelled response of the policy.
    scores : array (n,), optional
        Judge scores, for the residuals by region.
    weights : array (n,), optional
        1 / labelling propensity.
    margin : float
        Differences up to this size are of no practical importance.
    """
    from scipy.special import stdtrit

    n = len(labels)
    if len(predicted) != n:
        raise CJEError("a prediction is needed for every label", where=policy, value=len(predicted))
    if margin <= 0:
        raise CJEError("the equivalence margin must be positive", value=margin)
    if n < MIN_PROBE_LABELS:
        return TransportAudit(policy, TransportStatus.NOT_CHECKED, margin, n)
    w = np.ones(n) if weights is None else weights / weights.mean()
    residual = labels - predicted
    mean = float(np.average(residual, weights=w))
    own = float(np.sum((w * (residual - mean)) ** 2) / (n * (n - 1)))
    total = own + prediction_variance
    df = n - 1.0
    if total > 0:
        df = total**2 / (own**2 / (n - 1) + prediction_variance**2 / prediction_df)
    half = float(stdtrit(df, 0.5 + level / 2)) * float(np.sqrt(total))
    low, high = mean - half, mean + half
    if -margin <= low and high <= margin:
        status = TransportStatus.PASS
    elif low > 0.0 or high < 0.0:
        status = TransportStatus.FAIL
    else:
        status = TransportStatus.INCONCLUSIVE
    regions = _by_region(residual, scores) if scores is not None else ()
    return TransportAudit(policy, status, margin, n, mean, low, high, level, regions)


def _by_region(residual: FloatArray, scores: FloatArray) -> tuple[tuple[float, int], ...]:
    edges = np.quantile(scores, [1 / 3, 2 / 3])
    region = np.searchsorted(edges, scores, side="left")
    parts = [residual[region == k] for k in range(3)]
    return tuple((float(p.mean()) if len(p) else 0.0, len(p)) for p in parts)
