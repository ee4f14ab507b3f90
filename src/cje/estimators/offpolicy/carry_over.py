"""Do the labels, weighted to a target, agree with the calibration that its estimate borrows?"""

from __future__ import annotations

from cje.estimators.offpolicy.label_term import LabelTerm
from cje.inference import LABELS, Component, Finding, InfluenceEstimate, Severity, holm

__all__ = ["carry_over_findings"]


_WARN, _REFUSE = 0.05, 0.001


def carry_over_findings(
    policies: tuple[str, ...], by_weight: LabelTerm, by_score: LabelTerm, usable: list[bool]
) -> list[Finding]:
    r"""Test :math:`E[W (Y - f(S))] = E[m(S) (Y - f(S))]` for every target.

    The two label parts differ by :math:`E[Cov(W, Y \mid S)]`: zero where E[Y | S] carries over to
    the target, and otherwise the bias of every estimator that weights labels by m(S). A noisy
    judge, or one that misses what distinguishes the target, makes it differ. The difference of the
    two cross-fitted parts is tested by t, Holm-adjusted over the targets; targets whose labels are
    worth too little to tell (`usable` false) take no part.
    """
    gap = by_weight.correction - by_score.correction
    moved = by_weight.jackknife(by_weight.residual) - by_score.jackknife(by_score.residual)
    spread = by_weight.spread(by_weight.weight) - by_score.spread(by_score.weight)
    # Few heavy labels decide the difference: its variance is known to that few degrees of freedom.
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
        if p >= _WARN:
            continue
        found.append(
            Finding(
                "calibration-does-not-carry-over",
                f"labels weighted to this policy differ from the calibration by {gap[k]:+.3f} "
                f"more than at equal scores (adjusted p {p:.1g}): the judge misses something that "
                "sets this policy apart",
                Severity.REFUSE if p < _REFUSE else Severity.WARNING,
                "use tr-cpo, or calibrated-ips with OracleSliceConfig(enable_augmentation=True), "
                "which weight the labels themselves; or improve the judge",
                policies[k],
                {"difference": float(gap[k]), "p_adjusted": float(p)},
            )
        )
    return found
