"""The seven stages end to end, and what a change of configuration costs."""

from __future__ import annotations

import asyncio
import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cje.errors import CJEError
from cje.pipeline import (
    CJEPipeline,
    PipelineResult,
    TargetPolicyStage,
    chunk_exists,
    compute_contexts_hash,
    load_chunk,
    validate_target_policy_computation,
)
from cje.pipeline.budget import BudgetError
from cje.pipeline.chunks import RowStream
from cje.pipeline.config import load_config
from cje.pipeline.demo import run_demo
from cje.pipeline.progress import Moment, NoProgress
from cje.pipeline.store import CallStore
from cje.pipeline.work_plan import make_plan
from cje.policies import make_runner
from tests.pipeline.scenes import (
    ngram_settings,
    results_of,
    server_settings,
    write_config,
    write_prompts,
)
from tests.server.faults import Faults
from tests.server.running import TestServer

ROWS = 120


def _run(folder: Path, settings: dict[str, Any], **changes: Any) -> PipelineResult:
    return CJEPipeline(load_config(write_config(folder, settings, **changes))).run()


def _calls(folder: Path) -> dict[str, int]:
    """Calls finished so far, by stage."""
    store = CallStore(folder / "run" / "store.sqlite", read_only=True)
    counts: dict[str, int] = {}
    for total in store.totals():
        counts[total.stage] = counts.get(total.stage, 0) + total.calls
    store.close()
    return counts


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_prompts(tmp_path, ROWS)
    return tmp_path


def test_a_run_goes_through_all_stages_and_the_same_command_again_calls_nothing(
    folder: Path,
) -> None:
    result = _run(folder, ngram_settings())
    assert list(result.results) == ["calibrated-ips"]
    assert result.first.policies == ("near", "far")
    assert np.isfinite(result.first.estimates).all()
    assert _calls(folder) == {
        "logging_policy": ROWS, "judge": 2 * ROWS, "oracle": 48, "target_policy": 3 * ROWS,
    }  # fmt: skip
    first = results_of(folder / "run")
    spent = CallStore(folder / "run/store.sqlite", read_only=True).spent()
    again = _run(folder, ngram_settings())
    assert CallStore(folder / "run/store.sqlite", read_only=True).spent() == spent
    assert results_of(folder / "run") == first
    np.testing.assert_array_equal(again.first.estimates, result.first.estimates)


def test_rows_carry_teacher_forced_log_probs_of_the_logged_responses(folder: Path) -> None:
    settings = ngram_settings()
    _run(folder, settings)
    rows = _rows(folder, "target_policy")
    assert len(rows) == ROWS
    assert validate_target_policy_computation(rows, 2) == ROWS
    for row in rows[:10]:
        for policy, logp in zip(settings["target_policies"], row["logp_target_all"], strict=True):
            assert logp == make_runner(policy).log_prob(row["context"], row["response"])
    assert sum(row["oracle_label"] is not None for row in rows) == 48
    assert {row["label_propensity"] for row in rows} == {0.4}


def _rows(folder: Path, stage: str) -> list[dict[str, Any]]:
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    return [
        row
        for chunk in manifest["stages"][stage]["chunks"]
        for row in load_chunk(folder / "run", stage, chunk["name"], sha256=chunk["sha256"])
    ]


def test_a_change_re_runs_only_what_depends_on_it(folder: Path) -> None:
    settings = ngram_settings()
    _run(folder, settings)
    base = _calls(folder)

    judge = {**settings["judge"], "noise": 0.06}
    _run(folder, settings, judge=judge)
    after = _calls(folder)
    assert after["judge"] == 2 * base["judge"]
    # The slice is drawn again from the same seed, so the labels are those already paid for.
    assert {k: v for k, v in after.items() if k != "judge"} == {
        k: v for k, v in base.items() if k != "judge"
    }

    targets = [
        *settings["target_policies"][:1],
        {**settings["target_policies"][1], "temperature": 0.7},
    ]
    _run(folder, settings, judge=judge, target_policies=targets)
    assert _calls(folder)["target_policy"] == base["target_policy"] + ROWS
    assert _calls(folder)["judge"] == after["judge"]

    _run(folder, settings, estimation={"estimators": ["snips", "ips"]})
    assert _calls(folder)["judge"] == after["judge"]


