"""`cje.checks`: each returns a well-formed value or names the argument, the place and the value."""

import numpy as np
import pytest

from cje.checks import (
    LARGEST,
    check_choice,
    check_level,
    check_number,
    check_probabilities,
    check_seed,
    check_share,
    check_weights,
    check_whole_number,
    finite_array,
    float_array,
)
from cje.errors import CJEError


@pytest.mark.parametrize("value", [None, True, "1", np.nan, np.inf, 10**400, [1.0], 1j])
def test_what_is_not_a_finite_number_is_refused(value):
    with pytest.raises(CJEError, match="margin must be a finite number"):
        check_number("margin", value)
    with pytest.raises(CJEError, match="confidence level"):
        check_level(value)


def test_the_ends_of_a_range_are_inside_it():
    assert check_number("x", 0, low=0.0, high=1.0) == 0.0
    assert check_number("x", np.float32(1), low=0.0, high=1.0) == 1.0
    with pytest.raises(CJEError, match="x must be at least 0 and at most 1"):
        check_number("x", 1.1, low=0.0, high=1.0)
    with pytest.raises(CJEError, match="x must be at most 1"):
        check_number("x", 2, high=1.0)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, float("nan"), True, "0.5", None])
def test_a_share_lies_above_zero_and_at_most_at_one(value):
    with pytest.raises(CJEError, match=r"min_pi must lie in \(0, 1\]"):
        check_share("min_pi", value)
    assert check_share("min_pi", 1) == 1.0


@pytest.mark.parametrize("value", [None, True, 1.0, "2", 0, -1])
def test_a_whole_number_below_the_least_or_of_another_type_is_refused(value):
    with pytest.raises(CJEError, match="n must be a whole number of at least 1"):
        check_whole_number("n", value)
    with pytest.raises(CJEError, match="at most 1,000"):
        check_whole_number("n", 1001, most=1000)


def test_an_unknown_choice_lists_the_known_ones():
    assert check_choice("mode", "auto", ("auto", "monotone")) == "auto"
    with pytest.raises(CJEError, match=r"unknown mode.*use one of auto, monotone"):
        check_choice("mode", ["auto"], ("auto", "monotone"))


def test_a_seed_is_a_whole_number_and_starts_the_same_numbers():
    assert check_seed(3).random() == np.random.default_rng(3).random()
    for bad in (-1, 1.5, None, "x"):
        with pytest.raises(CJEError, match="seed must be a whole number"):
            check_seed(bad)


def test_a_masked_entry_is_missing_and_never_its_hidden_value():
    column = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])
    assert np.isnan(float_array("x", column)[1])
    with pytest.raises(CJEError, match=r"x must be finite \[row 1\]"):
        finite_array("x", column)


def test_the_first_bad_place_and_the_number_of_bad_rows_are_named():
    table = np.zeros((5, 2))
    table[2, 1] = table[4, 0] = np.nan
    with pytest.raises(CJEError, match=r"row 2, column 1; 2 rows in all"):
        finite_array("x", table, ndim=2)
    with pytest.raises(CJEError, match=r"at most 1e\+100 in size"):
        finite_array("x", [0.0, 1e101], largest=LARGEST)
    with pytest.raises(CJEError, match=r"one value per row.*there are 3 rows"):
        finite_array("x", [0.0], n=3)


def test_probabilities_outside_by_rounding_only_are_moved_to_the_end():
    assert check_probabilities("p", [1.0 + 1e-7, -1e-7]).tolist() == [1.0, 0.0]
    for bad in ([1.01], [-0.1], [np.nan]):
        with pytest.raises(CJEError, match=r"p must lie in \[0, 1\] and not be NaN"):
            check_probabilities("p", bad)


def test_weights_that_a_sum_would_lose_are_refused_but_zero_is_not():
    assert check_weights("w", None, 2) is None
    assert check_weights("w", [0.0, 2.0], 2, smallest_share=1e-12).tolist() == [0.0, 2.0]
    for bad, words in (
        ([1e-13, 1.0], "too small beside the largest weight"),
        ([-1.0, 1.0], "non-negative"),
        ([0.0, 0.0], "zero in every row"),
        ([1e200, 1.0], "too large or too small to sum"),
    ):
        with pytest.raises(CJEError, match=words):
            check_weights("w", bad, 2, smallest_share=1e-12)
