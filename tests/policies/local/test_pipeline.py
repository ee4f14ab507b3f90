"""`provider: transformers` in the pipeline: passes planned across rows and policies; Ray actors."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
import torch
import transformers

from cje.judges import JudgeConfig
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.preflight import preflight
from cje.pipeline.stages.judge import judge_of
from cje.policies import make_multi_sampler
from cje.policies.local.chat import LocalChat
from tests.pipeline.scenes import ngram_settings, results_of, write_config, write_prompts


def settings(folders: tuple[Path, Path], **more: Any) -> dict[str, Any]:
    common = {"provider": "transformers", "template": "auto", "max_tokens": 12, "device": "cpu"}
    made = ngram_settings()
    made["logging_policy"] = {"name": "base", "model": str(folders[0]), **common, **more}
    made["target_policies"] = [
        {"name": "near", "model": str(folders[0]), "temperature": 0.95, **common, **more},
        {"name": "same", "model": str(folders[0]), "system_prompt": "Be brief.", **common, **more},
    ]
    return made


def test_two_policies_of_one_model_share_one_load_and_three_temperatures_one_pass(folders):
    common = {"provider": "transformers", "template": "auto", "device": "cpu"}
    policies = [
        {"name": f"t{t}", "model": str(folders[0]), "temperature": t, **common}
        for t in (0.7, 1.0, 1.3)
    ]
    policies.append({"name": "brief", "model": str(folders[0]), "system_prompt": "Hi", **common})
    sampler = make_multi_sampler(policies)
    model = sampler.runners[0].model
    assert all(runner.model is model for runner in sampler.runners)
    before = model.engine.counts.tokens, model.engine.counts.packs
    matrix = sampler.logp_matrix(["Can you help me?"] * 3, ["Yes.", "No.", "It is long."])
    alone = [runner.log_prob("Can you help me?", "No.") for runner in sampler.runners]
    assert matrix[1].tolist() == pytest.approx(alone, abs=1e-4)
    tokens, packs = model.engine.counts.tokens - before[0], model.engine.counts.packs - before[1]
    assert packs == 6  # one for three temperatures, one for the other prompt; four alone
    assert tokens < 200


def test_a_run_with_models_of_this_process_scores_what_it_wrote(tmp_path, folders):
    write_prompts(tmp_path, 60)
    made = settings(folders, batch_invariant=True)
    made["estimation"] = {"estimators": ["snips"]}
    path = write_config(tmp_path, made, target_policy={"replicates": 5})
    config = load_config(path)
    assert all(check.ok for check in preflight(config))
    assert any("fast path, batch-invariant" in check.says for check in preflight(config))
    result = CJEPipeline(config).run()
    assert set(result.first.policies) == {"near", "same"}
    files = sorted((tmp_path / "run" / "chunks" / "target_policy").glob("*.parquet"))
    rows = pl.concat([pl.read_parquet(file) for file in files])
    assert rows["error"].null_count() == 60
    assert (rows["logp_generated"] == rows["logp_logging"]).all()  # the self-ratio is exactly 1
    twice = rows.filter(pl.col("logp_replicate").is_not_null())
    assert len(twice) == 5
    assert (twice["logp_replicate"] == twice["logp_logging"]).all()
    before = results_of(tmp_path / "run")
    CJEPipeline(config).run()
    assert results_of(tmp_path / "run") == before


def constant_judge(folder: Path, source: Path) -> Path:
    """A model that answers every conversation with "7" and ends."""
    made = transformers.AutoModelForCausalLM.from_pretrained(source)
    tokeniser = transformers.AutoTokenizer.from_pretrained(source)
    seven, end = tokeniser("7")["input_ids"][-1], tokeniser.eos_token_id
    one, other = torch.zeros(2, made.config.hidden_size).split(1)
    one[0, 0] = other[0, 1] = 1.0
    with torch.no_grad():
        for layer in made.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        made.model.norm.weight.fill_(1.0)
        made.model.embed_tokens.weight.copy_(one.expand_as(made.model.embed_tokens.weight))
        made.model.embed_tokens.weight[seven] = other[0]
        made.lm_head.weight.zero_()
        made.lm_head.weight[seven], made.lm_head.weight[end] = one[0], other[0]
    made.save_pretrained(folder)
    tokeniser.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("variance", ["none", "logprobs"])
def test_a_model_of_this_process_can_judge(tmp_path, folders, variance):
    config = JudgeConfig.parse({
        "provider": "transformers", "model": str(constant_judge(tmp_path, folders[0])),
        "template": "rubric_score", "rubric": "Is it good?", "scale": (0, 10),
        "variance": variance, "device": "cpu",
    })  # fmt: skip
    judge = judge_of(config)
    scores = judge.score_batch([{"context": "Why?", "response": f"{i}."} for i in range(5)])
    assert scores.mean.tolist() == pytest.approx([0.7] * 5, abs=0.01)
    assert judge.identity()["model"] != str(tmp_path)


def test_conversations_that_wait_together_get_the_answers_they_get_alone(folders):
    config = JudgeConfig.parse({"provider": "transformers", "model": str(folders[0]),
                                "variance": "none", "device": "cpu"})  # fmt: skip
    chat = LocalChat(config)

    async def ask(number: int) -> Any:
        messages = [{"role": "user", "content": f"Can you help me, {number}?"}]
        return await chat.chat(messages, temperature=1.0, max_tokens=9, seed=number, logprobs=True,
                               top_logprobs=3)  # fmt: skip

    async def together() -> Any:
        return await asyncio.gather(*(ask(i) for i in range(6)))

    answers = asyncio.run(together())
    assert [a.text for a in answers[:2]] == [asyncio.run(ask(i)).text for i in (0, 1)]
    for answer in answers:
        assert len(answer.tokens) == len(answer.logprobs) == len(answer.top)
        assert all(len(top) <= 3 for top in answer.top)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_killed_actor_loses_only_its_batch(tmp_path, folders):
    pytest.importorskip("ray")
    made = settings(folders, batch_invariant=True, batch_tokens=256)
    made |= {"chunk_rows": 20, "estimation": {"estimators": ["snips"]}}
    for name in ("local", "ray"):
        write_prompts(tmp_path / name, 120)
        write_config(tmp_path / name, made, executor=name, ray={"workers": 2}, oracle_config=None)
    CJEPipeline(load_config(tmp_path / "local" / "config.yaml")).run()
    killed: list[int] = []
    store = tmp_path / "ray" / "run" / "store.sqlite"

    def kill_one() -> None:
        while not killed:
            time.sleep(0.02)
            found = [p for p in psutil.Process().children(recursive=True) if _is_worker(p)]
            if found and _chunks(store) >= 1:
                os.kill(found[0].pid, signal.SIGKILL)
                killed.append(found[0].pid)

    threading.Thread(target=kill_one, daemon=True).start()
    CJEPipeline(load_config(tmp_path / "ray" / "config.yaml")).run()
    assert killed
    assert results_of(tmp_path / "ray" / "run") == results_of(tmp_path / "local" / "run")


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "ChunkWorker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _chunks(store: Path) -> int:
    """Chunks of written responses that are finished."""
    return len(list((store.parent / "chunks" / "logging_policy").glob("*")))


def test_a_run_says_what_is_missing_before_it_starts(tmp_path, folders):
    made = settings(folders)
    made["target_policies"][0]["model"] = str(tmp_path / "nowhere")
    write_prompts(tmp_path, 3)
    write_config(tmp_path, made)
    checks = preflight(load_config(tmp_path / "config.yaml"))
    failed = [check.says for check in checks if not check.ok]
    assert len(failed) == 1
    assert failed[0].startswith("no such model folder")