def test_chunk_size_changes_no_estimate_and_no_call(folder: Path) -> None:
    settings = ngram_settings()
    one = _run(folder, settings)
    before = _calls(folder)
    other = _run(folder, settings, chunk_rows=7)
    assert one.files() == other.files()
    assert _calls(folder) == before


def test_calls_of_a_trial_are_kept_for_the_whole_run(folder: Path) -> None:
    path = write_config(folder, ngram_settings())
    trial = CJEPipeline(load_config(path, limit=20)).run()
    assert trial.n_rows == 20
    assert [finding.code for finding in trial.findings] == ["trial"]  # 8 labels are too few
    assert _calls(folder)["judge"] == 40
    CJEPipeline(load_config(path)).run()
    assert _calls(folder)["judge"] == 2 * ROWS


def test_identical_weights_stop_the_run_unless_it_is_an_a_a_check(folder: Path) -> None:
    settings = ngram_settings()
    twin = {**settings["logging_policy"], "name": "twin"}
    result = _run(folder, settings, target_policies=[twin])
    assert result.weights[0]["ess_share"] == pytest.approx(1.0)
    # A policy that says it is different and scores the same: the step was forgotten somewhere.
    renamed = {**twin, "revision": "2"}
    with pytest.raises(CJEError, match="weights are identical"):
        _run(folder, settings, target_policies=[renamed])


def test_logged_responses_are_scored_as_they_are_and_wrong_log_probs_are_noticed(
    tmp_path: Path,
) -> None:
    policy = make_runner(ngram_settings()["logging_policy"])
    lines = []
    for i in range(80):
        made = asyncio.run(policy.agenerate(f"{i}. Can you help me?", seed=i))
        lines.append({"id": str(i), "context": f"{i}. Can you help me?", "response": made.text})
    for i, line in enumerate(lines):
        line["logp"] = policy.log_prob(line["context"], line["response"])
        line["constant"] = -10.0
        assert line["logp"] <= 0.0, i
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)))
    settings = ngram_settings()
    data = {**settings["dataset"], "response_field": "response", "logprob_field": "logp"}
    result = _run(tmp_path, settings, dataset=data)
    assert "logging_policy" not in _calls(tmp_path)
    assert not result.findings
    with pytest.raises(CJEError, match="cannot be right"):
        _run(tmp_path, settings, dataset={**data, "logprob_field": "constant"})


def test_without_an_oracle_the_result_reports_that_there_are_no_labels(folder: Path) -> None:
    result = _run(folder, ngram_settings(), oracle_config=None)
    assert [finding.code for finding in result.findings] == ["no-labels"]
    rows = _rows(folder, "calibration")
    assert all(row["reward"] == row["judge_score"] for row in rows)


