"""Files that other tools wrote themselves are recognised and read as they meant them."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cje.data import Dataset, read
from cje.data.adapters.scores import is_human, number
from cje.errors import CJEError

FILES = Path(__file__).parents[1] / "fixtures" / "adapters"


def notes(data: Dataset) -> str:
    return "\n".join(data.metadata["reading"])


def table(data: Dataset) -> dict[tuple[str, str, int], tuple[float, float]]:
    """(policy, prompt, draw) -> (judge score, label)."""
    keys = zip(data.policy.decode(), data.prompt_id.decode(), data.draw_idx.tolist(), strict=True)
    values = zip(data.judge_score.tolist(), data.oracle_label.tolist(), strict=True)
    return dict(zip(keys, values, strict=True))


# Grades by the rule of the generating script: C, P, I, N in turn, shifted by one an epoch.
INSPECT_SCORES = {
    (f"q{i}", epoch): [1.0, 0.5, 0.0, 0.0][(i + epoch) % 4] for i in range(4) for epoch in (0, 1)
}


@pytest.mark.parametrize("name", ["letters.eval", "edited.json", "with_human.json"])
def test_inspect_logs_have_epochs_as_draws_and_letters_as_inspect_maps_them(name: str) -> None:
    data = read(FILES / "inspect_ai" / name, text=True)
    assert "recognised as an Inspect AI log" in notes(data)
    assert data.policies == ("mockllm/model",)
    scores = {(prompt, draw): s for (_, prompt, draw), (s, _) in table(data).items()}
    assert scores == INSPECT_SCORES
    assert data.response is not None
    assert "answer q0, epoch 1" in list(data.response)


def test_inspect_human_scorers_are_labels() -> None:
    data = read(FILES / "inspect_ai" / "with_human.json")
    labels = {prompt: label for (_, prompt, _), (_, label) in table(data).items()}
    assert labels == {f"q{i}": 0.25 * i for i in range(4)}


def test_inspect_scores_edited_by_a_person_are_that_persons_label() -> None:
    data = read(FILES / "inspect_ai" / "edited.json")
    assert "oracle_label from 'edited by ann'" in notes(data)
    labelled = {key[1:]: v for key, v in table(data).items() if not np.isnan(v[1])}
    assert labelled == {("q1", 0): (0.5, 1.0)}  # the judge said P, ann said C


def test_an_inspect_archive_in_plain_zip_is_read_too(tmp_path: Path) -> None:
    log = json.loads((FILES / "inspect_ai" / "with_human.json").read_text())
    samples = log.pop("samples")
    with zipfile.ZipFile(tmp_path / "x.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(log))
        for sample in samples:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps(sample))
    assert table(read(tmp_path / "x.eval")) == table(read(FILES / "inspect_ai" / "with_human.json"))


def test_a_broken_inspect_archive_is_explained(tmp_path: Path) -> None:
    whole = (FILES / "inspect_ai" / "letters.eval").read_bytes()
    (tmp_path / "cut.eval").write_bytes(whole[:-300])
    (tmp_path / "text.eval").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "empty.eval", "w") as archive:
        archive.writestr("readme.txt", "x")
    for name in ("cut.eval", "text.eval", "empty.eval"):
        with pytest.raises(CJEError, match=name):
            read(tmp_path / name)


PROMPTFOO_SCORES = {"0": 0.75, "2": 0.25, "4": 0.0}


@pytest.mark.parametrize("name", ["rated.json", "out.jsonl", "out.csv"])
def test_promptfoo_repeats_are_draws_of_one_prompt(name: str) -> None:
    data = read(FILES / "promptfoo" / name)
    assert "recognised as promptfoo output" in notes(data)
    assert set(data.policies) == {"model-a", "model-b"}
    assert {(key[0], key[2]) for key in table(data)} == {
        (policy, draw) for policy in ("model-a", "model-b") for draw in (0, 1)
    }
    for (_, prompt, _), (score, _) in table(data).items():
        assert score == pytest.approx(PROMPTFOO_SCORES[prompt])


def test_promptfoo_human_ratings_are_labels_and_do_not_overwrite_the_judge() -> None:
    data = read(FILES / "promptfoo" / "rated.json")
    labels = {key: label for key, (_, label) in table(data).items() if not np.isnan(label)}
    assert labels == {
        ("model-a", "0", 0): 1.0,
        ("model-b", "0", 0): 0.0,
        ("model-a", "0", 1): 1.0,
    }
    rated = [score for key, (score, _) in table(data).items() if key in labels]
    assert rated == [0.75, 0.75, 0.75]  # the file's own score says 1, 0, 1


def test_lm_evaluation_harness_samples_are_read(tmp_path: Path) -> None:
    folder = FILES / "lm_eval" / "mock-model"
    data = read(folder / "samples_capitals.jsonl", text=True)
    assert data.policies == ("mock-model",)
    assert data.judge_score.tolist() == [0.0, 1.0, 0.0, 1.0]
    assert data.prompt_id.names == ("0", "1", "2", "3")
    assert data.prompt is not None
    assert data.prompt[1] == "question 1"
    # the harness writes a summary beside the samples: ignored, and said so
    shutil.copytree(folder, tmp_path / "model-x")
    (tmp_path / "model-x" / "results_2026.json").write_text('{"results": {}}')
    beside = read(tmp_path / "model-x")
    assert len(beside) == 4
    assert "ignored results_2026.json" in notes(beside)


@pytest.mark.parametrize("name", ["test_run.json", "latest_test_run.json"])
def test_deepeval_test_runs_are_read(name: str) -> None:
    data = read(FILES / "deepeval" / name)
    assert data.policies == ("mock-1",)
    assert data.judge_score.tolist() == [0.9, 0.4, 0.7, 0.1]
    assert data.prompt_id.names == tuple(f"case_{i}" for i in range(4))


def test_openai_evals_events_are_read() -> None:
    match = read(FILES / "openai_evals" / "match.jsonl", text=True)
    assert match.judge_score.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert match.policies == ("mock-model",)
    assert match.response is not None
    assert match.response[2] == "answer 2"
    graded = read(FILES / "openai_evals" / "graded.jsonl")
    assert graded.judge_score.tolist() == [0.0, 0.25, 0.5, 0.75]


def test_langsmith_experiments_are_read() -> None:
    data = read(FILES / "langsmith" / "experiment.csv", text=True)
    assert data.judge_score.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert np.array_equal(data.oracle_label, [np.nan, 1.0, np.nan, np.nan], equal_nan=True)
    assert data.response is not None
    assert data.response[0] == "answer to question 0"


@pytest.mark.parametrize("name", ["scores.json", "scores_v3.json"])
def test_langfuse_annotations_are_labels(name: str) -> None:
    data = read(FILES / "langfuse" / name)
    assert data.judge_score.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert np.array_equal(data.oracle_label, [np.nan, 0.0, 1.0, np.nan], equal_nan=True)


def test_langfuse_traces_with_their_scores_are_read(tmp_path: Path) -> None:
    scores = json.loads((FILES / "langfuse" / "scores.json").read_text())["data"]
    traces = [
        {
            "id": f"trace-{i}", "name": "chat", "input": {"q": i}, "output": "a",
            "metadata": {"model": f"m{i % 2}", "prompt_id": f"p{i // 2}"},
            "scores": [s for s in scores if s["traceId"] == f"trace-{i}"],
        }
        for i in range(4)
    ]  # fmt: skip
    (tmp_path / "traces.json").write_text(json.dumps({"data": traces, "meta": {}}))
    (tmp_path / "traces.jsonl").write_text("\n".join(json.dumps(trace) for trace in traces))
    for name in ("traces.json", "traces.jsonl"):
        data = read(tmp_path / name)
        assert data.policies == ("m0", "m1")
        assert data.prompt_id.names == ("p0", "p1")
        assert data.n_labelled == 2


@pytest.mark.parametrize("name", ["result.json", "experiment.jsonl"])
def test_braintrust_experiments_are_read(name: str) -> None:
    data = read(FILES / "braintrust" / name)
    assert "recognised as a Braintrust export" in notes(data)
    assert data.policies == ("capitals" if name == "result.json" else "mock-1-id",)
    assert data.judge_score.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert np.array_equal(data.oracle_label, [np.nan, 1.0, np.nan, np.nan], equal_nan=True)


def test_ragas_results_with_and_without_modes_are_read() -> None:
    data = read(FILES / "ragas" / "mode.csv", text=True)
    assert "judge_score is the score 'factual_correctness(mode=f1)'" in notes(data)
    assert data.judge_score.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert data.response is not None
    assert data.response[0] == "answer 0"
    assert read(FILES / "ragas" / "one.csv").judge_score.tolist() == [0.0, 1.0, 0.0, 1.0]
    both = read(FILES / "ragas" / "two.csv", fields={"judge_score": "scores.string_present"})
    assert both.judge_score.tolist() == [0.0, 1.0, 0.0, 1.0]


def test_mlflow_tables_of_both_evaluate_functions_are_read() -> None:
    data = read(FILES / "mlflow" / "eval_results_table.json")
    assert data.judge_score.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert data.n_labelled == 0
    data = read(FILES / "mlflow" / "eval_results.csv")
    scores = {prompt: values for (_, prompt, _), values in table(data).items()}
    assert [scores[f"{{'question': 'question {i}'}}"][0] for i in range(4)] == [0, 0.25, 0.5, 0.75]
    assert data.n_labelled == 1
    assert "judge_score is the score 'correctness'" in notes(data)  # not the expectation 'steps'


def test_mlflow_feedback_of_a_person_is_a_label(tmp_path: Path) -> None:
    text = (FILES / "mlflow" / "eval_results.csv").read_text()
    marks = '""assessment_name"": ""correctness"", ', '""source_type"": ""CODE""'
    parts = text.split(marks[0])
    assert len(parts) == 5  # one record per row
    edited = [part.replace(marks[1], '""source_type"": ""HUMAN""', 1) for part in parts[1:]]
    path = tmp_path / "eval_results.csv"
    path.write_text(marks[0].join([parts[0], *edited]))
    fields = {
        "judge_score": "metadata.execution_duration",
        "oracle_label": "oracle_label.correctness",
    }
    data = read(path, fields=fields, judge_scale="0-100000")
    assert sorted(data.oracle_label) == [0.0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize("name", ["experiment.json", "experiment.csv"])
def test_phoenix_experiments_are_read(name: str) -> None:
    data = read(FILES / "phoenix" / name)
    assert "recognised as an Arize Phoenix experiment" in notes(data)
    assert data.judge_score.tolist() == [0.0, 0.25, 0.5, 0.75]
    assert data.n_prompts == 4


@pytest.mark.parametrize("name", ["spans.csv", "spans.jsonl"])
def test_phoenix_spans_have_no_score_of_their_own(name: str) -> None:
    path = FILES / "phoenix" / name
    with pytest.raises(CJEError, match="missing field judge_score"):
        read(path)
    data = read(path, fields={"judge_score": "metadata.context.span_id"}, judge_scale="0-10")
    assert data.policies == ("mock-1",)
    assert data.prompt_id.names == tuple(f"question {i}" for i in range(4))


def test_labels_join_onto_another_tools_file(tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("example_id,label\ncase_0,1\ncase_3,0\n")
    data = read(FILES / "deepeval" / "test_run.json", labels=labels, on="example_id")
    assert np.array_equal(data.oracle_label, [1.0, np.nan, np.nan, 0.0], equal_nan=True)


def test_several_scores_are_the_users_choice(tmp_path: Path) -> None:
    run = json.loads((FILES / "deepeval" / "test_run.json").read_text())
    for i, case in enumerate(run["testCases"]):
        case["metricsData"].append({"name": "Tone", "score": i / 4})
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    with pytest.raises(CJEError, match=r"several columns could be judge_score.*scores\.Tone"):
        read(path)
    data = read(path, fields={"judge_score": "scores.Tone"})
    assert data.judge_score.tolist() == [0.0, 0.25, 0.5, 0.75]


def test_words_become_numbers_and_names_of_people_are_recognised() -> None:
    assert [number(v) for v in (True, "pass", "FAIL", "0.5", 2, None, [], "green")] == [
        1.0, 1.0, 0.0, 0.5, 2.0, None, None, None,
    ]  # fmt: skip
    assert is_human("human_rating")
    assert is_human("Expert")
    assert not is_human("superhuman")
    assert not is_human("correctness")


every_file = st.sampled_from(
    sorted(p for p in FILES.rglob("*") if p.is_file() and p.suffix in (".json", ".jsonl"))
)
rubbish = st.sampled_from([None, 0, "x", [], {}, [None], {"a": 1}, -1, True])


def damaged(value: object, draw: st.DataObject, depth: int = 0) -> object:
    """The value with one part, somewhere inside, replaced by rubbish."""
    inside = isinstance(value, dict | list) and len(value) > 0
    if not inside or (depth > 1 and draw.draw(st.integers(0, 3)) == 0):
        return draw.draw(rubbish)
    if isinstance(value, dict):
        key = draw.draw(st.sampled_from(sorted(value)))
        return {**value, key: damaged(value[key], draw, depth + 1)}
    assert isinstance(value, list)
    at = draw.draw(st.integers(0, len(value) - 1))
    return [*value[:at], damaged(value[at], draw, depth + 1), *value[at + 1 :]]


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(every_file, st.data())
def test_damaged_files_of_the_tools_give_data_or_a_clear_error(
    tmp_path: Path, file: Path, draw: st.DataObject
) -> None:
    text = file.read_text()
    path = tmp_path / file.name
    if file.suffix == ".json":
        path.write_text(json.dumps(damaged(json.loads(text), draw)))
    else:
        lines = [json.loads(line) for line in text.splitlines()]
        path.write_text("\n".join(json.dumps(x) for x in damaged(lines, draw)))  # type: ignore[attr-defined]
    try:
        data = read(path, min_rows=1)
    except CJEError as error:
        if not str(error):
            raise
    else:
        assert len(data) > 0
        assert np.isfinite(data.judge_score).all()
