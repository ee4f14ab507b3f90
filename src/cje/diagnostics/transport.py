"""Does a calibration learned on some policies hold on another? An audit on a probe slice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from cje.checks import is_number
from cje.errors import CJEError
from cje.findings import Finding, Severity
from cje.findings.labels import (
    TRANSPORT_FAIL,
    TRANSPORT_INCONCLUSIVE,
    TRANSPORT_NOT_CHECKED,
    TRANSPORT_NOT_GRADED,
)
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums, count_distinct

__all__ = [
    "TransportAudit",
    "TransportStatus",
    "audit_transport",
    "check_transport_margin",
    "not_checked",
]


MIN_PROBE_LABELS = int(TRANSPORT_FAIL["labels_needed"])


class TransportStatus(StrEnum):
    """The verdict of a transport audit."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_GRADED = "NOT_GRADED"
    NOT_CHECKED = "NOT_CHECKED"


@dataclass(frozen=True)
class TransportAudit:
    """Mean residual Y - f(S) of a policy's own labels under a calibration made without them.

    Attributes
    ----------
    mean_residual, low, high : float or None
        With its t interval; positive: the calibration is too pessimistic about this policy.
    margin : float, optional
        Half-width of the equivalence region. None: none was declared, and nothing is graded.
    n_labels : int
        Labels of the policy itself.
    n_effective : float
        Prompts they are on, counted as equally weighted ones (Kish).
    level : float
        Of the interval; above the level asked for where several policies are audited.
    by_region : tuple of (float, int)
        Mean residual and number of labels in the low, middle and high third of its scores.
    """

    policy: str
    status: TransportStatus
    margin: float | None
    n_labels: int
    mean_residual: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    by_region: tuple[tuple[float, int], ...] = ()
    n_effective: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**self.__dict__, "status": str(self.status), "by_region": list(self.by_region)}

    def findings(
        self, width: float = 1.0, *, borrowed: bool = True, corrected: bool = False
    ) -> list[Finding]:
        """Findings from the verdict; `width` is the width of the labels' scale.

        A policy whose value is corrected by its own labels (`borrowed` false) does not rest on the
        calibration: a failed audit is then information only. A borrowed value that its few labels
        correct (`corrected`) stands with a caution.
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
            assert self.margin is not None
            return [
                TRANSPORT_FAIL.finding(
                    self.policy,
                    severity=severity if borrowed else Severity.INFO,
                    consequence="; its own labels correct for that here"
                    if corrected or not borrowed
                    else "",
                    details=details,
                    margin=width * self.margin,
                    **values,
                )
            ]
        if not borrowed:
            return []
        if self.margin is None:
            return [TRANSPORT_NOT_GRADED.finding(self.policy, details=details, **values)]
        reason = self._why_open(width * self.margin)
        return [
            TRANSPORT_INCONCLUSIVE.finding(self.policy, details=details, reason=reason, **values)
        ]

    def _why_open(self, margin: float) -> str:
        assert self.low is not None
        assert self.high is not None
        assert self.margin is not None
        if -self.margin <= self.low and self.high <= self.margin:
            needed = TRANSPORT_INCONCLUSIVE["clusters_for_pass"]
            return f"they count as {self.n_effective:.0f} prompts, and a pass needs {needed:.0f}"
        return f"they show neither that the difference is below {margin:.3g} nor that it is above"


def not_checked(policy: str, *, margin: float | None = None) -> TransportAudit:
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
    margin: float | None = None,
    level: float = 0.95,
    among: int = 1,
) -> TransportAudit:
    r"""Compare a policy's labels with rewards predicted by a calibration that never saw them.

    The error of the mean residual :math:`\bar e` is a sum over prompts, :math:`\sum_g (o_g - a_g)`:
    :math:`o_g = \sum_{i \in g} w_i (e_i - \bar e) / \sum_i w_i` comes from the J prompts the policy
    has labels on, :math:`a_g` is what the labels behind the calibration move the mean prediction
    by. The variance is :math:`\sum_g (\sqrt{J/(J-1)}\, o_g - a_g)^2`: labels of one prompt, of
    whatever policy, are one cluster. PASS: the interval lies within the margin, on labels that
    count as at least 20 prompts; FAIL: it lies wholly outside; otherwise INCONCLUSIVE. Without a
    margin nothing is graded.

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
    margin : float, optional
        Differences up to this size are of no practical importance; declared beforehand.
    among : int
        Number of policies audited: intervals hold for all at once (Bonferroni).
    """
    n = len(labels)
    if len(predicted) != n:
        raise CJEError("a prediction is needed for every label", where=policy, value=len(predicted))
    if margin is not None:
        check_transport_margin(margin)
    level = 1.0 - (1.0 - level) / max(among, 1)
    prompt = np.arange(n) if clusters is None else clusters
    n_prompts = count_distinct(prompt)
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
    whole = cluster_sums(share, prompt, len(behind))
    effective = float(1.0 / (whole @ whole))
    status = _verdict(low, high, margin, effective)
    return TransportAudit(policy, status, margin, n, mean, low, high, level, regions, effective)


def check_transport_margin(margin: Any, width: float = 1.0) -> float:
    """A margin on the label's scale, `width` wide, as a share of it.

    Raises
    ------
    CJEError
        Not a positive number.
    """
    if not is_number(margin) or margin <= 0:
        raise CJEError("the transport margin must be positive", value=margin,
                       hint="give it on the label's scale")  # fmt: skip
    return float(margin) / width


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


def _verdict(low: float, high: float, margin: float | None, effective: float) -> TransportStatus:
    if margin is None:
        return TransportStatus.NOT_GRADED
    if -margin <= low and high <= margin:
        # a float that counts twenty equal prompts may fall short of 20 by rounding
        enough = effective >= TRANSPORT_INCONCLUSIVE["clusters_for_pass"] - 1e-9
        return TransportStatus.PASS if enough else TransportStatus.INCONCLUSIVE
    if low > margin or high < -margin:
        return TransportStatus.FAIL
    return TransportStatus.INCONCLUSIVE


def _by_region(residual: FloatArray, scores: FloatArray) -> tuple[tuple[float, int], ...]:
    edges = np.quantile(scores, [1 / 3, 2 / 3])
    region = np.searchsorted(edges, scores, side="left")
    parts = [residual[region == k] for k in range(3)]
    return tuple((float(p.mean()) if len(p) else 0.0, len(p)) for p in parts)