def test_labels_from_a_table_are_joined_by_id_and_mismatches_are_reported(folder: Path) -> None:
    with open(folder / "labels.csv", "w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["prompt_id", "rating"])
        writer.writerows([[f"p{i}", 1 + i % 5] for i in range(50)])
        writer.writerow(["nobody", 3])
    oracle = {"source": "csv", "path": "labels.csv", "label_column": "rating", "scale": [1, 5]}
    result = _run(folder, ngram_settings(), oracle_config=oracle)
    assert [finding.code for finding in result.findings] == ["label-join"]
    assert "nobody" in result.findings[0].message
    assert 1.0 < result.first.estimates[0] < 5.0  # on the labels' own scale
    labels = [row["oracle_label"] for row in _rows(folder, "oracle")]
    assert labels[:5] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert labels[50:] == [None] * (ROWS - 50)


def test_a_budget_stops_the_run_and_a_larger_one_lets_it_go_on(folder: Path) -> None:
    with pytest.raises(BudgetError, match="200 calls"):
        _run(folder, ngram_settings(), budget={"max_calls": 200})
    assert sum(_calls(folder).values()) == 200
    assert _run(folder, ngram_settings(), budget={"max_calls": 100_000}).n_rows == ROWS


def test_unusable_answers_become_error_rows_with_a_reason_and_are_tried_again(
    tmp_path: Path,
) -> None:
    write_prompts(tmp_path, 40)
    faults = Faults({"short": 0.15}, only_first=0)
    with TestServer(faults=faults) as server:
        settings = server_settings(server.base_url)
        settings["oracle_config"]["fraction"] = 0.5
        settings["limits"]["default"]["max_attempts"] = 1
        with pytest.raises(CJEError, match=r"rows carry an error.*length_mismatch"):
            _run(tmp_path, settings, max_error_share=0.0)
        bad = [row for row in _rows(tmp_path, "target_policy") if row["error"]]
        assert 1 <= len(bad) <= 30
        assert all(row["logp_target_all"] is None for row in bad)
        before = _calls(tmp_path)
        server.app.faults.shares = {}
        server.app.forget()
        result = _run(tmp_path, settings, max_error_share=0.0)
        assert result.n_errors == 0
        made = _calls(tmp_path)["target_policy"] - before["target_policy"]
        assert sum(server.calls.values()) == made > 0  # only the failed calls


def test_a_sampling_temperature_that_is_not_scored_is_refused_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    write_prompts(tmp_path, 10)
    with TestServer(quirk="vllm") as server:
        settings = server_settings(server.base_url)
        settings["target_policies"][0]["temperature"] = 0.9
        with pytest.raises(CJEError, match=r"scoring under near.*temperature 0.9.*direct"):
            _run(tmp_path, settings)
    assert set(_calls(tmp_path)) == {"check"}


def test_a_server_is_scored_twice_on_some_rows(tmp_path: Path) -> None:
    write_prompts(tmp_path, 40)
    with TestServer(quirk="vllm") as server:
        settings = server_settings(server.base_url)
        settings["oracle_config"]["fraction"] = 0.5
        for policy in (settings["logging_policy"], *settings["target_policies"]):
            del policy["scoring"]
        result = _run(tmp_path, settings, target_policy={"replicates": 10})
        again = _run(tmp_path, settings, target_policy={"replicates": 10})
        assert again.files() == result.files()
    rows = _rows(tmp_path, "target_policy")
    twice = [row for row in rows if row["logp_replicate"] is not None]
    assert len(twice) == 10
    assert all(row["logp_replicate"] == row["logp_logging"] for row in twice)


def test_scores_that_start_inside_the_prompt_are_counted_in_the_result(tmp_path: Path) -> None:
    write_prompts(tmp_path, 30, response="I do not know.")  # " I" is one token
    with TestServer() as server:
        settings = server_settings(server.base_url)
        settings["dataset"]["response_field"] = "response"
        settings["oracle_config"]["fraction"] = 0.5
        for policy in (settings["logging_policy"], *settings["target_policies"]):
            policy["template"] = "{{ context }} "
        result = _run(tmp_path, settings)
    assert any("30 of 30 rows" in f.message for f in result.findings if f.code == "inside-token")
    assert {row["inside_token"] for row in _rows(tmp_path, "target_policy")} == {3}


def test_a_server_that_cannot_score_is_found_out_before_anything_is_generated(
    tmp_path: Path,
) -> None:
    write_prompts(tmp_path, 10)
    with TestServer(quirk="ollama") as server:
        settings = server_settings(server.base_url)
        for policy in (settings["logging_policy"], *settings["target_policies"]):
            del policy["scoring"]
        with pytest.raises(CJEError, match="scoring under base"):
            _run(tmp_path, settings)
        assert "/v1/chat/completions" not in server.app.by_path
    assert set(_calls(tmp_path)) == {"check"}


def test_a_server_that_is_down_is_reported_within_seconds(tmp_path: Path) -> None:
    write_prompts(tmp_path, 10)
    settings = server_settings("http://127.0.0.1:9/v1")
    for policy in (settings["logging_policy"], *settings["target_policies"]):
        del policy["scoring"]
    began = time.monotonic()
    with pytest.raises(CJEError, match="connection failed"):
        _run(tmp_path, settings)
    assert time.monotonic() - began < 15.0


def test_two_draws_for_one_context_are_two_calls(tmp_path: Path) -> None:
    write_prompts(tmp_path, 30)
    settings = ngram_settings()
    settings["dataset"]["draws_per_context"] = 4
    result = _run(tmp_path, settings)
    assert result.n_rows == 120
    assert _calls(tmp_path)["logging_policy"] == 120
    rows = _rows(tmp_path, "logging_policy")
    assert [row["draw_idx"] for row in rows[:5]] == [0, 1, 2, 3, 0]
    assert len({row["response"] for row in rows[:4]}) > 1


def test_a_plan_counts_the_calls_of_a_fresh_run_and_none_of_a_finished_one(folder: Path) -> None:
    config = load_config(write_config(folder, ngram_settings()))
    plan = make_plan(config)
    assert {s.stage: s.todo for s in plan.stages} == {
        "logging_policy": ROWS, "judge": 2 * ROWS, "oracle": 48, "target_policy": 3 * ROWS,
    }  # fmt: skip
    CJEPipeline(config).run()
    store = CallStore(config.work_dir / "store.sqlite", read_only=True)
    done = make_plan(config, store)
    assert done.todo == 0
    assert all(stage.exact for stage in done.stages)
    for path in (config.work_dir / "chunks" / "judge").glob("*.parquet"):
        path.unlink()  # lost outputs: the keys of every row are looked up instead
    lost = make_plan(config, store)
    assert {s.stage: s.done for s in lost.stages}["judge"] == 2 * ROWS


def test_target_policy_stage_on_rows_in_memory_keeps_its_result(tmp_path: Path) -> None:
    policies = ngram_settings()["target_policies"]
    rows = [{"context": "Can you help me?", "response": " I do not know."}]
    stage = TargetPolicyStage(tmp_path)
    scored = stage.run(rows, policies, compute_contexts_hash(rows))
    assert scored[0]["logp_target_all"] == [
        make_runner(policy).log_prob("Can you help me?", " I do not know.") for policy in policies
    ]
    kept = list((tmp_path / "chunks" / "target_logprobs").glob("*.parquet"))
    assert len(kept) == 1
    assert chunk_exists(tmp_path, "target_logprobs", kept[0].stem)
    assert TargetPolicyStage(tmp_path).run(rows, policies) == scored


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"row_id": 4}, "never scored"),
        ({"logp_target_all": [-1.0]}, "1 values for 2"),
        ({"logp_target_all": [-1.0, float("-inf")]}, "finite"),
        ({"logp_target_all": [-1.0, float("nan")]}, "finite"),
        ({"logp_target_all": [-1.0, 0.5]}, "at most 0"),
        ({"logp_target_all": [-1.0, None]}, "finite"),
        ({"logp_target_all": [-1.0, "-2"]}, "finite"),
        ({"logp_target_all": [-1.0, -(10**400)]}, "finite"),
        ({"logp_target_all": "-1"}, "must be a list"),
        ({"logp_target_all": -1.0}, "must be a list"),
        ("row", "must be a mapping"),
    ],
)
def test_validation_names_what_is_wrong(row: dict[str, Any], message: str) -> None:
    with pytest.raises(CJEError, match=message):
        validate_target_policy_computation([row], 2)


