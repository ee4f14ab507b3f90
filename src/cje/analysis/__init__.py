"""The questions people ask: analyze a data set, examine a file, plan a study."""

from cje.analysis.analyze import analyze_dataset

__all__ = ["analyze_dataset"]
