"""Direct runs: any server that writes text; values, differences, and nothing of log-probs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cje.analysis import analyze_dataset
from cje.data import read
from cje.errors import CJEError
from cje.label.study import Study, StudyOptions
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.demo import run_demo
from cje.pipeline.work_plan import make_plan
from tests.pipeline.accounting import assert_accounts
from tests.pipeline.scenes import ngram_settings, results_of, write_config, write_prompts
from tests.server.running import TestServer


def _chat_settings(url: str) -> dict[str, Any]:
    """Chat APIs only: nothing here can score a given response."""
    server = {"provider": "openai-compatible", "base_url": url, "timeout": 10.0}
    judged = {"variance": "none", "template": "rubric_score"}
    policy = {**server, "endpoint": "chat", "max_tokens": 8}
    return {
        "work_dir": "run",
        "dataset": {"path": "prompts.jsonl", "id_field": "id"},
        "judge": {**server, "model": "judge", **judged},
        "oracle_config": {
            "source": "model", "fraction": 0.5, "judge": {**server, "model": "oracle", **judged},
        },
        "target_policies": [
            {"name": "base", "model": "base", **policy},
            {"name": "moderate", "model": "moderate", **policy},
        ],
        "estimation": {"estimators": ["direct", "naive"]},
        "chunk_rows": 30,
    }  # fmt: skip


def test_a_chat_api_that_cannot_score_has_a_pipeline(tmp_path: Path) -> None:
    write_prompts(tmp_path, 60)
    with TestServer(quirk="chat-only") as server:
        config = load_config(write_config(tmp_path, _chat_settings(server.base_url)))
        plan = make_plan(config)
        result = CJEPipeline(config).run()
        report = server.app.report()
        assert plan.todo == sum(report["calls"].values()) == 4 + 2 * (60 + 60 + 30)
        assert_accounts(report, config.work_dir)
        before = results_of(config.work_dir)
        server.app.forget()
        CJEPipeline(config).run()
        assert not server.calls  # nothing is asked twice
        assert results_of(config.work_dir) == before
    assert list(result.results) == ["direct", "naive"]
    assert result.first.policies == ("base", "moderate")
    assert len(result.first.differences()) == 1
    assert "result/report.html" in before
    labelled = pl.read_parquet(config.work_dir / "result" / "judged.parquet")
    drawn = labelled.filter(pl.col("oracle_label").is_not_null())
    by_policy = {name: set(part["prompt_id"]) for (name,), part in drawn.group_by("policy")}
    assert by_policy["base"] == by_policy["moderate"]  # the same prompts: paired labels
    assert len(by_policy["base"]) == 30


def test_the_judged_rows_can_be_analyzed_again_to_the_same_answer(tmp_path: Path) -> None:
    write_prompts(tmp_path, 120)
    settings = ngram_settings()
    settings["estimation"] = {"estimators": ["direct"]}
    config = load_config(write_config(tmp_path, settings, seed=42))
    result = CJEPipeline(config).run()
    again = analyze_dataset(config.work_dir / "result" / "judged.parquet", estimator="direct")
    assert again.policies == result.first.policies == ("base", "near", "far")
    assert again.estimates.tolist() == pytest.approx(result.first.estimates.tolist(), abs=1e-12)


def test_policies_configured_alike_write_responses_of_their_own(tmp_path: Path) -> None:
    write_prompts(tmp_path, 60)
    settings = ngram_settings()
    settings["target_policies"] = [{**settings["logging_policy"], "name": "twin"}]
    settings["estimation"] = {"estimators": ["direct"]}
    config = load_config(write_config(tmp_path, settings))
    CJEPipeline(config).run()
    rows = pl.read_parquet(config.work_dir / "result" / "judged.parquet")
    base, twin = (rows.filter(pl.col("policy") == name)["response"] for name in ("base", "twin"))
    assert (base != twin).sum() > 10


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"oracle_config": None}, "there is no oracle_config"),
        ({"fresh_draws": {"draws_per_context": 1}}, "writes its own responses"),
        ({"estimation": {"estimators": ["direct", "calibrated-ips"]}}, "others here do"),
    ],
)
def test_what_a_direct_run_cannot_do_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    write_prompts(tmp_path, 20)
    settings = {**ngram_settings(), "estimation": {"estimators": ["direct"]}, **changes}
    config = load_config(write_config(tmp_path, settings))
    with pytest.raises(CJEError, match=said):
        CJEPipeline(config).run()
    assert not config.work_dir.exists()


def test_without_labels_the_naive_estimator_still_writes_the_rows_to_label(tmp_path: Path) -> None:
    write_prompts(tmp_path, 30)
    settings = {**ngram_settings(), "oracle_config": None, "estimation": {"estimators": "naive"}}
    config = load_config(write_config(tmp_path, settings))
    result = CJEPipeline(config).run()
    rows = pl.read_parquet(config.work_dir / "result" / "judged.parquet")
    assert rows.height == 90
    assert "oracle_label" not in rows.columns
    assert list(result.results) == ["naive"]


def _by_hand(tmp_path: Path, source: str, name: str) -> Any:
    write_prompts(tmp_path, 40)
    settings = ngram_settings()
    settings["oracle_config"] = {"source": source, "path": str(tmp_path / name), "id_column": "id",
                                 "label_column": "human"}  # fmt: skip
    settings["estimation"] = {"estimators": ["direct"]}
    return load_config(write_config(tmp_path, settings, seed=42))


def test_a_table_of_labels_is_joined_by_policy_and_prompt(tmp_path: Path) -> None:
    config = _by_hand(tmp_path, "csv", "labels.csv")
    with pytest.raises(CJEError, match=r"wait for labels.*columns policy, id, human"):
        CJEPipeline(config).run()
    judged = pl.read_parquet(config.work_dir / "result" / "judged.parquet")
    offset = {"base": 0.0, "near": 0.1, "far": 0.4}
    table = judged.select(
        "policy", pl.col("prompt_id").alias("id"),
        (pl.col("judge_score") / 2 + pl.col("policy").replace_strict(offset)).alias("human"),
    )  # fmt: skip
    table.write_csv(tmp_path / "labels.csv")
    result = CJEPipeline(config).run()
    means = table.group_by("policy", maintain_order=True).agg(pl.col("human").mean())
    assert result.first.estimates.tolist() == pytest.approx(means["human"].to_list())


def test_the_labelling_page_labels_the_rows_of_a_run(tmp_path: Path) -> None:
    config = _by_hand(tmp_path, "page", "labels.db")
    with pytest.raises(CJEError, match=r"cje label .*judged.parquet --labels .*labels.db"):
        CJEPipeline(config).run()
    judged = config.work_dir / "result" / "judged.parquet"
    options = StudyOptions(count=60, scale="0-1")
    study = Study.create(tmp_path / "labels.db", read(judged, text=True), options)
    texts = {row["response"]: row["judge_score"] for row in pl.read_parquet(judged).to_dicts()}
    while (item := study.store.take("ann", "tab")) is not None:
        word = "1" if texts[item.response] > 0.5 else "0"
        study.store.answer("ann", item.id, word=word, revision=0, key=f"key-{item.id:06d}")
    study.store.close()
    result = CJEPipeline(config).run()
    again = analyze_dataset(judged, labels=tmp_path / "labels.db", estimator="direct")
    assert result.first.estimates.tolist() == pytest.approx(again.estimates.tolist(), abs=1e-12)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_direct_demo_finds_the_truth(tmp_path: Path) -> None:
    result, rows = run_demo(tmp_path, direct=True)
    assert [row.policy for row in rows] == ["base", "near", "moderate"]
    assert sum(row.covered for row in rows) >= 2
    assert max(abs(row.estimate - row.truth) for row in rows) < 0.03
    assert result.n_rows == 3000


def test_several_judges_count_equally_and_are_kept_apart(tmp_path: Path) -> None:
    write_prompts(tmp_path, 40)
    settings = {**ngram_settings(), "estimation": {"estimators": ["direct"]}}
    settings["judge"]["name"] = "strict"
    kind = {**settings["judge"], "name": "kind", "bias": [0.4, 0.5], "n_repeats": 3}
    config = load_config(write_config(tmp_path, settings, more_judges=[kind]))
    plan = make_plan(config)
    result = CJEPipeline(config).run()
    rows = pl.read_parquet(config.work_dir / "result" / "judged.parquet")
    mean = (rows["score_strict"] + rows["score_kind"]) / 2
    assert rows["judge_score"].to_list() == pytest.approx(mean.to_list(), abs=1e-12)
    assert (rows["score_strict"] != rows["score_kind"]).sum() > 100
    again = analyze_dataset(config.work_dir / "result" / "judged.parquet", estimator="direct")
    assert again.policies == result.first.policies
    assert [stage.calls for stage in plan.stages if stage.stage.startswith("judge")] == [200] * 3
    with pytest.raises(CJEError, match="names of their own"):
        load_config(write_config(tmp_path, settings, more_judges=[{**kind, "name": "strict"}]))
