"""Gates: from diagnostics to findings that warn, or refuse a number, and say what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from cje.diagnostics.overlap import ScoreOverlap, WeightDiagnostics
from cje.findings import Finding, Rule, Severity
from cje.findings.labels import SCORES_OUTSIDE_LABELS, SCORES_THINLY_LABELLED
from cje.findings.weights import (
    CLIPPED_RATIOS,
    HEAVY_TAIL,
    IDENTICAL_WEIGHTS,
    LOW_ESS,
    LOW_LABEL_ESS,
    MEAN_WEIGHT,
    SUPPORT_TRUNCATED,
    WEIGHTS_BEYOND_CLIP,
)
from cje.kernels.arrays import FloatArray

__all__ = [
    "GateThresholds",
    "check_weights_vary",
    "score_overlap_findings",
    "weight_findings",
    "weights_vary",
]


@dataclass(frozen=True)
class GateThresholds:
    """Where a gate warns and where it refuses.

    The defaults are those of the registry (`cje.findings`). `mean_weight_refuses` is set by
    estimators that weight rows or labels by W.
    """

    ess_fraction_refuse: float = LOW_ESS["refuse_fraction"]
    ess_fraction_warn: float = LOW_ESS["warn_fraction"]
    ess_refuse: float = LOW_ESS["refuse_rows"]
    tail_index_refuse: float = HEAVY_TAIL["refuse"]
    tail_index_warn: float = HEAVY_TAIL["warn"]
    mean_weight_z: float = MEAN_WEIGHT["standard_errors"]
    mean_weight_refuses: bool = False
    labels_ess_refuse: float = LOW_LABEL_ESS["refuse"]
    thin_scores_warn: float = SCORES_THINLY_LABELLED["thin"]
    outside_scores_refuse: float = SCORES_OUTSIDE_LABELS["outside"]


def check_weights_vary(
    log_ratios: FloatArray,
    policies: Sequence[str],
    same_as_logging: Sequence[str] = (),
    *,
    unclipped: FloatArray | None = None,
) -> None:
    """Refuse to go on where a policy's weights are all identical.

    Two different policies never give every response the same likelihood ratio; that all ratios are
    equal means the logged responses were never scored under the target (a default stood in).
    `same_as_logging` names policies configured exactly like the logging one (an A/A check).
    `unclipped` ratios tell weights that all sit at the clip from weights that never varied.
    """
    for k, name in enumerate(policies):
        if name in same_as_logging:
            continue
        exact = None if unclipped is None else unclipped[:, k]
        found = weights_vary(log_ratios[:, k], name, exact)
        if found is not None:
            raise found.as_error()


def weights_vary(
    log_ratios: FloatArray, policy: str, unclipped: FloatArray | None = None
) -> Finding | None:
    """The finding on a policy whose log-ratios are all identical, or all beyond the clip."""
    if len(log_ratios) < 2 or float(np.ptp(log_ratios)) > IDENTICAL_WEIGHTS["spread"]:
        return None
    common = float(log_ratios[0])
    if unclipped is not None and float(np.ptp(unclipped)) > IDENTICAL_WEIGHTS["spread"]:
        low, high = float(unclipped.min()), float(unclipped.max())
        return WEIGHTS_BEYOND_CLIP.finding(policy, low=low, high=high, clip=abs(common))
    return IDENTICAL_WEIGHTS.finding(policy, log_ratio=common, n=len(log_ratios))


def weight_findings(
    diagnostics: WeightDiagnostics, thresholds: GateThresholds | None = None
) -> list[Finding]:
    """Findings from one policy's raw weights."""
    t = thresholds or GateThresholds()
    d = diagnostics
    grades: list[tuple[Rule, Severity | None]] = [
        (
            LOW_ESS,
            _grade(
                d.ess_fraction < t.ess_fraction_refuse or d.ess < t.ess_refuse,
                d.ess_fraction < t.ess_fraction_warn,
            ),
        ),
        (HEAVY_TAIL, _grade(d.tail_index < t.tail_index_refuse, d.tail_index < t.tail_index_warn)),
        _mean_weight(d, t),
        (CLIPPED_RATIOS, _grade(d.n_above > 0, d.n_clipped > 0)),
    ]
    return [
        rule.finding(d.policy, severity=severity, details=d.to_dict(), **asdict(d))
        for rule, severity in grades
        if severity is not None
    ]


def _mean_weight(d: WeightDiagnostics, t: GateThresholds) -> tuple[Rule, Severity | None]:
    """A mean weight far from one: below it the target's support, above it the log-probs."""
    rule = MEAN_WEIGHT if d.mean_weight > 1.0 else SUPPORT_TRUNCATED
    far = abs(d.mean_weight_z) > t.mean_weight_z and (
        abs(d.mean_weight - 1.0) > MEAN_WEIGHT["immaterial"]
    )
    return rule, _grade(far and t.mean_weight_refuses, far)


def _grade(refuse: bool, warn: bool) -> Severity | None:
    if refuse:
        return Severity.REFUSE
    return Severity.WARNING if warn else None


def score_overlap_findings(
    overlap: ScoreOverlap, thresholds: GateThresholds | None = None
) -> list[Finding]:
    """Findings on scores that the labels do not reach: the calibration extrapolates there."""
    t = thresholds or GateThresholds()
    if overlap.outside >= t.outside_scores_refuse:
        rule = SCORES_OUTSIDE_LABELS
    elif overlap.thin > t.thin_scores_warn:
        rule = SCORES_THINLY_LABELLED
    else:
        return []
    values = overlap.to_dict()
    return [rule.finding(overlap.policy, details=values, **values)]
