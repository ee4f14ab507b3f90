"""The calibrators keep scikit-learn's contract: every one of its checks, none excused."""

from __future__ import annotations

from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from cje.classification import (
    ClassWiseCalibrator,
    ConfidenceCalibrator,
    SoftmaxCalibrator,
    TopLabelCalibrator,
)

ESTIMATORS = [
    TopLabelCalibrator(),
    TopLabelCalibrator(GaussianNB(), calibrator="isotonic", cv=3, random_state=0),
    ConfidenceCalibrator(),
    ClassWiseCalibrator(),
    SoftmaxCalibrator(),
    SoftmaxCalibrator(GaussianNB(), method="vector", cv=3, random_state=0),
]


@parametrize_with_checks(ESTIMATORS)
def test_a_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


def test_no_check_is_skipped():
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(TopLabelCalibrator(), on_skip=None, on_fail=None)
    assert len(results) > 40
    assert {r["status"] for r in results} <= {"passed", "skipped"}
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    # Array-API checks need an extra package and apply to no array-API estimator here.
    assert skipped <= {"check_array_api_input"}, skipped