@pytest.mark.parametrize("rows", ["text", None, 3, {"logp_target_all": [-1.0]}])
def test_validation_refuses_values_that_are_not_rows(rows: Any) -> None:
    with pytest.raises(CJEError, match="rows must be a list"):
        validate_target_policy_computation(rows)


def test_a_run_inside_an_event_loop_works(folder: Path) -> None:
    async def notebook() -> PipelineResult:
        return _run(folder, ngram_settings())

    assert asyncio.run(notebook()).n_rows == ROWS


def test_demo_claims_what_it_can_support_and_refuses_the_rest(tmp_path: Path) -> None:
    result, rows = run_demo(tmp_path)
    by_name = {row.policy: row for row in rows}
    assert by_name["bad"].refused is not None
    for name in ("near", "moderate"):
        assert by_name[name].refused is None
        assert by_name[name].covered
        assert by_name[name].high - by_name[name].low < 0.03
    assert rows[0].logging  # the policy that wrote the log stands beside the targets
    assert rows[0].policy == "base"
    assert rows[0].covered
    assert by_name["moderate"].truth - by_name["near"].truth > 0.03
    assert result.weights[2]["ess_share"] < 0.01
    assert result.n_errors == 0


def test_row_stream_reads_one_chunk_at_a_time(folder: Path) -> None:
    _run(folder, ngram_settings())
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    assert len(manifest["stages"]["judge"]["chunks"]) == 5
    empty = RowStream(folder / "run", "judge", ())
    assert (len(empty), list(empty), empty.errors) == (0, [], 0)


