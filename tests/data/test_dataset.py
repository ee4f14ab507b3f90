"""`Dataset` and its parts: immutable, columnar, cheap to select, join and compare."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cje.data import Codes, Dataset, RaterLabels, Scale, Strings, read
from cje.errors import CJEError

NAN = float("nan")


def small(n: int = 12, **extra: object) -> Dataset:
    rng = np.random.default_rng(3)
    arguments: dict[str, object] = {
        "prompt_id": [f"p{i // 3}" for i in range(n)],
        "policy": ["a", "b", "c"] * (n // 3),
        "judge_score": rng.random(n),
        "oracle_label": np.where(np.arange(n) % 4 == 0, rng.random(n), NAN),
        "covariates": {"length": np.arange(n) * 1.0},
        "groups": {"topic": ["x", "y"] * (n // 2)},
        "response": [f"r{i}" for i in range(n)],
        "judge_scale": (0, 100),
    }
    return Dataset.from_arrays(**{**arguments, **extra})  # type: ignore[arg-type]


def test_columns_cannot_be_written_to_and_do_not_follow_the_caller() -> None:
    score = np.linspace(0, 1, 12)
    data = small(judge_score=score)
    score[0] = 0.9
    assert data.judge_score[0] == 0.0
    for column in (data.judge_score, data.oracle_label, data.draw_idx, data.policy.codes,
                   data.covariates["length"]):  # fmt: skip
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    with pytest.raises(AttributeError):
        data.judge_score = score  # type: ignore[misc]
    with pytest.raises(TypeError):
        data.metadata["x"] = 1  # type: ignore[index]


def test_no_column_is_an_object_array() -> None:
    data = small()
    for name in ("judge_score", "oracle_label", "draw_idx"):
        assert getattr(data, name).dtype.kind in "fi"
    assert data.policy.codes.dtype == np.int64


def test_select_by_mask_and_by_index_agree() -> None:
    data = small()
    mask = data.policy.mask("b")
    by_mask, by_index = data.select(mask), data.select(np.flatnonzero(mask))
    assert by_mask == by_index == data.select_policy("b")
    assert by_mask.response is not None
    assert list(by_mask.response) == [f"r{i}" for i in np.flatnonzero(mask)]
    assert by_mask.covariates["length"].tolist() == np.flatnonzero(mask).tolist()
    assert by_mask.policy.names == data.policy.names  # codes of parts stay comparable
    assert data.select([]).policy.codes.size == 0


@pytest.mark.parametrize("rows", [[12], [-13], [0.5], np.ones(3, dtype=bool)])
def test_select_refuses_rows_that_are_not_there(rows: object) -> None:
    with pytest.raises(CJEError):
        small().select(rows)  # type: ignore[arg-type]


def test_splitting_and_joining_gives_the_data_back() -> None:
    data = small(
        base_policy_logprob=-np.arange(12.0), target_policy_logprobs={"t": np.arange(-12.0, 0)}
    )
    parts = [data.select_policy(name) for name in data.policies]
    joined = parts[0].concat(*parts[1:])
    order = np.concatenate([np.flatnonzero(data.policy.mask(name)) for name in data.policies])
    assert joined == data.select(order)


def test_concat_fills_what_a_part_lacks_with_missing() -> None:
    logged = small(target_policy_logprobs={"t": -np.ones(12)}, base_policy_logprob=-np.ones(12))
    fresh = small(policy="new", judge_variance=np.full(12, 0.01))
    both = logged.concat(fresh.with_columns(covariates={}))
    assert len(both) == 24
    assert both.target_policy_logprobs is not None
    assert np.isnan(both.target_policy_logprobs[12:]).all()
    assert both.judge_variance is not None
    assert np.isnan(both.judge_variance[:12]).all()
    assert np.isnan(both.covariates["length"][12:]).all()


def test_concat_keeps_rewards_where_every_part_has_them() -> None:
    one, other = small(rewards=np.full(12, 0.5)), small(policy="new", rewards=np.full(12, 0.25))
    both = one.concat(other)
    assert both.rewards is not None
    assert both.rewards[[0, -1]].tolist() == [0.5, 0.25]
    assert one.concat(small(policy="new")).rewards is None


def test_concat_refuses_different_scales_and_duplicates() -> None:
    with pytest.raises(CJEError, match="judge_scale differs"):
        small().concat(small(judge_scale=(1, 5)))
    with pytest.raises(CJEError, match="duplicate row"):
        small().concat(small())


def test_with_columns_replaces_adds_and_checks() -> None:
    data = small()
    new = data.with_columns(rewards=np.full(12, 0.5), depth=np.arange(12.0), side=["l", "r"] * 6)
    assert new.rewards is not None
    assert new.rewards[0] == 0.5
    assert new.covariates["depth"][3] == 3
    assert new.groups["side"].names == ("l", "r")
    assert data.rewards is None
    assert new.with_columns(rewards=None).rewards is None
    with pytest.raises(CJEError, match="rewards must be in"):
        data.with_columns(rewards=np.full(12, 1.5))
    with pytest.raises(CJEError, match="one value per row"):
        data.with_columns(depth=[1.0])


def test_equality_sees_every_column_but_not_the_metadata() -> None:
    data = small()
    assert data == small()
    assert data == data.with_metadata(origin="elsewhere")
    assert data != data.with_columns(judge_score=np.zeros(12))
    assert data != data.with_columns(length=np.zeros(12))
    assert data != data.with_columns(topic=["x"] * 12)
    assert data != small(response=None)
    assert data != small(judge_scale=(0, 1))
    assert data != "data"


def test_repeats_without_a_draw_number_are_counted() -> None:
    data = Dataset.from_arrays(prompt_id=["p", "q", "p", "p"], policy=["a", "a", "b", "a"])
    assert data.draw_idx.tolist() == [0, 0, 0, 1]


def test_duplicates_are_refused_with_sparse_and_dense_draws() -> None:
    for draws in ([0, 1, 0], [5, 10**15, 5], [-(2**62), 2**62, -(2**62)]):
        with pytest.raises(CJEError, match="duplicate row") as caught:
            Dataset.from_arrays(prompt_id=["p"] * 3, policy="a", draw_idx=draws)
        assert "row 2" in str(caught.value)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [("judge_score", 1.2, "must be in"), ("judge_score", -0.1, "must be in"),
     ("judge_score", float("inf"), "infinite"), ("oracle_label", 2.0, "must be in"),
     ("judge_variance", 0.3, "0.25"), ("label_propensity", 0.0, "label_propensity"),
     ("label_propensity", 1.5, "label_propensity"),
     ("base_policy_logprob", float("-inf"), "infinite"),
     ("rewards", float("nan"), "rewards must be in"), ("rewards", 1.5, "rewards must be in")],
)  # fmt: skip
def test_from_arrays_names_the_row_of_a_bad_value(column: str, value: float, words: str) -> None:
    values = np.full(12, 0.2)
    values[7] = value
    with pytest.raises(CJEError, match=words) as caught:
        small(**{column: values})
    assert "row 7" in str(caught.value)


def test_from_arrays_refuses_columns_of_another_length() -> None:
    for name in ("judge_score", "draw_idx", "rewards", "policy", "response"):
        with pytest.raises(CJEError):
            small(**{name: [0] * 5 if name != "response" else ["x"]})
    with pytest.raises(CJEError, match="one distinct name"):
        small(target_policy_logprobs=np.zeros((12, 2)), target_policies=["t", "t"])
    with pytest.raises(CJEError, match="numbers"):
        small(judge_score=["high"] * 12)


def test_raters_become_the_mean_and_follow_selection() -> None:
    raters = RaterLabels.from_arrays(
        [0, 0, 2, 5], [0.0, 1.0, 0.25, 0.5], ["ann", "bob", "bob", "ann"]
    )
    data = small(oracle_label=None, rater_labels=raters)
    assert data.oracle_label[[0, 2, 5]].tolist() == [0.5, 0.25, 0.5]
    assert data.n_labelled == 3
    part = data.select([5, 0])
    assert part.rater_labels is not None
    assert part.rater_labels.row.tolist() == [0, 1, 1]
    assert part.rater_labels.rater.decode() == ["ann", "ann", "bob"]
    assert part.oracle_label.tolist() == part.rater_labels.row_means(2).tolist()
    both = part.concat(small(policy="z"))
    assert both.rater_labels is not None
    assert len(both.rater_labels) == 3 + 3  # a part without raters: one label, one rater


def test_the_summary_lists_rows_scales_and_further_columns() -> None:
    text = small().summary()
    for words in (
        "12 rows",
        "3 policies",
        "4 prompts",
        "3 labelled",
        "0-100",
        "covariates: length",
        "groups: topic",
    ):
        assert words in text
    assert "judge mean" in text


def test_a_dataset_survives_pickling() -> None:
    data = small(target_policy_logprobs={"t": -np.ones(12)}, base_policy_logprob=-np.ones(12))
    copy = pickle.loads(pickle.dumps(data))
    assert copy == data
    with pytest.raises(ValueError, match="read-only"):
        copy.judge_score[0] = 0


# ---- Codes, Strings, Scale ---------------------------------------------------------------------


@given(st.lists(st.text(max_size=3), max_size=40), st.lists(st.text(max_size=3), max_size=40))
def test_codes_encode_concatenate_and_compact(left: list[str], right: list[str]) -> None:
    a, b = Codes.encode(left), Codes.encode(right)
    assert a.decode() == left
    assert a.concat(b).decode() == left + right
    assert len(set(a.concat(b).names)) == a.concat(b).n_names
    assert a.names == tuple(dict.fromkeys(left))
    half = a.take(np.arange(0, len(left), 2))
    assert half.compact() == half
    assert half.compact().n_names == len(set(left[::2]))
    assert (a == b) == (left == right)
    assert a.counts().sum() == len(left)


@given(st.lists(st.text(alphabet="abé☃", max_size=3), min_size=1, max_size=40))
def test_codes_from_a_series_equal_codes_from_a_list(values: list[str]) -> None:
    import polars as pl

    series = pl.Series(values)
    for column in (series, series.cast(pl.Categorical), series.cast(pl.Enum(series.unique()))):
        codes = Codes.from_series(column)
        assert codes.names == Codes.encode(values).names
        assert codes.decode() == values


@pytest.mark.parametrize(
    "values",
    [["a"] * 5, ["a", "a", "b", "b", "b", "a"], ["a", "b", "c"] * 4, ["a", "b", "a", "c"] * 3,
     ["a", "b", "c"] * 2 + ["a"], ["a", "b", "a", "b", "a", "c"], ["a"], []],
)  # fmt: skip
def test_codes_use_the_order_of_a_column_and_do_not_change_with_it(values: list[str]) -> None:
    import polars as pl

    for dtype in (pl.String, pl.Categorical):
        codes = Codes.from_series(pl.Series(values, dtype=dtype))
        assert codes.decode() == values
        assert codes.names == Codes.encode(values).names


def test_codes_of_numbers_are_their_digits() -> None:
    assert Codes.encode(np.array([3, 1, 3])).names == ("3", "1")
    assert Codes.encode([3, "3", 1]).codes.tolist() == [0, 0, 1]
    with pytest.raises(CJEError):
        Codes.encode([0.5])
    with pytest.raises(CJEError):
        Codes.encode([True, "x"])
    with pytest.raises(CJEError, match="outside its vocabulary"):
        Codes(np.array([0, 2]), ("a", "b"))
    with pytest.raises(CJEError, match="unknown name"):
        Codes.encode(["a"]).mask("b")


def test_strings_are_equal_whatever_holds_them() -> None:
    import polars as pl

    words = ["a", "", "ccc", "é"]
    series, tuple_ = Strings(pl.Series(words)), Strings(words)
    assert series == tuple_ == words
    assert (
        list(series.take(np.array([2, 0]))) == list(tuple_.take(np.array([2, 0]))) == ["ccc", "a"]
    )
    assert list(series[1:]) == words[1:]
    assert list(series.concat(tuple_)) == words * 2
    assert series != Strings(["a"])
    assert "4 items" in repr(series)


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_a_scale_maps_there_and_back(low: float, width: float, units: list[float]) -> None:
    scale = Scale(low, low + width)
    there = scale.from_unit(units)
    assert np.allclose(scale.to_unit(there), units, atol=1e-6)
    assert np.allclose(scale.spread_from_unit(units), scale.from_unit(units) - low, atol=1e-6)


@pytest.mark.parametrize(
    "text", ["1-5", "1,5", "[1, 5]", "1:5", "1..5", "1 to 5", (1, 5), [1, 5], Scale(1, 5)]
)
def test_a_scale_is_read_from_what_people_write(text: object) -> None:
    assert Scale.parse(text) == Scale(1, 5)  # type: ignore[arg-type]
    assert Scale.parse("-1-1") == Scale(-1, 1)


@pytest.mark.parametrize(
    "wrong", ["five", (5, 1), (1, 1), (0, float("inf")), (1, 2, 3), 7, "", None]
)
def test_an_impossible_scale_is_refused(wrong: object) -> None:
    with pytest.raises(CJEError):
        Scale.parse(wrong)  # type: ignore[arg-type]


# ---- clusters ------------------------------------------------------------------------------------


def _talks():
    return [
        {"prompt_id": f"p{i}", "policy": k, "judge_score": 0.1 * i, "talk": f"t{i // 2}"}
        for i in range(6)
        for k in ("a", "b")
    ]


def test_a_cluster_column_is_what_is_independent_and_prompts_are_without_one():
    data = read(_talks(), fields={"cluster": "talk"})
    assert data.units.names == ("t0", "t1", "t2")
    assert data.with_columns(cluster=None).units is not data.cluster
    assert data.with_columns(cluster=None).units.n_names == 6
    assert data.select(np.arange(4)).units.compact().names == ("t0",)
    assert read(_talks()).cluster is None


def test_clusters_that_share_a_prompt_are_one_and_the_reading_says_so():
    rows = _talks()
    rows[0]["talk"] = "t2"
    data = read(rows, fields={"cluster": "talk"})
    assert len(set(data.units.codes[:4].tolist()) | set(data.units.codes[8:].tolist())) == 1
    assert any("share a prompt" in note for note in data.metadata["reading"])


def test_a_row_without_its_cluster_is_refused_with_its_place():
    rows = _talks()
    rows[3]["talk"] = None
    with pytest.raises(CJEError, match=r"cluster.*is missing"):
        read(rows, fields={"cluster": "talk"})


def test_concatenating_parts_of_which_one_has_no_clusters_is_refused():
    data = read(_talks(), fields={"cluster": "talk"})
    other = data.with_columns(cluster=None)
    with pytest.raises(CJEError, match="cluster is missing in one part"):
        data.concat(other.with_columns(prompt_id=[f"q{i}" for i in range(len(other))]))
