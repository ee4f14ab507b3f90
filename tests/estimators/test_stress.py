"""Short versions of `benchmarks.stress`: a bound on all cells together of 1%.

Every cell asks that misses of the 95% interval are not more than a binomial with the allowed miss
probability gives, at 1% over the number of cells; and that few-label and dependent designs are not
paid for with width.
"""

import numpy as np
import pytest
from scipy.stats import binom

from studies import stress_direct
from studies.covariates import saving
from studies.stress_direct import study

CELLS = {cell.name: cell for cell in stress_direct.CELLS}
COVERED = {
    "10 whole prompts of 10 draws labelled": 1.25,
    "users of 5 rows, intraclass correlation 0.5": 1.25,
    "inflated judge, 5 labels of its own": 1.5,
    "judge off by 0.12, 7 labels of its own": 1.5,
    "binary labels at 2%, 50 labels, no judge": 1.15,
    "binary labels at 10%, 25 labels, a judge": 1.15,
    "heavy tails, 12 labels": 1.25,
    "heteroscedastic, 30 labels": 1.25,
    "8 raters, effects 0.1, one per row": 1.4,
}
REPETITIONS, FAMILY, MISS = 60, 0.01, 0.065


@pytest.mark.parametrize("name", COVERED)
def test_a_hard_design_is_covered_without_wide_intervals(name: str) -> None:
    found = study(CELLS[name], REPETITIONS, first_seed=500)
    policies = 1 if "own" in name or "raters" in name else 2  # raters move both policies alike
    n = round(REPETITIONS * policies * (1.0 - found.refused))
    allowed = binom.isf(FAMILY / len(COVERED), n, MISS)
    assert (1.0 - found.coverage) * n <= allowed + 0.5
    width = found.to_exact if CELLS[name].binary_labels else found.to_oracle
    assert width < COVERED[name]


@pytest.mark.parametrize(
    "name",
    [
        "2 whole prompts of 10 draws labelled",
        "log-uniform propensities 0.01-1",
        "first 50 rows, drift, time recorded",
    ],
)
def test_a_design_that_no_interval_can_hold_is_refused(name: str) -> None:
    assert study(CELLS[name], 10, first_seed=500).refused == 1.0


@pytest.mark.parametrize(
    "name", ["first 50 rows, drift, no time", "users of 20 rows, not named as clusters"]
)
def test_a_design_that_only_a_reader_can_judge_is_reported_with_its_cause(name: str) -> None:
    assert study(CELLS[name], 15, first_seed=500).warned >= 0.8


def test_random_labels_on_independent_rows_raise_none_of_these_findings() -> None:
    said = set()
    for seed in range(20):
        sample = CELLS["normal, 50 labels"].draw(np.random.default_rng(seed))
        result = stress_direct.DirectEstimator(sample.dataset, seed=seed).fit_and_estimate()
        said |= {finding.code for finding in result.findings}
    assert not said & {"first-rows-labelled", "cluster-not-used", "skewed-labels"}


def test_a_bad_policy_with_an_inflated_judge_is_never_named_best() -> None:
    for own in (3, 5, 7):
        cell = CELLS[f"inflated judge, {own} labels of its own"]
        for seed in range(10):
            data = cell.draw(np.random.default_rng([seed, own])).dataset
            result = stress_direct.DirectEstimator(data, seed=seed).fit_and_estimate()
            assert result.best_policy().policy != "bad"
            assert "bad" in result.metadata["borrowed"]


def test_automatic_covariates_pay_where_they_explain_the_judge_and_cost_nothing_where_not() -> None:
    helped, useless = saving(0.3, 10), saving(0.0, 15)
    assert helped.used == 1.0
    assert helped.errors < 0.93
    assert useless.errors < 1.01
