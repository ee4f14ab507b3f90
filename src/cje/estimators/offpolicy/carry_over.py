"""Test whether labels weighted to a target agree with the calibration it borrows."""

from __future__ import annotations

from cje.estimators.offpolicy.label_term import LabelTerm
from cje.findings import Finding, Severity
from cje.findings.weights import CALIBRATION_DOES_NOT_CARRY_OVER
from cje.inference import LABELS, Component, InfluenceEstimate, holm
from cje.kernels.arrays import FloatArray

__all__ = ["carry_over_findings"]


def carry_over_findings(
    policies: tuple[str, ...],
    by_weight: LabelTerm,
    by_score: LabelTerm,
    usable: list[bool],
    standard_errors: FloatArray,
    width: float = 1.0,
    *,
    corrected: bool = False,
) -> list[Finding]:
    r"""Test :math:`E[W (Y - f(S))] = E[m(S) (Y - f(S))]` for every target.

    The two label parts differ by :math:`E[Cov(W, Y \mid S)]`: zero where E[Y | S] carries over to
    the target, and otherwise the bias of every estimator that weights labels by m(S). A noisy
    judge, or one that misses what distinguishes the target, makes it differ. The difference of the
    two cross-fitted parts is tested by t, Holm-adjusted over the targets; targets with too few
    effective labels (`usable` false) are not tested. `width` is that of the labels' scale.

    The gap estimates the bias of the value. A significant one refuses the value only where it is
    large compared with the value's standard error (`standard_errors`, labels on [0, 1]): a bias of
    b standard errors leaves a 95% interval covering Phi(1.96 - b) - Phi(-1.96 - b), which is 94.3%
    at the limit b = 0.25. A smaller significant gap is a warning, and one that labels weighted by W
    have `corrected` is information about the judge.
    """
    gap = by_weight.correction - by_score.correction
    moved = by_weight.jackknife(by_weight.residual) - by_score.jackknife(by_score.residual)
    spread = by_weight.spread(by_weight.weight) - by_score.spread(by_score.weight)
    # Few heavy labels dominate the difference, so its variance has few degrees of freedom.
    contrast = InfluenceEstimate(
        policies,
        gap,
        (Component(LABELS, moved, spread=spread),),
    )
    tested = [k for k, fine in enumerate(usable) if fine and contrast.standard_errors()[k] > 0]
    if not tested:
        return []
    adjusted = holm(contrast.p_values()[tested])
    found = []
    for k, p in zip(tested, adjusted, strict=True):
        if p >= CALIBRATION_DOES_NOT_CARRY_OVER["p_value"]:
            continue
        material = CALIBRATION_DOES_NOT_CARRY_OVER["standard_errors"] * standard_errors[k]
        refuse = p < CALIBRATION_DOES_NOT_CARRY_OVER["refuse_p_value"] and abs(gap[k]) > material
        graded = Severity.REFUSE if refuse else Severity.WARNING
        found.append(
            CALIBRATION_DOES_NOT_CARRY_OVER.finding(
                policies[k],
                severity=Severity.INFO if corrected else graded,
                gap=width * float(gap[k]),
                p_adjusted=float(p),
            )
        )
    return found
