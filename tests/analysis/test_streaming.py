"""A file read in parts gives the numbers of the file in memory, and says what it cannot do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cje import analyze_dataset
from cje.analysis import streaming
from cje.cli.main import app
from cje.data.sources import open_sources
from cje.data.streaming import NotStreamed, StreamedRows, read_streamed
from cje.errors import CJEError
from cje.estimators.direct.streamed_sample import StreamedSample
from cje.results.result import EstimationResult


def rows(
    seed: int = 0,
    prompts: int = 400,
    policies: int = 3,
    most_draws: int = 3,
    label_share: tuple[float, ...] = (0.2,),
    binary: bool = False,
    skip: float = 0.2,
) -> pl.DataFrame:
    """Shuffled rows: uneven draws, prompts that some policies lack, labels on a slice."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=prompts)
    parts = []
    for k in range(policies):
        draws = rng.integers(1, most_draws + 1, prompts) * (rng.random(prompts) > skip)
        prompt = np.repeat(np.arange(prompts), draws)
        latent = 3.0 + hard[prompt] + 0.2 * k + rng.normal(size=len(prompt))
        score = np.clip(np.round(latent), 1, 5)
        label = np.clip(np.round(latent + rng.normal(size=len(prompt))), 1, 5)
        if binary:
            label = (label > 3).astype(float)
        label[rng.random(len(prompt)) > label_share[k % len(label_share)]] = np.nan
        first = np.repeat(np.cumsum(draws) - draws, draws)
        parts.append(
            pl.DataFrame(
                {
                    "prompt_id": [f"a prompt of some length, {i}" for i in prompt],
                    "policy": f"policy {k}",
                    "judge_score": score.astype(int),
                    "oracle_label": pl.Series(label).fill_nan(None),
                    "draw_idx": np.arange(len(prompt)) - first,
                }
            )
        )
    return pl.concat(parts).sample(fraction=1.0, shuffle=True, seed=seed)


def written(frame: pl.DataFrame, folder: Path) -> Path:
    path = folder / "rows.parquet"
    frame.write_parquet(path, row_group_size=97)
    return path


