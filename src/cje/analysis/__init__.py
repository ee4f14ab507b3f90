"""The questions users ask: analyze, doctor, gate, judge, drift, monitor and plan."""

from cje.analysis.analyze import analyze_dataset

__all__ = ["analyze_dataset"]
