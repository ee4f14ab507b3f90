"""Findings on rows, labels, weights and judge biases that need no estimate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cje.calibration.rewards.reward_model import fit_reward_model
from cje.data import Dataset
from cje.data.folds import get_folds
from cje.data.sampler import PrecomputedSampler
from cje.diagnostics import (
    judge_biases,
    label_choice_findings,
    labelling_findings,
    labelling_tests,
    rater_agreement,
    weight_diagnostics,
    weight_findings,
    weights_vary,
)
from cje.errors import CJEError
from cje.estimators.offpolicy.rewards import MIN_LABELS
from cje.estimators.registry import find_estimator
from cje.findings import Finding, Severity
from cje.findings.labels import (
    CONSTANT_JUDGE,
    FEW_LABELS,
    MISSING_SCORES,
    NO_LABELS,
    ONE_ROW,
)
from cje.findings.weights import MISSING_LOGPROBS
from cje.kernels.arrays import FloatArray
from cje.kernels.ranks import ecdf_fit, ecdf_predict

__all__ = ["bias_findings", "data_findings", "evaluation_findings", "length_findings"]


def data_findings(data: Dataset) -> list[Finding]:
    """Findings on the rows that hold for every analysis."""
    found = []
    counts = np.bincount(data.policy.codes, minlength=data.policy.n_names)
    for code in np.flatnonzero(counts == 1):
        found.append(ONE_ROW.finding(data.policy.names[code]))
    missing = int(np.isnan(data.judge_score).sum())
    if missing:
        severity = Severity.REFUSE if missing == len(data) else Severity.WARNING
        found.append(MISSING_SCORES.finding(severity=severity, n_missing=missing))
    if data.base_policy_logprob is not None and data.target_policy_logprobs is not None:
        for k, name in enumerate(data.target_policies):
            known = _has_logprobs(data, k)
            if not known.all():
                found.append(MISSING_LOGPROBS.finding(name, n_missing=int((~known).sum())))
    return found


def evaluation_findings(data: Dataset) -> tuple[list[Finding], str]:
    """Findings of the estimator that `analyze` would choose, and the reason if it cannot run.

    If it cannot run, only the checks that need no estimate are made.
    """
    logged = bool(data.target_policies) and data.base_policy_logprob is not None
    usable = np.isfinite(data.judge_score)
    if logged:
        for k in range(len(data.target_policies)):
            usable &= _has_logprobs(data, k)
    rows = data if usable.all() else data.select(usable)
    reason = ""
    if len(rows) and rows.n_labelled >= (MIN_LABELS if logged else 2):
        entry = find_estimator("calibrated-ips" if logged else "direct")
        try:
            return entry.build(fresh=rows, logged=rows if logged else None).audit()[1], ""
        except CJEError as error:
            reason = str(error)
    return _without_estimate(rows, logged), reason


def _without_estimate(rows: Dataset, logged: bool) -> list[Finding]:
    found = []
    if len(rows) and float(np.ptp(rows.judge_score)) == 0.0:
        found.append(CONSTANT_JUDGE.finding())
    if rows.n_labelled == 0:
        found.append(NO_LABELS.finding())
    found += label_choice_findings(rows, by_policy=not logged)
    agreement = None if rows.rater_labels is None else rater_agreement(rows.rater_labels)
    found += [] if agreement is None else agreement.findings()
    return found + (_weight_findings(rows) if logged and len(rows) else [])


def _weight_findings(rows: Dataset) -> list[Finding]:
    sampler = PrecomputedSampler(rows)
    exact = sampler.log_ratios(clipped=False)
    found = []
    for k, name in enumerate(rows.target_policies):
        ratio = sampler.log_ratios()[:, k]
        same = weights_vary(ratio, name, exact[:, k])
        if same is not None:
            found.append(same)
            continue
        clip = sampler.clipped[name]
        weights = sampler.weights(name, normalised=False)
        found += weight_findings(
            weight_diagnostics(name, weights, n_clipped=clip.above + clip.below, n_above=clip.above)
        )
    return found


def _has_logprobs(data: Dataset, k: int) -> NDArray[np.bool_]:
    base, target = data.base_policy_logprob, data.target_policy_logprobs
    assert base is not None
    assert target is not None
    return np.asarray(np.isfinite(base) & np.isfinite(target[:, k]))


def length_findings(data: Dataset, lengths: dict[str, FloatArray]) -> list[Finding]:
    """Findings that labelling depends on a length, among policies with labels."""
    labelled = data.is_labelled
    with_labels = np.bincount(data.policy.codes, labelled, data.policy.n_names) > 0
    rows = with_labels[data.policy.codes]
    codes = data.policy.codes[rows]
    ranks = {name: _rank_within(values[rows], codes) for name, values in lengths.items()}
    tests = labelling_tests(labelled[rows], ranks, {}, prompts=data.units.codes[rows])
    return labelling_findings(tests, has_propensity=data.label_propensity is not None)


def _rank_within(values: FloatArray, codes: NDArray[np.int64]) -> FloatArray:
    """Mid-rank share within each policy, so that different labelling rates cancel."""
    out = np.full(len(values), np.nan)
    for code in np.unique(codes):
        mine = np.flatnonzero((codes == code) & np.isfinite(values))
        if len(mine):
            out[mine] = ecdf_predict(*ecdf_fit(values[mine]), values[mine])
    return out


def bias_findings(data: Dataset, lengths: dict[str, FloatArray]) -> list[Finding]:
    rows = np.flatnonzero(data.is_labelled & np.isfinite(data.judge_score))
    if len(rows) < FEW_LABELS["enough"]:
        return []
    folds = get_folds(data.units, 5, 42)[rows]
    scores, labels = data.judge_score[rows], data.oracle_label[rows]
    fitted = fit_reward_model(scores, labels, folds=folds, n_folds=5).predict_oof(scores, folds)
    numbers = {name: values[rows] for name, values in lengths.items()}
    categories = {"policy": (data.policy.codes[rows], data.policy.names)}
    for name, codes in data.groups.items():
        categories[name] = (codes.codes[rows], codes.names)
    biases = judge_biases(fitted - labels, numbers, categories)
    return [f for bias in biases for f in bias.findings(data.oracle_scale.width)]
