"""Folds: one hash for one id, everywhere, with independent partitions."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chi2_contingency, chisquare

from cje.data.folds import get_content_folds, get_fold, get_folds
from cje.errors import CJEError

IDS = [f"p{i}" for i in range(20_000)]
SEEDS = [0, 1, 2, 3, 7, 42, 43, 2**32, 2**63, 2**64 + 1, -1]


@given(
    st.lists(st.text(st.characters(), max_size=40), max_size=20),
    st.integers(1, 1000),
    st.integers(-(2**70), 2**70),
)
def test_the_vectorised_form_equals_the_scalar_one_for_any_text(ids, n_folds, seed):
    folds = get_folds(ids, n_folds, seed)
    assert folds.dtype == np.int64
    assert folds.tolist() == [get_fold(name, n_folds, seed) for name in ids]
    assert ((folds >= 0) & (folds < n_folds)).all()


def test_long_short_empty_and_non_ascii_ids_of_one_batch_have_their_own_folds():
    ids = [
        "",
        "a",
        "é",
        "日本語のプロンプト",
        "🙂" * 9,
        "x" * 5000,
        "x" * 8,
        "x" * 16,
        "x\0",
        "x",
        "\ud800",
    ]
    assert get_folds(ids, 1 << 30, 5).tolist() == [get_fold(name, 1 << 30, 5) for name in ids]
    assert len(set(get_folds(ids, 1 << 30, 5).tolist())) == len(ids)


def test_the_values_are_fixed_for_ever():
    """Stored results name folds by number: a change of hash would break them silently."""
    ids = ["p1", "p2", "arena_17", "prompt-é", ""]
    assert get_folds(ids, 1000, 42).tolist() == [965, 860, 761, 724, 518]
    assert get_folds(ids, 5, 0).tolist() == [3, 2, 3, 0, 2]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("n_folds", [2, 3, 5, 10])
def test_folds_of_numbered_ids_are_balanced(seed, n_folds):
    counts = np.bincount(get_folds(IDS, n_folds, seed), minlength=n_folds)
    assert chisquare(counts).pvalue > 1e-5


def test_balance_over_many_seeds_is_that_of_random_folds():
    """Neither too uneven nor too even: the chi-square statistics follow their distribution."""
    statistics = [
        chisquare(np.bincount(get_folds(IDS[:2000], 5, seed), minlength=5)).statistic
        for seed in range(300)
    ]
    quartiles = np.searchsorted(chi2(4).ppf([0.25, 0.5, 0.75]), statistics)
    assert chisquare(np.bincount(quartiles, minlength=4)).pvalue > 1e-3


def independence(first, second):
    return chi2_contingency(
        np.histogram2d(first, second, bins=(first.max() + 1, second.max() + 1))[0]
    )


def test_partitions_of_different_seeds_are_independent():
    partitions = [get_folds(IDS, 5, seed) for seed in SEEDS]
    for i, first in enumerate(partitions):
        for second in partitions[:i]:
            assert independence(first, second).pvalue > 1e-6


def test_partitions_of_different_fold_counts_are_independent():
    partitions = [get_folds(IDS, n, 42) for n in (2, 3, 4, 5, 8, 10, 20)]
    for i, first in enumerate(partitions):
        for second in partitions[:i]:
            assert independence(first, second).pvalue > 1e-6


def test_seeds_are_not_a_shift_of_one_partition():
    """With a seed that enters linearly, the difference of two partitions is far from uniform."""
    for seed in (1, 2, 256, 2**40):
        difference = (get_folds(IDS, 5, seed) - get_folds(IDS, 5, 0)) % 5
        assert chisquare(np.bincount(difference, minlength=5)).pvalue > 1e-5


def test_neighbouring_ids_are_independent_of_each_other():
    folds = get_folds(IDS, 5, 42)
    for lag in (1, 2, 10, 100, 1000):
        assert independence(folds[:-lag], folds[lag:]).pvalue > 1e-6


def test_row_order_and_batch_size_do_not_matter():
    whole = get_folds(IDS, 7, 3)
    order = np.random.default_rng(0).permutation(len(IDS))
    np.testing.assert_array_equal(get_folds([IDS[i] for i in order], 7, 3), whole[order])
    batches = [get_folds(IDS[i : i + 977], 7, 3) for i in range(0, len(IDS), 977)]
    np.testing.assert_array_equal(np.concatenate(batches), whole)


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_another_process_with_another_hash_seed_agrees(hash_seed):
    program = (
        "from cje.data.folds import get_folds, get_fold;"
        "print(get_folds([f'p{i}é' for i in range(50)], 5, 42).tolist(), get_fold('q', 9, 1))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    expected = get_folds([f"p{i}é" for i in range(50)], 5, 42).tolist()
    assert output.strip() == f"{expected} {get_fold('q', 9, 1)}"


@dataclass(frozen=True)
class CodedIds:
    codes: np.ndarray
    names: tuple[str, ...]


def test_codes_and_arrays_give_the_folds_of_their_names():
    names = ("a", "b", "c")
    codes = np.array([2, 0, 1, 1, 2])
    expected = [get_fold(names[code], 5, 1) for code in codes]
    assert get_folds(CodedIds(codes, names), 5, 1).tolist() == expected
    assert get_folds(np.array([names[code] for code in codes]), 5, 1).tolist() == expected


@pytest.mark.parametrize("distinct", [1, 40, 2000, 20_000])
def test_content_folds_follow_the_rows_and_scatter_equal_ones(distinct):
    rng = np.random.default_rng(distinct)
    x = rng.integers(0, distinct, 20_000) / 64
    y = np.where(x > 1, np.nan, x)
    folds = get_content_folds([x, y], 5, 9)
    assert chisquare(np.bincount(folds, minlength=5)).pvalue > 1e-4
    assert independence(folds, get_content_folds([x, y], 5, 10)).pvalue > 1e-4
    order = rng.permutation(20_000)
    shuffled = get_content_folds([x[order], y[order]], 5, 9)
    # Equal rows may change places among themselves: compare how many of each lie in each fold.
    expected = np.unique(np.stack([x, folds]), axis=1, return_counts=True)
    found = np.unique(np.stack([x[order], shuffled]), axis=1, return_counts=True)
    np.testing.assert_array_equal(expected[0], found[0])
    np.testing.assert_array_equal(expected[1], found[1])


def test_content_folds_are_equal_for_both_zeros_and_for_all_nans():
    x = np.random.default_rng(0).random(50)
    other = np.frombuffer(np.array([0xFFF8000000000001], dtype=np.uint64).tobytes())
    for a, b in ((0.0, -0.0), (np.nan, other[0])):
        left, right = (get_content_folds([x, np.full(50, v)], 5) for v in (a, b))
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("bad", [0, -3, 2.5, "5", None, 2**31])
def test_a_number_of_folds_that_makes_no_sense_is_refused(bad):
    for call in (lambda: get_fold("p", bad, 0), lambda: get_folds(["p"], bad, 0)):
        with pytest.raises(CJEError, match="n_folds"):
            call()


def test_ids_that_are_not_strings_are_refused():
    with pytest.raises(CJEError, match="string"):
        get_folds(["p1", 2], 5, 0)  # type: ignore[list-item]
    with pytest.raises(CJEError, match="string"):
        get_fold(None, 5, 0)  # type: ignore[arg-type]
    with pytest.raises(CJEError, match="one string"):
        get_folds("p1", 5, 0)
    with pytest.raises(CJEError, match="seed"):
        get_fold("p", 5, "x")  # type: ignore[arg-type]


def test_no_ids_give_no_folds():
    assert get_folds([], 5, 0).tolist() == []


@pytest.mark.parametrize("ids", [None, 3, [None], [1], b"ab", [["a"]], np.float64(0.5), {"a": 1}])
def test_ids_that_are_not_a_list_are_refused(ids: object) -> None:
    if ids == {"a": 1}:  # its keys
        assert get_folds(ids, 5).tolist() == get_folds(["a"], 5).tolist()  # type: ignore[arg-type]
        return
    with pytest.raises(CJEError):
        get_folds(ids, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "columns",
    [None, [], 3, "ab", [None], [0.5], ["x"], [np.zeros(3), np.zeros(2)], [np.zeros((2, 2))],
     [np.zeros(2, complex)]],
)  # fmt: skip
def test_columns_that_are_not_a_list_are_refused(columns: object) -> None:
    with pytest.raises(CJEError):
        get_content_folds(columns, 5)  # type: ignore[arg-type]


def test_whole_numbers_are_columns_too() -> None:
    whole = np.arange(50)
    assert (get_content_folds([whole], 5) == get_content_folds([whole.astype(float)], 5)).all()
