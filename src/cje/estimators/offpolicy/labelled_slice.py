r"""How much of a target do the labels of a log represent?

With labelling probabilities :math:`\pi`, :math:`\sum_i (L_i/\pi_i - 1) h_i` has mean zero for every
h that was known before labelling, and each target's weight W is one. The ratio
:math:`r = \sum (L/\pi) W / \sum W` is the share of the target that the labels represent. Sums are
clustered by prompt; with n labelled prompts the ratio to its standard error is taken as t with
n - 1 degrees of freedom.
"""

from __future__ import annotations

from cje.diagnostics.label_choice import weighted_balance
from cje.estimators.offpolicy.logged import LoggedRows
from cje.findings import Finding, Severity
from cje.findings.weights import LABELS_MISS_TARGET

__all__ = ["label_slice_findings"]


def label_slice_findings(logged: LoggedRows) -> list[Finding]:
    """Findings where the labels represent too little, or too much, of a target."""
    excess = logged.labelled / logged.propensity - 1.0
    found = []
    for k, name in enumerate(logged.policies):
        h = logged.weights[:, k] / len(logged)
        gap, p = weighted_balance(excess, h, logged.clusters, logged.labelled)
        if p < LABELS_MISS_TARGET["p_value"]:
            found.append(_target(name, 1.0 + gap, p))
    return found


def _target(name: str, ratio: float, p: float) -> Finding:
    low, high = LABELS_MISS_TARGET["refuse_below"], LABELS_MISS_TARGET["refuse_above"]
    severity = Severity.WARNING if low <= ratio <= high else Severity.REFUSE
    return LABELS_MISS_TARGET.finding(name, severity=severity, ratio=ratio, p_value=p)