def parts_of(path: Path, n_parts: int, **options: Any) -> StreamedRows:
    return read_streamed(open_sources(path, None), n_parts=n_parts, batch_rows=113, **options)


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold prompts without labels at any size."""
    assert StreamedSample.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(StreamedSample.__init__.__kwdefaults__, "most_kept", 1)


def numbers(result: EstimationResult) -> dict[str, np.ndarray]:
    both = {"": result.influence}
    if len(result.influence) > 1:
        both["pairs "] = result.influence.all_pairs()
    found: dict[str, np.ndarray] = {}
    for name, part in both.items():
        found |= {
            f"{name}values": part.values,
            f"{name}standard errors": part.standard_errors(),
            f"{name}sampling errors": part.standard_errors(full=False),
            f"{name}limits": np.array([(i.low, i.high) for i in part.intervals()]),
            f"{name}p": part.p_values(3.0 if not name else 0.0),
            f"{name}df": part.degrees_of_freedom(),
        }
    joint = result.influence.simultaneous_intervals()
    return found | {"joint": np.array([(i.low, i.high) for i in joint])}


def assert_same(memory: EstimationResult, streamed: EstimationResult) -> None:
    theirs = numbers(streamed)
    for name, mine in numbers(memory).items():
        np.testing.assert_allclose(theirs[name], mine, rtol=1e-10, atol=1e-12, err_msg=name)
    for name in ("values", "standard errors", "limits", "pairs limits"):
        if name in theirs:
            np.testing.assert_allclose(theirs[name], numbers(memory)[name], rtol=1e-12, atol=1e-12)
    assert [str(f) for f in memory.all_findings()] == [str(f) for f in streamed.all_findings()]
    for key in memory.metadata:
        if key not in ("reading", "columns"):
            assert memory.metadata[key] == streamed.metadata[key], key
    assert memory.influence.n_clusters == streamed.influence.n_clusters
    assert same_plain(memory.diagnostics, streamed.diagnostics)
    assert memory.summary() == streamed.summary()


def same_plain(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_plain(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same_plain, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True))
    return bool(a == b)


@pytest.mark.parametrize("n_parts", [1, 7])
@pytest.mark.parametrize("keep", ["whole", "folded"])
@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"most_draws": 1, "skip": 0.0},
        {"binary": True},
        {"label_share": (0.3, 0.0, 0.01)},  # borrowed; a few labels of its own
        {"label_share": (1.0, 0.3)},  # every row labelled
        {"policies": 2, "prompts": 60},
    ],
)
def test_parts_give_the_numbers_of_memory(
    kind: dict[str, Any], keep: str, n_parts: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if keep == "folded":
        request.getfixturevalue("folded")
    path = written(rows(1, **kind), tmp_path)
    memory = analyze_dataset(path, engine="memory")
    streamed = analyze_dataset(parts_of(path, n_parts))
    assert streamed.influence.is_folded == (keep == "folded")
    assert_same(memory, streamed)


@settings(max_examples=25, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(
    seed=st.integers(0, 2**20),
    prompts=st.integers(30, 120),
    policies=st.integers(2, 4),
    most_draws=st.integers(1, 4),
    share=st.lists(st.sampled_from([0.0, 0.02, 0.3, 0.9]), min_size=1, max_size=3),
    binary=st.booleans(),
    skip=st.sampled_from([0.0, 0.5]),
    n_parts=st.integers(1, 7),
)
def test_parts_give_the_outcome_of_memory_whatever_the_shape(
    seed: int, prompts: int, policies: int, most_draws: int, share: list[float], binary: bool,
    skip: float, n_parts: int, tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    frame = rows(seed, prompts, policies, most_draws, (0.4, *share), binary, skip)
    path = written(frame, tmp_path_factory.mktemp("rows"))
    memory = outcome(lambda: analyze_dataset(path, engine="memory"))
    streamed = outcome(lambda: analyze_dataset(parts_of(path, n_parts)))
    if isinstance(streamed, NotStreamed):
        assert "labelling depends on the judge score" in str(streamed)
        assert isinstance(memory, EstimationResult)
        checks = memory.diagnostics["labelling"].values()
        assert any(test["p_adjusted"] < 0.02 for check in checks for test in check["tests"])
    elif isinstance(streamed, CJEError):
        assert str(memory) == str(streamed)
    else:
        assert isinstance(memory, EstimationResult)
        assert_same(memory, streamed)


def outcome(call: Callable[[], EstimationResult]) -> EstimationResult | CJEError:
    try:
        return call()
    except CJEError as error:
        return error


def test_repeats_without_a_column_of_draws_are_draws_where_asked(tmp_path: Path) -> None:
    path = written(rows(2).drop("draw_idx"), tmp_path)
    memory = analyze_dataset(path, repeats="draws", engine="memory")
    assert_same(memory, analyze_dataset(parts_of(path, 3, repeats="draws")))


def test_dictionary_columns_are_read_as_text_is(tmp_path: Path) -> None:
    plain = rows(3)
    coded = plain.with_columns(pl.col("prompt_id", "policy").cast(pl.Categorical))
    memory = analyze_dataset(written(plain, tmp_path), engine="memory")
    assert_same(memory, analyze_dataset(written(coded, tmp_path), engine="streaming"))


def test_identical_policies_differ_by_exactly_zero_when_folded(
    tmp_path: Path, folded: None
) -> None:
    one = rows(4, policies=1)
    both = pl.concat([one, one.with_columns(pl.lit("copy").alias("policy"))])
    gap = analyze_dataset(parts_of(written(both, tmp_path), 3)).compare_policies("copy", "policy 0")
    assert (gap.difference, gap.standard_error) == (0.0, 0.0)


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("judge_score", 99, "row 301"),
        ("oracle_label", 77.0, "row 301"),
        ("judge_score", None, "row 301"),
        ("oracle_label", float("nan"), "row 301"),
        ("prompt_id", None, "row 301"),
        ("policy", "", "row 301"),
    ],
)
def test_a_bad_row_is_the_same_error_as_in_memory(
    column: str, value: Any, says: str, tmp_path: Path
) -> None:
    frame = rows(5)
    wrong = frame[column].to_list()
    wrong[300] = value
    path = written(frame.with_columns(pl.Series(column, wrong)), tmp_path)
    with pytest.raises(CJEError) as memory:
        analyze_dataset(path, engine="memory")
    with pytest.raises(CJEError) as streamed:
        analyze_dataset(path, engine="streaming")
    assert says in str(memory.value)
    assert str(streamed.value) == str(memory.value)


def test_a_repeated_row_is_an_error_that_names_it(tmp_path: Path) -> None:
    frame = rows(6)
    path = written(pl.concat([frame, frame[:1]]), tmp_path)
    with pytest.raises(CJEError, match=f"duplicate row.*row {len(frame) + 1}"):
        analyze_dataset(path, engine="streaming")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"by": "group"}, "by"),
        ({"covariates": "auto"}, "covariates"),
        ({"skip_bad_rows": True}, "skip_bad_rows"),
        ({"estimator": "naive"}, "naive"),
        ({"text": True}, "text"),
    ],
)
def test_what_needs_all_rows_is_refused_in_parts(
    options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = written(rows(7), tmp_path)
    with pytest.raises(NotStreamed, match=says):
        analyze_dataset(path, engine="streaming", **options)
    with pytest.raises(NotStreamed, match=says):
        analyze_dataset(parts_of(path, 2), **options)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: f.with_columns(pl.lit(0.5).alias("label_propensity")), "label_propensity"),
        (lambda f: f.with_columns(pl.lit("u").alias("user_id")), "user_id"),
        (lambda f: f.with_columns(pl.lit(9).alias("response_length")), "response_length"),
        (lambda f: f.with_columns(pl.col("judge_score").cast(pl.String)), "judge_score"),
        (lambda f: f.drop("policy"), "column of policies"),
        (lambda f: f.drop("oracle_label"), "column of policies and one of labels"),
        (lambda f: f.with_columns(pl.lit("one").alias("policy"),
                                  draw_idx=pl.int_range(pl.len())), "one policy"),
        (lambda f: f.with_columns(judge_score=pl.int_range(pl.len()) / pl.len()).vstack(
            f.with_columns(judge_score=(pl.int_range(pl.len()) + 0.5) / pl.len(),
                           draw_idx=pl.col("draw_idx") + 9)).vstack(
            f.with_columns(judge_score=(pl.int_range(pl.len()) + 0.25) / pl.len(),
                           draw_idx=pl.col("draw_idx") + 99)), "distinct values"),
    ],
)  # fmt: skip
def test_files_that_need_memory_are_refused_by_name(change: Any, says: str, tmp_path: Path) -> None:
    path = written(change(rows(8, prompts=700)), tmp_path)
    with pytest.raises(NotStreamed, match=says):
        analyze_dataset(path, engine="streaming")


def test_other_sources_are_refused_in_parts(tmp_path: Path) -> None:
    frame = rows(9)
    frame.write_csv(tmp_path / "rows.csv")
    for source in (tmp_path / "rows.csv", frame):
        with pytest.raises(NotStreamed, match="Parquet"):
            analyze_dataset(source, engine="streaming")
    with pytest.raises(CJEError, match="unknown engine"):
        analyze_dataset(frame, engine="disk")  # type: ignore[arg-type]


def test_nothing_is_left_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    path = written(rows(10), tmp_path)
    analyze_dataset(path, engine="streaming")
    assert list(scratch.iterdir()) == []
    path = written(rows(10).with_columns(judge_score=pl.lit(-7)), tmp_path)
    with pytest.raises(CJEError):
        analyze_dataset(path, engine="streaming")
    assert list(scratch.iterdir()) == []


# ---- unasked -------------------------------------------------------------------------------------


def test_a_large_file_is_read_in_parts_unasked_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(rows(11), tmp_path)
    memory = analyze_dataset(path)
    monkeypatch.setattr(streaming, "STREAM_FROM", 500)
    streamed = analyze_dataset(path)
    assert any("parts of whole prompts" in n for n in streamed.metadata["reading"]["fresh"])
    assert not any("parts" in n for n in memory.metadata["reading"]["fresh"])
    assert_same(memory, streamed)


def test_a_large_file_that_needs_memory_is_read_in_memory_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "STREAM_FROM", 500)
    frame = rows(12)
    path = written(frame.with_columns(response_length=pl.int_range(pl.len())), tmp_path)
    notes = analyze_dataset(path).metadata["reading"]["fresh"]
    assert any("read in memory" in n and "response_length" in n for n in notes)
    skipping = analyze_dataset(written(frame, tmp_path), skip_bad_rows=True)
    notes = skipping.metadata["reading"]["fresh"]
    assert any("read in memory" in n and "skip_bad_rows" in n for n in notes)


def test_labels_that_follow_the_score_are_modelled_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = rows(13, prompts=800, label_share=(1.0,))
    keep = np.random.default_rng(0).random(len(frame)) < 0.1 * frame["judge_score"].to_numpy()
    label = pl.when(pl.Series(keep)).then(pl.col("oracle_label"))
    path = written(frame.with_columns(label.alias("oracle_label")), tmp_path)
    with pytest.raises(NotStreamed, match="labelling depends on the judge score"):
        analyze_dataset(path, engine="streaming")
    memory = analyze_dataset(path, engine="memory")
    monkeypatch.setattr(streaming, "STREAM_FROM", 500)
    unasked = analyze_dataset(path)
    np.testing.assert_array_equal(unasked.estimates, memory.estimates)
    assert any("labelling depends" in n for n in unasked.metadata["reading"]["fresh"])


# ---- what a folded result can and cannot do ------------------------------------------------------


def test_a_folded_result_can_be_saved_reported_and_compared(tmp_path: Path, folded: None) -> None:
    result = analyze_dataset(parts_of(written(rows(14), tmp_path), 3))
    again = EstimationResult.from_json(result.to_json())
    np.testing.assert_array_equal(again.ci(), result.ci())
    assert "policy 1" in result.to_html()
    assert result.best_policy() == again.best_policy()


def test_a_folded_result_refuses_what_needs_every_prompt(tmp_path: Path, folded: None) -> None:
    found = analyze_dataset(parts_of(written(rows(15), tmp_path), 3)).influence
    with pytest.raises(CJEError, match="sums of them"):
        found.multiplier_bootstrap(10)
    with pytest.raises(CJEError, match="kept as sums"):
        type(found).join([found, found.renamed(["x", "y", "z"])])
    with pytest.raises(CJEError, match="differences"):
        found.contrast([[0.5, 0.5, -1.0]], ["mean"])


def test_the_command_reads_in_parts(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    path = written(rows(16), tmp_path)
    done = [
        CliRunner().invoke(app, ["analyze", str(path), "--engine", engine])
        for engine in ("memory", "streaming")
    ]
    assert [one.exit_code for one in done] == [0, 0]
    assert done[0].output == done[1].output
