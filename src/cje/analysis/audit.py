"""What the labels of a fresh-draw evaluation say about its own calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.data.dataset import Dataset
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
from cje.diagnostics.labelling import chance_gap
from cje.diagnostics.transport import MIN_PROBE_LABELS
from cje.estimators.direct.estimator import DirectEstimator
from cje.estimators.direct.label_pool import LabelPool
from cje.estimators.plug_in import label_influence
from cje.inference import Finding, Severity, t_p_value
from cje.kernels.clusters import cluster_sums
from cje.kernels.isotonic import isotonic_fit, isotonic_predict
from cje.results.result import EstimationResult

__all__ = ["audit_fresh"]

_NOT_RANDOM = 1e-3  # per policy: one false alarm in a thousand random slices


def audit_fresh(result: EstimationResult, estimator: DirectEstimator) -> EstimationResult:
    """Add calibration fit, transport audits, score overlap and rater agreement to a result.

    The transport audit asks of each labelled policy whether a calibration learnt from everybody
    else's labels would have been right for it. A policy with a rectifier of its own does not depend
    on the answer; it is told, not refused. A borrowed policy does.
    """
    fresh, pool, model = estimator.dataset, estimator.pool_, estimator.predictor_.model
    assert model.label_oof is not None  # cross-fitted
    fit = calibration_fit(pool.scores, pool.labels, model.label_oof, pool.weights)
    findings: list[Finding] = list(fit.findings())
    details: dict[str, Any] = {
        "calibration_fit": fit.to_dict(),
        "transport": {},
        "score_overlap": {},
    }
    borrowed = set(result.metadata.get("borrowed", ()))
    owner = np.full(len(pool.labels), -1)
    owner[: pool.n_own] = fresh.policy.codes[fresh.is_labelled]
    _, prompt = np.unique(pool.clusters, return_inverse=True)
    for policy in result.policies:
        code = fresh.policy.code_of(policy)
        audit = _audit(policy, owner == code, pool, prompt)
        details["transport"][policy] = audit.to_dict()
        findings += _transport_findings(audit, policy in borrowed)
        if policy in borrowed:
            own = fresh.judge_score[fresh.policy.codes == code]
            overlap = score_overlap(policy, own, pool.scores)
            details["score_overlap"][policy] = overlap.to_dict()
            findings += score_overlap_findings(overlap)
    findings += _labels_not_random(fresh)
    findings += _different_prompts(fresh)
    agreement = None if fresh.rater_labels is None else rater_agreement(fresh.rater_labels)
    if agreement is not None:
        details["raters"] = agreement.to_dict()
        findings += agreement.findings()
    return result.with_(diagnostics=details, findings=findings)


def _audit(
    policy: str, mine: NDArray[np.bool_], pool: LabelPool, prompt: NDArray[np.int64]
) -> TransportAudit:
    """The policy's labels against an isotonic calibration made from all other labels."""
    others = ~mine
    if mine.sum() < MIN_PROBE_LABELS or others.sum() < MIN_PROBE_LABELS:
        return not_checked(policy)
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
    )


def _transport_findings(audit: TransportAudit, borrowed: bool) -> list[Finding]:
    if borrowed:
        return [] if audit.status is TransportStatus.NOT_CHECKED else audit.findings()
    if audit.status is not TransportStatus.FAIL:
        return []
    return [
        Finding(
            "transport-fail",
            f"a calibration learnt from the other policies misses its labels by "
            f"{audit.mean_residual:+.3f} [{audit.low:+.3f}, {audit.high:+.3f}] on average; its own "
            f"{audit.n_labels} labels correct for that here",
            Severity.INFO,
            "keep labelling this policy; never judge it by labels of others",
            audit.policy,
            audit.to_dict(),
        )
    ]


def _labels_not_random(fresh: Dataset) -> list[Finding]:
    """Policies whose labelled rows have other judge scores than chance would give them."""
    if fresh.label_propensity is not None:
        return []
    findings = []
    for code, policy in enumerate(fresh.policy.names):
        mine = fresh.policy.codes == code
        score, labelled = fresh.judge_score[mine], fresh.is_labelled[mine]
        n, total = int(labelled.sum()), len(score)
        if n < MIN_PROBE_LABELS or n == total:
            continue
        found = chance_gap(score, labelled, fresh.prompt_id.codes[mine])
        gap, z = found.gap, found.z
        p_value = float(t_p_value(z, max(found.n_prompts - 1.0, 1.0)))
        if p_value < _NOT_RANDOM:
            findings.append(
                Finding(
                    "labels-not-random",
                    f"its {n} labelled responses have judge scores {gap:+.3f} away from the mean "
                    f"of all {total} (p = {p_value:.1g}): they do not look chosen at random, and "
                    "the estimate assumes they were",
                    Severity.WARNING,
                    "give each row's chance of being labelled as label_propensity, or label a "
                    "random slice",
                    policy,
                    {"gap": gap, "z": z, "p_value": p_value},
                )
            )
    return findings


def _different_prompts(fresh: Dataset) -> list[Finding]:
    """Policies evaluated on different prompts: differences mix policy and prompt."""
    names, n_prompts = fresh.policy.names, fresh.prompt_id.n_names
    seen = np.zeros((len(names), n_prompts), dtype=bool)
    seen[fresh.policy.codes, fresh.prompt_id.codes] = True
    counts = seen.sum(axis=1)
    shared = int(seen[counts > 0].all(axis=0).sum())
    if shared >= 0.5 * counts[counts > 0].min():
        return []
    return [
        Finding(
            "different-prompts",
            f"the policies share {shared} prompts of {int(counts[counts > 0].min())} to "
            f"{int(counts.max())} each: a difference between them mixes policy and prompts, and "
            "gains nothing from pairing",
            Severity.INFO,
            "run all policies on one set of prompts",
            details={"shared": shared},
        )
    ]
