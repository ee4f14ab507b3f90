"""Influence algebra, intervals, bootstrap and jackknife; `CalibrationCurve` and `Finding`."""

from cje.findings import Finding, Severity
from cje.inference.bootstrap import cluster_bootstrap, multiplier_draws
from cje.inference.components import LABELS, SAMPLE_LABELS, SAMPLING, Component
from cje.inference.curve import CalibrationCurve
from cje.inference.decision import Decision, GateRule
from cje.inference.estimate import InfluenceEstimate
from cje.inference.intervals import Interval, IntervalMethod, interval_limits, t_p_value
from cje.inference.jackknife import fold_jackknife_covariance, jackknife_influence
from cje.inference.multiplicity import (
    benjamini_hochberg,
    holm,
    leader_critical_value,
    max_t_critical_value,
)

__all__ = [
    "LABELS",
    "SAMPLE_LABELS",
    "SAMPLING",
    "CalibrationCurve",
    "Component",
    "Decision",
    "Finding",
    "GateRule",
    "InfluenceEstimate",
    "Interval",
    "IntervalMethod",
    "Severity",
    "benjamini_hochberg",
    "cluster_bootstrap",
    "fold_jackknife_covariance",
    "holm",
    "interval_limits",
    "jackknife_influence",
    "leader_critical_value",
    "max_t_critical_value",
    "multiplier_draws",
    "t_p_value",
]
