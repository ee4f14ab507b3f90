"""What the labels of a fresh-draw evaluation say about its own calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.calibration.reward_model import CrossFittedRewardModel, fit_reward_model
from cje.data.dataset import Dataset
from cje.data.folds import get_folds
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
from cje.estimators.result import EstimationResult
from cje.inference import Finding, Severity, fold_jackknife_covariance

__all__ = ["audit_fresh"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_FOLDS, _SEED = 5, 42
# Beyond this many labels the calibration's own noise is far below any margin.
_NOISE_LABELS = 20_000


@dataclass(frozen=True)
class _Pool:
    """All labelled rows: those of the fresh draws, then those of the calibration data."""

    scores: FloatArray
    labels: FloatArray
    policy: IntArray  # code in the fresh draws' policies; -1: calibration data
    folds: IntArray
    propensity: FloatArray | None

    @classmethod
    def gather(cls, fresh: Dataset, calibration: Sequence[Dataset]) -> _Pool:
        parts = [fresh.select(fresh.is_labelled), *calibration]
        own = parts[0]
        outside = sum(len(part) for part in calibration)
        propensity = None
        if own.label_propensity is not None:
            propensity = np.concatenate([own.label_propensity, np.ones(outside)])
        return cls(
            np.concatenate([part.judge_score for part in parts]),
            np.concatenate([part.oracle_label for part in parts]),
            np.concatenate([own.policy.codes, np.full(outside, -1)]),
            np.concatenate([get_folds(p.prompt_id.compact(), _FOLDS, _SEED) for p in parts]),
            propensity,
        )


def audit_fresh(
    result: EstimationResult, fresh: Dataset, calibration: Sequence[Dataset] = ()
) -> EstimationResult:
    """Add calibration fit, transport audits, score overlap and rater agreement to a result.

    The transport audit asks of each labelled policy whether a calibration learnt from everybody
    else's labels would have been right for it. A policy with a rectifier of its own does not depend
    on the answer; it is told, not refused. A borrowed policy does.
    """
    pool = _Pool.gather(fresh, calibration)
    model = fit_reward_model(
        pool.scores, pool.labels, folds=pool.folds, n_folds=_FOLDS, mode="monotone"
    )
    fit = calibration_fit(pool.scores, pool.labels, model.predict_oof(pool.scores, pool.folds))
    findings: list[Finding] = list(fit.findings())
    details: dict[str, Any] = {"calibration_fit": fit.to_dict(), "transport": {}, "overlap": {}}
    borrowed = set(result.metadata.get("borrowed", ()))
    for policy in result.policies:
        code = fresh.policy.code_of(policy)
        audit = _audit(policy, code, pool, model)
        details["transport"][policy] = audit.to_dict()
        findings += _transport_findings(audit, policy in borrowed)
        if policy in borrowed:
            overlap = score_overlap(
                policy, fresh.judge_score[fresh.policy.codes == code], pool.scores
            )
            details["overlap"][policy] = overlap.to_dict()
            findings += score_overlap_findings(overlap)
    findings += _different_prompts(fresh)
    agreement = None if fresh.rater_labels is None else rater_agreement(fresh.rater_labels)
    if agreement is not None:
        details["raters"] = agreement.to_dict()
        findings += agreement.findings()
    return result.with_(diagnostics=details, findings=findings)


def _audit(policy: str, code: int, pool: _Pool, model: CrossFittedRewardModel) -> TransportAudit:
    """The policy's labels against a calibration made from all other labels."""
    mine = pool.policy == code
    if not mine.any() or mine.all():
        return not_checked(policy)
    scores = pool.scores[mine]
    kept = [~mine & (pool.folds != k) for k in range(_FOLDS)] if len(mine) <= _NOISE_LABELS else []
    variance = 0.0
    if kept and all(rows.any() for rows in kept):
        means = [[model.refit(rows.astype(float)).predict(scores).mean()] for rows in kept]
        variance = float(fold_jackknife_covariance(means)[0, 0])
    return audit_transport(
        policy,
        pool.labels[mine],
        model.leave_out(np.flatnonzero(mine)).predict(scores),
        scores=scores,
        weights=None if pool.propensity is None else 1.0 / pool.propensity[mine],
        prediction_variance=variance,
        prediction_df=_FOLDS - 1,
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
