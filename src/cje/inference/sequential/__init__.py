"""Intervals and decisions that stay valid under a look after every label.

Asymptotic confidence sequences and finite-horizon boundaries for any `InfluenceEstimate`, a betting
sequence for bounded means, and the stream of a calibration refitted as labels arrive. Decisions on
them are `cje.inference.GateRule`'s. Which rows are labelled is decided elsewhere (`cje.label`).
"""

from cje.inference.sequential.anytime import AnytimeRule, Look, anytime_intervals, anytime_limits
from cje.inference.sequential.betting import betting_interval, betting_wealth
from cje.inference.sequential.boundaries import mixture_boundary, spending_boundary
from cje.inference.sequential.change import ChangeEvidence, change_evidence, innovations
from cje.inference.sequential.forecast import labels_to_decision
from cje.inference.sequential.stream import predictable_estimate

__all__ = [
    "AnytimeRule",
    "ChangeEvidence",
    "Look",
    "anytime_intervals",
    "anytime_limits",
    "betting_interval",
    "betting_wealth",
    "change_evidence",
    "innovations",
    "labels_to_decision",
    "mixture_boundary",
    "predictable_estimate",
    "spending_boundary",
]
