"""Overlap, gates and transport: what the data can and cannot support."""

from __future__ import annotations

from cje.diagnostics.agreement import (
    cohen_kappa,
    explained_share,
    krippendorff_alpha,
    rank_correlation,
    sensitivity_specificity,
)
from cje.diagnostics.calibration_fit import CalibrationFit, RegionResidual, calibration_fit
from cje.diagnostics.gates import (
    GateThresholds,
    check_weights_vary,
    score_overlap_findings,
    weight_findings,
    weights_vary,
)
from cje.diagnostics.judge_bias import JudgeBias, judge_biases
from cje.diagnostics.judge_card import BiasEffect, JudgeCard, JudgeCards, Measure
from cje.diagnostics.judge_identity import JudgeIdentity
from cje.diagnostics.judge_measures import judge_cards
from cje.diagnostics.label_choice import label_choice_findings
from cje.diagnostics.labelling import LabellingTest, labelling_findings, labelling_tests
from cje.diagnostics.overlap import (
    ScoreOverlap,
    WeightDiagnostics,
    effective_sample_size,
    hill_tail_index,
    score_overlap,
    weight_diagnostics,
)
from cje.diagnostics.propensities import LabelledRows, propensity_findings
from cje.diagnostics.raters import RaterAgreement, rater_agreement
from cje.diagnostics.transport import (
    TransportAudit,
    TransportStatus,
    audit_transport,
    not_checked,
)
from cje.diagnostics.typicality import Typicality, target_typicality

__all__ = [
    "BiasEffect",
    "CalibrationFit",
    "GateThresholds",
    "JudgeBias",
    "JudgeCard",
    "JudgeCards",
    "JudgeIdentity",
    "LabelledRows",
    "LabellingTest",
    "Measure",
    "RaterAgreement",
    "RegionResidual",
    "ScoreOverlap",
    "TransportAudit",
    "TransportStatus",
    "Typicality",
    "WeightDiagnostics",
    "audit_transport",
    "calibration_fit",
    "check_weights_vary",
    "cohen_kappa",
    "effective_sample_size",
    "explained_share",
    "hill_tail_index",
    "judge_biases",
    "judge_cards",
    "krippendorff_alpha",
    "label_choice_findings",
    "labelling_findings",
    "labelling_tests",
    "not_checked",
    "propensity_findings",
    "rank_correlation",
    "rater_agreement",
    "score_overlap",
    "score_overlap_findings",
    "sensitivity_specificity",
    "target_typicality",
    "weight_diagnostics",
    "weight_findings",
    "weights_vary",
]
