"""Checks of the calibration of fresh draws by their own labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.data.dataset import Dataset
from cje.data.field_names import may_be_cluster
from cje.diagnostics import (
    TransportAudit,
    TransportStatus,
    audit_transport,
    calibration_fit,
    not_checked,
    rater_agreement,
    score_overlap,
    score_overlap_findings,
)
from cje.diagnostics.dependence import cluster_dependence
from cje.diagnostics.transport import MIN_PROBE_LABELS, check_transport_margin
from cje.estimators.direct.label_pool import LabelPool
from cje.estimators.direct.label_predictor import LabelPredictor
from cje.estimators.direct.sample import Sample
from cje.estimators.plug_in import label_influence
from cje.findings import Finding, Severity
from cje.findings.labels import CONSTANT_JUDGE, DIFFERENT_PROMPTS
from cje.kernels.clusters import cluster_means, cluster_sums, renumbered
from cje.kernels.isotonic import isotonic_fit, isotonic_predict

__all__ = ["audit_labels"]

_MIN_OTHER_LABELS = 10  # as many as a calibration needs (`label_pool`)


def audit_labels(
    sample: Sample,
    pool: LabelPool,
    predictor: LabelPredictor,
    borrowed: Sequence[str],
    *,
    transport_margin: float | None = None,
    level: float = 0.95,
) -> tuple[dict[str, Any], list[Finding]]:
    """Calibration fit, transport audits, score overlap, label choice and rater agreement.

    The transport audit tests, for each labelled policy, whether a calibration learnt from all other
    labels is right for it, within `transport_margin` on the label's scale. The value of a policy
    that its own labels correct does not depend on the result; that of a borrowed policy does.
    """
    model, fresh = predictor.model, sample.data
    assert model.label_oof is not None  # cross-fitted
    width = fresh.oracle_scale.width
    fit = calibration_fit(pool.scores, pool.labels, model.label_oof, pool.weights)
    findings: list[Finding] = list(fit.findings(width))
    details: dict[str, Any] = {
        "calibration_fit": fit.to_dict(),
        "transport": {},
        "score_overlap": {},
    }
    owner = np.full(len(pool.labels), -1)
    owner[: pool.n_own] = sample.policies.codes[fresh.is_labelled]
    prompt, _ = renumbered(pool.clusters)
    if transport_margin is not None:
        transport_margin = check_transport_margin(transport_margin, width)
    policies = sample.policies
    mine = {policy: owner == policies.code_of(policy) for policy in policies.names}
    among = sum(_can_audit(own) for own in mine.values())
    for policy in policies.names:
        code = policies.code_of(policy)
        audit = _audit(
            policy, mine[policy], pool, prompt, margin=transport_margin, level=level, among=among
        )
        details["transport"][policy] = audit.to_dict()
        findings += _transport_findings(audit, policy in borrowed, width)
        if policy in borrowed and (owner != code).any():
            own, rows = sample.scores_of(policy)
            # Its own labels would widen the range that the borrowed calibration was made on.
            overlap = score_overlap(policy, own, pool.scores[owner != code], weights=rows)
            details["score_overlap"][policy] = overlap.to_dict()
            findings += score_overlap_findings(overlap)
    findings += sample.label_choice()
    details["dependence"], found = _dependence(fresh, pool, predictor)
    findings += found
    if sample.constant_score:
        findings.append(CONSTANT_JUDGE.finding(severity=Severity.WARNING))
    findings += _different_prompts(sample)
    agreement = None if fresh.rater_labels is None else rater_agreement(fresh.rater_labels)
    if agreement is not None:
        details["raters"] = agreement.to_dict()
        findings += agreement.findings()
    return details, findings


def _dependence(
    fresh: Dataset, pool: LabelPool, predictor: LabelPredictor
) -> tuple[dict[str, Any], list[Finding]]:
    """Are label errors correlated within a column that looks like a cluster but is not used?"""
    details: dict[str, Any] = {}
    findings: list[Finding] = []
    if fresh.cluster is not None:
        return details, findings
    rows = np.flatnonzero(fresh.is_labelled)
    policy = fresh.policy.codes[rows]
    error = pool.labels[: pool.n_own] - predictor.at_labels[: pool.n_own]
    error = error - cluster_means(error, policy, fresh.policy.n_names)[policy]
    for name, codes in fresh.groups.items():
        if not may_be_cluster(name):
            continue
        found = cluster_dependence(name, error, fresh.prompt_id.codes[rows], codes.codes[rows])
        if found is not None:
            details[name] = found.to_dict()
            findings += found.findings()
    return details, findings


def _can_audit(mine: NDArray[np.bool_]) -> bool:
    """Whether the policy, and the others together, have enough labels for an audit."""
    return bool(mine.sum() >= MIN_PROBE_LABELS and (~mine).sum() >= _MIN_OTHER_LABELS)


def _audit(
    policy: str,
    mine: NDArray[np.bool_],
    pool: LabelPool,
    prompt: NDArray[np.int64],
    *,
    margin: float | None,
    level: float,
    among: int,
) -> TransportAudit:
    """The policy's labels against an isotonic calibration made from all other labels."""
    others = ~mine
    if not _can_audit(mine):
        return not_checked(policy, margin=margin)
    own_weights = None if pool.weights is None else pool.weights[mine]
    weights = None if pool.weights is None else pool.weights[others]
    scores, labels = pool.scores[others], pool.labels[others]
    knots = isotonic_fit(scores, labels, weights)
    predicted = isotonic_predict(*knots, pool.scores[mine])
    # the mean prediction, weighted as the mean residual is
    share = np.ones(len(predicted)) if own_weights is None else own_weights
    share = share / share.sum()
    moved = label_influence(predicted, share, isotonic_predict(*knots, scores), labels, weights)
    return audit_transport(
        policy,
        pool.labels[mine],
        predicted,
        scores=pool.scores[mine],
        weights=own_weights,
        clusters=prompt[mine],
        prediction_influence=cluster_sums(moved, prompt[others], int(prompt.max()) + 1),
        margin=margin,
        level=level,
        among=among,
    )


def _transport_findings(audit: TransportAudit, borrowed: bool, width: float) -> list[Finding]:
    if audit.status is TransportStatus.NOT_CHECKED:
        return []  # `borrowed-calibration` already says that no label checks a borrowed policy
    return audit.findings(width, borrowed=borrowed, corrected=True)


def _different_prompts(sample: Sample) -> list[Finding]:
    """Policies evaluated on different prompts: differences mix policy and prompt."""
    counts = sample.prompt_counts()
    least, most = int(counts.per_policy.min()), int(counts.per_policy.max())
    if counts.shared >= DIFFERENT_PROMPTS["shared_share"] * least:
        return []
    return [DIFFERENT_PROMPTS.finding(shared=counts.shared, least=least, most=most)]
