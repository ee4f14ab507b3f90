"""Pairwise runs: two responses side by side, in known orders, with labels on a slice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cje.analysis import analyze_dataset
from cje.errors import CJEError
from cje.pipeline.budget import BudgetError
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.stages.estimators import check_estimators
from cje.pipeline.store import CallStore
from cje.pipeline.work_plan import make_plan
from cje.results.result import EstimationResult
from tests.pipeline.accounting import assert_accounts
from tests.pipeline.scenes import ngram_settings, results_of, write_config, write_prompts
from tests.server.faults import Faults
from tests.server.running import TestServer


def _settings(url: str, **pairwise: str) -> dict[str, Any]:
    server = {"provider": "openai-compatible", "base_url": url, "timeout": 10.0}
    judged = {**server, "variance": "none", "template": "comparative"}
    policy = {**server, "endpoint": "chat", "max_tokens": 8}
    return {
        "work_dir": "run",
        "dataset": {"path": "prompts.jsonl", "id_field": "id"},
        "judge": {**judged, "model": "judge"},
        "oracle_config": {
            "source": "model", "fraction": 0.5, "judge": {**judged, "model": "oracle"},
        },
        "target_policies": [
            {"name": "base", "model": "base", **policy},
            {"name": "moderate", "model": "moderate", **policy},
            {"name": "near", "model": "near", **policy},
        ],
        "estimation": {"estimators": ["pairwise"]},
        "pairwise": pairwise,
        "limits": {"default": {"retry_seconds": 0.01}},
        "chunk_rows": 25,
    }  # fmt: skip


def _offline() -> dict[str, Any]:
    settings = ngram_settings()
    settings["judge"]["noise"] = 0.2
    settings["judge"]["n_repeats"] = 3
    settings["estimation"] = {"estimators": ["pairwise"]}
    settings["oracle_config"] = {
        "source": "model", "fraction": 0.4,
        "judge": {"provider": "offline", "noise": 0.01, "n_repeats": 1, "variance": "none"},
    }  # fmt: skip
    return settings


def _table(work_dir: Path) -> pl.DataFrame:
    return pl.read_parquet(work_dir / "result" / "comparisons.parquet")


def test_a_pairwise_run_compares_in_both_orders_and_resumes_without_a_call(tmp_path: Path) -> None:
    write_prompts(tmp_path, 60)
    with TestServer(quirk="chat-only") as server:
        config = load_config(write_config(tmp_path, _settings(server.base_url)))
        plan = make_plan(config)
        result = CJEPipeline(config).run()
        report = server.app.report()
        # Five trials, 60 responses of three policies, two pairs in both orders, half labelled.
        assert plan.todo == sum(report["calls"].values()) == 5 + 3 * 60 + 2 * (2 * 60 + 2 * 30)
        assert_accounts(report, config.work_dir)
        before = results_of(config.work_dir)
        server.app.forget()
        CJEPipeline(config).run()
        assert not server.calls
        assert results_of(config.work_dir) == before
    assert result.first.policies == ("base", "moderate", "near")
    assert "result/report.html" in before
    table = _table(config.work_dir)
    assert set(zip(table["model_a"], table["model_b"], strict=True)) == {
        ("base", "moderate"), ("moderate", "base"), ("base", "near"), ("near", "base"),
    }  # fmt: skip
    assert len(table) == 2 * 2 * 60
    labelled = table.filter(pl.col("human_winner").is_not_null())
    assert len(labelled) == 2 * 2 * 30
    assert set(labelled["label_propensity"]) == {0.5}
    saved = EstimationResult.from_json(config.work_dir / "result" / "pairwise.json")
    assert saved.estimates.tolist() == result.first.estimates.tolist()


def test_a_run_stopped_among_the_comparisons_resumes_and_asks_for_the_rest_only(
    tmp_path: Path,
) -> None:
    write_prompts(tmp_path, 30)
    with TestServer(quirk="chat-only") as server:
        settings = _settings(server.base_url)
        stopped = load_config(write_config(tmp_path, settings, budget={"max_calls": 140}))
        with pytest.raises(BudgetError):
            CJEPipeline(stopped).run()  # 5 trials and 90 responses: 45 comparisons are done
        config = load_config(write_config(tmp_path, settings))
        made = len(server.calls)
        assert make_plan(config, CallStore(config.work_dir / "store.sqlite", read_only=True)).stages
        CJEPipeline(config).run()
        assert made == 140
        assert set(server.calls.values()) == {1}
        assert sum(server.calls.values()) == 5 + 3 * 30 + 2 * (2 * 30 + 2 * 15)


def test_a_fault_of_a_comparison_is_tried_again_by_the_engine_alone(tmp_path: Path) -> None:
    write_prompts(tmp_path, 30)
    faults = Faults({"500": 0.1}, seed=3)
    with TestServer(quirk="chat-only", faults=faults) as server:
        config = load_config(write_config(tmp_path, _settings(server.base_url)))
        result = CJEPipeline(config).run()
        assert_accounts(server.app.report(), config.work_dir)  # each attempt is in the books once
    assert result.n_errors == 0


def test_one_order_at_random_asks_half_as_much_and_is_on_record(tmp_path: Path) -> None:
    write_prompts(tmp_path, 100)
    config = load_config(
        write_config(tmp_path, _offline(), pairwise={"order": "random", "pairs": "all"})
    )
    assert config.pairs == [("base", "near"), ("base", "far"), ("near", "far")]
    plan = make_plan(config)
    assert sum(p.calls for p in plan.stages if p.stage.startswith("judge")) == 3 * 3 * 100
    CJEPipeline(config).run()
    judged = _table(config.work_dir).filter(pl.col("judge_winner").is_not_null())
    assert len(judged) == 3 * 100  # one order each
    for a, b in config.pairs:
        first = judged.filter((pl.col("model_a") == a) & (pl.col("model_b") == b))
        assert 30 < len(first) < 70


def test_the_comparisons_can_be_analyzed_again_to_the_same_answer(tmp_path: Path) -> None:
    write_prompts(tmp_path, 120)
    config = load_config(write_config(tmp_path, _offline(), seed=42))
    result = CJEPipeline(config).run()
    again = analyze_dataset(config.work_dir / "result" / "comparisons.parquet")
    values = dict(zip(again.policies, again.estimates.tolist(), strict=True))
    assert [values[name] for name in result.first.policies] == pytest.approx(
        result.first.estimates.tolist(), abs=1e-9
    )


def test_several_judges_and_repeats_are_averaged_within_an_order(tmp_path: Path) -> None:
    write_prompts(tmp_path, 20)
    settings = _offline()
    settings["more_judges"] = [{**settings["judge"], "name": "second", "seed": 9}]
    config = load_config(write_config(tmp_path, settings))
    CJEPipeline(config).run()
    sixths = _table(config.work_dir)["judge_winner"] * 12  # 2 judges, 3 repeats, ties are halves
    assert sixths.to_list() == pytest.approx(sixths.round().to_list(), abs=1e-9)
    assert any(round(value) % 12 for value in sixths)


def test_labels_of_people_are_joined_from_a_table_of_winners(tmp_path: Path) -> None:
    write_prompts(tmp_path, 40)
    rows = [f"p{i},far,base,{'model_a' if i % 4 else 'model_b'}" for i in range(20)]
    text = "\n".join(["id,model_a,model_b,human_winner", *rows]) + "\n"
    settings = _offline()
    settings["target_policies"] = settings["target_policies"][1:]
    settings["oracle_config"] = {
        "source": "csv", "path": str(tmp_path / "labels.csv"), "id_column": "id",
    }  # fmt: skip
    config = load_config(write_config(tmp_path, settings))
    with pytest.raises(CJEError, match="the comparisons wait for labels"):
        CJEPipeline(config).run()
    assert len(_table(config.work_dir)) == 2 * 40
    (tmp_path / "labels.csv").write_text(text)
    result = CJEPipeline(config).run()
    assert result.first.policies == ("base", "far")
    assert result.first.metadata["n_labels"] == {"base": 20, "far": 20}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"estimation": {"estimators": ["pairwise", "direct"]}}, "pairwise"),
        ({"oracle_config": {"source": "page", "path": "labels.db"}}, "labels of comparisons"),
        (
            {"judge": {"provider": "openai", "model": "m", "template": "rubric_score"}},
            "comparative template",
        ),
    ],
)
def test_what_a_pairwise_run_cannot_do_is_refused_before_a_call(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    write_prompts(tmp_path, 5)
    config = load_config(write_config(tmp_path, _offline(), **changes))
    with pytest.raises(CJEError, match=words):
        CJEPipeline(config).run()
    assert not (config.work_dir / "store.sqlite").exists()


def test_the_example_of_a_pairwise_run_is_a_configuration_that_can_run() -> None:
    config = load_config(Path(__file__).parents[2] / "examples" / "pipeline_pairwise.yaml")
    check_estimators(config)
    assert config.pairs == [("current", "new-prompt")]
