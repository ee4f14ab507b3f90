"""Gates of the logged data: diagnostics of weights, labels and scores, and the gates on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cje.data import PrecomputedSampler
from cje.diagnostics import (
    GateThresholds,
    calibration_fit,
    effective_sample_size,
    label_choice_findings,
    rater_agreement,
    score_overlap,
    score_overlap_findings,
    target_typicality,
    weight_diagnostics,
    weight_findings,
)
from cje.estimators.offpolicy.carry_over import carry_over_findings
from cje.estimators.offpolicy.labelled_slice import label_slice_findings
from cje.findings import Finding
from cje.findings.labels import CONSTANT_JUDGE, IDENTICAL_LABELS
from cje.findings.weights import FRESH_LABELS_UNUSED, LOW_LABEL_ESS, OTHER_PROMPTS
from cje.kernels.arrays import FloatArray

if TYPE_CHECKING:
    from cje.estimators.offpolicy.problem import Problem

__all__ = ["carry_over", "examine", "fresh_findings", "label_gate", "tail_may_be_heavy"]


def examine(
    problem: Problem,
    sampler: PrecomputedSampler,
    thresholds: GateThresholds,
    *,
    propensity_estimated: bool = False,
) -> tuple[dict[str, Any], list[Finding]]:
    """Diagnostics and gates common to all off-policy estimators."""
    logged, labelled = problem.logged, problem.logged.labelled
    weights, findings = _weights(problem, sampler, thresholds)
    quality = calibration_fit(
        logged.scores[labelled],
        logged.labels[labelled],
        problem.rewards.out_of_fold[labelled],
        1.0 / logged.propensity[labelled],
    )
    overlaps, uncovered = _overlaps(problem, thresholds)
    diagnostics = {
        "weights": weights,
        "calibration_fit": quality.to_dict(),
        "score_overlap": overlaps,
    }
    width = sampler.dataset.oracle_scale.width
    findings += quality.findings(width) + uncovered + label_slice_findings(logged)
    if not propensity_estimated or sampler.dataset.label_propensity is not None:
        findings += label_choice_findings(sampler.dataset, by_policy=False)
    raters = sampler.dataset.rater_labels
    agreement = None if raters is None else rater_agreement(raters)
    if agreement is not None:
        diagnostics["rater_agreement"] = agreement.to_dict()
        findings += agreement.findings()
    return diagnostics, findings


def _weights(
    problem: Problem, sampler: PrecomputedSampler, thresholds: GateThresholds
) -> tuple[dict[str, Any], list[Finding]]:
    logged = problem.logged
    weights: dict[str, Any] = {}
    findings: list[Finding] = []
    targets = sampler.dataset.target_policy_logprobs
    assert targets is not None  # checked by the sampler
    for k, name in enumerate(logged.policies):
        clip = sampler.clipped[name]
        found = weight_diagnostics(
            name,
            logged.raw[:, k],
            clusters=logged.clusters,
            n_clipped=clip.above + clip.below,
            n_above=clip.above,
        )
        labelled_ess = effective_sample_size(logged.weights[logged.labelled, k])
        typical = target_typicality(targets[:, k], sampler.log_ratios()[:, k])
        weights[name] = {
            **found.to_dict(),
            "labelled_ess": labelled_ess,
            "typicality": typical.to_dict(),
        }
        findings += weight_findings(found, thresholds)
    return weights, findings


def _overlaps(problem: Problem, thresholds: GateThresholds) -> tuple[dict[str, Any], list[Finding]]:
    """Overlap of labelled scores with a target's: its fresh draws, or the weighted log."""
    logged = problem.logged
    known = logged.scores[logged.labelled]
    overlaps: dict[str, Any] = {}
    findings: list[Finding] = []
    for k, name in enumerate(logged.policies):
        if problem.fresh:
            overlap = score_overlap(name, problem.fresh[k].scores, known)
        else:
            overlap = score_overlap(name, logged.scores, known, weights=logged.weights[:, k])
        overlaps[name] = overlap.to_dict()
        findings += score_overlap_findings(overlap, thresholds)
    return overlaps, findings


def fresh_findings(problem: Problem, n_labelled: int) -> list[Finding]:
    """Labels on fresh draws that are not used, and fresh prompts that were not logged."""
    found = []
    if n_labelled:
        found.append(FRESH_LABELS_UNUSED.finding(n_labels=n_labelled))
    drawn = np.unique(np.concatenate([draws.clusters for draws in problem.fresh]))
    if not np.isin(drawn, problem.logged.clusters).any():
        found.append(OTHER_PROMPTS.finding())
    return found


def carry_over(
    problem: Problem,
    label_weights: FloatArray,
    thresholds: GateThresholds,
    standard_errors: FloatArray,
    width: float,
) -> list[Finding]:
    """Compare labels weighted by W with labels weighted by m(S)."""
    logged = problem.logged
    corrected = label_weights is logged.weights
    rows = logged.labelled
    omega = logged.weights[rows] / logged.propensity[rows][:, None]
    enough = [effective_sample_size(w) >= thresholds.labels_ess_refuse for w in omega.T]
    return carry_over_findings(
        logged.policies,
        problem.term(logged.weights),
        problem.term(problem.projected if corrected else label_weights),
        enough,
        standard_errors,
        width,
        corrected=corrected,
    )


def label_gate(
    problem: Problem, label_weights: FloatArray, thresholds: GateThresholds
) -> list[Finding]:
    """Refuse an estimate with too few effective labels, or from a constant judge."""
    logged, rows = problem.logged, problem.logged.labelled
    n_labels = int(rows.sum())
    found = []
    if float(np.ptp(logged.scores)) == 0.0 and label_weights is not logged.weights:
        found.append(CONSTANT_JUDGE.finding())
    if float(np.ptp(logged.labels[rows])) == 0.0:
        which = f"all {n_labels} labels"
        found.append(IDENTICAL_LABELS.finding(which=which, details={"n_labels": n_labels}))
    for name, column in zip(logged.policies, label_weights.T, strict=True):
        ess = effective_sample_size(column[rows] / logged.propensity[rows])
        if ess < thresholds.labels_ess_refuse:
            found.append(LOW_LABEL_ESS.finding(name, n_labels=n_labels, label_ess=ess))
    return found


def tail_may_be_heavy(thresholds: GateThresholds) -> GateThresholds:
    """The thresholds of an estimator that uses W through m(S) only: a heavy tail is a warning."""
    return replace(thresholds, tail_index_refuse=0.0)
