"""Does a calibration learned on some policies hold on another? An audit on a probe slice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from cje.errors import CJEError
from cje.findings import Finding, Severity
from cje.findings.labels import TRANSPORT_FAIL, TRANSPORT_INCONCLUSIVE, TRANSPORT_NOT_CHECKED
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["TransportAudit", "TransportStatus", "audit_transport", "not_checked"]


MIN_PROBE_LABELS = int(TRANSPORT_FAIL["labels_needed"])


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

    def findings(
        self, width: float = 1.0, *, borrowed: bool = True, corrected: bool = False
    ) -> list[Finding]:
        """What the verdict means for the policy's number; `width` of the labels' scale.

        A policy whose value is corrected by its own labels (`borrowed` false) does not rest on the
        calibration: a failure is then background. A borrowed value that its few labels correct
        (`corrected`) stands with a caution.
        """
        if self.status is TransportStatus.PASS:
            return []
        if self.status is TransportStatus.NOT_CHECKED:
            rules = [TRANSPORT_NOT_CHECKED] if borrowed else []
            return [rule.finding(self.policy, details=self.to_dict()) for rule in rules]
        assert self.mean_residual is not None
        assert self.low is not None
        assert self.high is not None
        values: dict[str, Any] = {
            "n_labels": self.n_labels,
            "mean": width * self.mean_residual,
            "low": width * self.low,
            "high": width * self.high,
        }
        details = self.to_dict()
        if self.status is TransportStatus.FAIL:
            severity = Severity.WARNING if corrected else Severity.REFUSE
            return [
                TRANSPORT_FAIL.finding(
                    self.policy,
                    severity=severity if borrowed else Severity.INFO,
                    consequence="; its own labels correct for that here"
                    if corrected or not borrowed
                    else "",
                    details=details,
                    **values,
                )
            ]
        if not borrowed:
            return []
        return [
            TRANSPORT_INCONCLUSIVE.finding(
                self.policy, margin=width * self.margin, details=details, **values
            )
        ]


def not_checked(policy: str, *, margin: float = TRANSPORT_FAIL["margin"]) -> TransportAudit:
    """The audit of a policy without labels of its own."""
    return TransportAudit(policy, TransportStatus.NOT_CHECKED, margin, 0)


def audit_transport(
    policy: str,
    labels: FloatArray,
    predicted: FloatArray,
    *,
    scores: FloatArray | None = None,
    weights: FloatArray | None = None,
    clusters: IntArray | None = None,
    prediction_influence: FloatArray | None = None,
    margin: float = TRANSPORT_FAIL["margin"],
    level: float = 0.95,
) -> TransportAudit:
    r"""Compare a policy's labels with rewards predicted by a calibration that never saw them.

    The error of the mean residual :math:`\bar e` is a sum over prompts, :math:`\sum_g (o_g - a_g)`:
    :math:`o_g = \sum_{i \in g} w_i (e_i - \bar e) / \sum_i w_i` comes from the J prompts the policy
    has labels on, :math:`a_g` is what the labels behind the calibration move the mean prediction
    by. The variance is :math:`\sum_g (\sqrt{J/(J-1)}\, o_g - a_g)^2`: labels of one prompt, of
    whatever policy, are one cluster. PASS: the interval lies within the equivalence margin; FAIL:
    it excludes zero and does not lie within the margin; otherwise INCONCLUSIVE.

    Parameters
    ----------
    labels, predicted : array (n,)
        On [0, 1], one value per labelled response of the policy.
    scores : array (n,), optional
        Judge scores, for the residuals by region.
    weights : array (n,), optional
        1 / labelling propensity.
    clusters : int array (n,), optional
        Prompt of each label; by default each has its own.
    prediction_influence : array (G,), optional
        :math:`a_g` for the prompts ``0 .. G - 1``, the ones in `clusters` among them. None: the
        calibration is taken as known.
    margin : float
        Differences up to this size are of no practical importance.
    """
    n = len(labels)
    if len(predicted) != n:
        raise CJEError("a prediction is needed for every label", where=policy, value=len(predicted))
    if margin <= 0:
        raise CJEError("the equivalence margin must be positive", value=margin)
    prompt = np.arange(n) if clusters is None else clusters
    n_prompts = len(np.unique(prompt))
    if n_prompts < MIN_PROBE_LABELS:
        return TransportAudit(policy, TransportStatus.NOT_CHECKED, margin, n)
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    residual = labels - predicted
    mean = float(share @ residual)
    behind = prediction_influence
    if behind is None:
        behind = np.zeros(int(prompt.max()) + 1)
    own = cluster_sums(share * (residual - mean), prompt, len(behind))
    half = _half_width(own * np.sqrt(n_prompts / (n_prompts - 1.0)), n_prompts, behind, level)
    low, high = mean - half, mean + half
    regions = _by_region(residual, scores) if scores is not None else ()
    status = _verdict(low, high, margin)
    return TransportAudit(policy, status, margin, n, mean, low, high, level, regions)


def _half_width(own: FloatArray, n_prompts: int, behind: FloatArray, level: float) -> float:
    """Half the t interval of the mean residual from its two parts by prompt.

    Degrees of freedom are Welch's for the two parts, at most the number of prompts in all less one.
    """
    from scipy.special import stdtrit

    variance = float(np.sum((own - behind) ** 2))
    parts = np.array([own @ own, behind @ behind])
    if not parts.any():
        return 0.0
    known = np.array([n_prompts - 1.0, max(np.count_nonzero(behind) - 1.0, 1.0)])
    most = np.count_nonzero((own != 0) | (behind != 0)) - 1.0
    df = min(float(parts.sum() ** 2 / (parts**2 / known).sum()), max(most, 1.0))
    return float(stdtrit(df, 0.5 + level / 2)) * float(np.sqrt(variance))


def _verdict(low: float, high: float, margin: float) -> TransportStatus:
    if -margin <= low and high <= margin:
        return TransportStatus.PASS
    if low > 0.0 or high < 0.0:
        return TransportStatus.FAIL
    return TransportStatus.INCONCLUSIVE


def _by_region(residual: FloatArray, scores: FloatArray) -> tuple[tuple[float, int], ...]:
    edges = np.quantile(scores, [1 / 3, 2 / 3])
    region = np.searchsorted(edges, scores, side="left")
    parts = [residual[region == k] for k in range(3)]
    return tuple((float(p.mean()) if len(p) else 0.0, len(p)) for p in parts)
