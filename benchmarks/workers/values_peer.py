"""Values of a peer on data from standard input, in the peer's environment; JSON in, JSON out.

Run by `benchmarks.values` as ``PYTHON values_peer.py TASK``; each task imports one package.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np


def sklearn_temperature(given: dict[str, Any]) -> dict[str, Any]:
    """Temperature scaling as `CalibratedClassifierCV` does it, on log-probabilities."""
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """A classifier whose input is its output."""

        classes_ = np.arange(len(given["fit"][0]))

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def fit(self, X: Any, y: Any) -> Given:
            return self

        def decision_function(self, X: Any) -> Any:
            return np.log(X)

        def predict(self, X: Any) -> Any:
            return np.argmax(X, axis=1)

    model = CalibratedClassifierCV(FrozenEstimator(Given()), method="temperature")
    model.fit(np.array(given["fit"]), np.array(given["label"]))
    return {"temperature": model.predict_proba(np.array(given["new"])).tolist()}


def probmetrics(given: dict[str, Any]) -> dict[str, Any]:
    """Temperature, vector and structured matrix scaling."""
    from probmetrics.calibrators.logistic import SMSCalibrator, VectorScalingCalibrator
    from probmetrics.calibrators.temperature_scaling import TemperatureScalingCalibrator

    fit, label = np.array(given["fit"]), np.array(given["label"])
    makers = {"temperature": TemperatureScalingCalibrator, "vector": VectorScalingCalibrator,
              "matrix": SMSCalibrator}  # fmt: skip
    return {
        name: np.asarray(make().fit(fit, label).predict_proba(np.array(given["new"]))).tolist()
        for name, make in makers.items()
    }


def evalstats(given: dict[str, Any]) -> dict[str, Any]:
    """Point estimates of judge-human alignment, for each type of score."""
    from evalstats.alignment import judge_alignment

    found = {}
    for kind, (judge, human) in given.items():
        result = judge_alignment(
            np.array(judge), np.array(human), score_type=kind, ci=False, selection="random"
        )
        found[kind] = {
            name: value["estimate"]
            for name, value in result.alignment_metrics.items()
            if isinstance(value, dict) and "estimate" in value
        }
    return found


def arena_rank(given: dict[str, Any]) -> dict[str, Any]:
    """Bradley-Terry ratings in log-odds of mean zero, and their sandwich variances."""
    import pandas as pd
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    names = given["models"]
    model = BradleyTerry(len(names), ftol=1e-14, gtol=1e-12)
    data = PairDataset.from_pandas(pd.DataFrame(given["comparisons"]))
    found = model.compute_ratings_and_cis(data)
    ratings = np.asarray(found["ratings"]) - model.init_rating
    return {
        "ratings": ((ratings - ratings.mean()) / model.alpha).tolist(),
        "variances": (np.asarray(found["variances"]) / model.alpha**2).tolist(),
    }


TASKS = {
    "sklearn_temperature": sklearn_temperature, "probmetrics": probmetrics,
    "evalstats": evalstats, "arena_rank": arena_rank,
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](json.load(sys.stdin))))