def test_doubly_robust_estimators_get_fresh_draws_of_the_targets(folder: Path) -> None:
    settings = ngram_settings()
    with pytest.raises(CJEError, match="fresh_draws"):
        _run(folder, settings, estimation={"estimators": ["dr-cpo"]})
    assert not (folder / "run").exists()  # found out before anything was done
    twin = {**settings["logging_policy"], "name": "twin"}
    changes = {
        "target_policies": [settings["target_policies"][0], twin],
        "fresh_draws": {"draws_per_context": 2},
        "estimation": {"estimators": ["dr-cpo", "calibrated-ips"]},
    }
    path = write_config(folder, settings, **changes)
    assert make_plan(load_config(path)).todo == ROWS * (1 + 2 + 3) + 48 + 2 * (2 * ROWS * 3)
    result = CJEPipeline(load_config(path)).run()
    assert np.isfinite(result.results["dr-cpo"].estimates).all()
    assert _calls(folder)["logging_policy"] == ROWS + 2 * 2 * ROWS
    # The twin's fresh draws are its own: not the logged responses once more.
    logged = [row["response"] for row in _rows(folder, "logging_policy")]
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    fresh = [
        row["response"]
        for chunk in manifest["stages"]["fresh of twin"]["chunks"]
        for row in load_chunk(folder / "run", "logging_policy", chunk["name"])
    ]
    assert len(fresh) == 2 * ROWS
    assert fresh[::2] != logged


def test_progress_moves_while_a_single_chunk_is_under_way(tmp_path: Path) -> None:
    seen: list[tuple[str, Moment]] = []

    class Watcher(NoProgress):
        def update(self, stage: str, moment: Moment) -> None:
            seen.append((stage, moment))

    write_prompts(tmp_path, 60)
    with TestServer(latency=0.05) as server:
        settings = server_settings(server.base_url)
        settings["limits"]["default"]["max_concurrency"] = 2
        settings["oracle_config"]["fraction"] = 0.5
        path = write_config(tmp_path, settings, chunk_rows=1000)
        CJEPipeline(load_config(path), reporter=Watcher()).run()
    rows = [moment.rows for stage, moment in seen if stage == "judge"]
    assert rows == sorted(rows)
    assert rows[-1] == 60
    assert any(0 < n < 60 for n in rows)
