"""Bars of the pipeline: what the coordinator costs, what it holds in memory, how it resumes.

* Overhead: the judge stage (keys, store, retries, template, parsing, chunks, progress) against a
  bare `AsyncOpenAI` loop that sends the same requests at the same concurrency to a server that
  answers at once. Interleaved rounds, median of the quotients.
* Scoring: the stage that scores logged responses, against the same single calls in a bare loop.
* Memory: a million logged rows through all stages, peak of resident memory.
* Resume: planning the million-call run, as it is (chunks there) and with the judge's outputs lost
  (every row's key is made again and looked up), against reading all keys from SQLite.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.timing import interleaved, main, ratio, row, show
from cje.judges import JudgeConfig, make_judge
from cje.pipeline.chunks import RowStream, write_chunk
from cje.pipeline.config import PipelineConfig, load_config
from cje.pipeline.local import LocalExecutor
from cje.pipeline.progress import LineProgress
from cje.pipeline.stages.base import schema_after
from cje.pipeline.stages.judge import JudgeStage
from cje.pipeline.stages.target_policy import TeacherForcing
from cje.pipeline.store import CallStore
from cje.pipeline.work_plan import make_plan

CONCURRENCY = 32


def run(quick: bool) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        n, repeats = (400, 3) if quick else (1500, 7)
        rows = [_overhead(Path(folder), n, repeats), _scoring(Path(folder) / "s", n, repeats)]
        rows += _scale(Path(folder) / "scale", 50_000 if quick else 1_000_000)
    show(rows)
    return rows


# -- overhead -------------------------------------------------------------------------------------


@contextmanager
def _instant_server() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.workers.instant_server"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def _overhead(folder: Path, n: int, repeats: int) -> dict[str, Any]:
    with _instant_server() as url:
        judge = {
            "provider": "openai-compatible", "base_url": url, "model": "judge",
            "variance": "none", "template": "rubric_score",
        }  # fmt: skip
        texts = [(f"{i}. How do I change my password?", f" Reset link {i}.") for i in range(n)]
        rounds = itertools.count()
        seconds = interleaved(
            {
                "bare": lambda: asyncio.run(_bare(url, judge, texts)),
                "pipeline": lambda: _stage(folder / f"round{next(rounds)}", judge, texts),
            },
            repeats,
            time.perf_counter,  # both wait for a server
        )
    value = ratio(seconds, "pipeline", "bare")
    calls = n / sorted(seconds["pipeline"])[len(seconds["pipeline"]) // 2]
    note = f"{n} calls, {CONCURRENCY} at once, {calls:.0f} calls/s with the pipeline"
    return row("judge stage / bare AsyncOpenAI loop", value, 1.25, note)


def _scoring(folder: Path, n: int, repeats: int) -> dict[str, Any]:
    with _instant_server() as url:
        policy = {
            "name": "t", "provider": "openai-compatible", "base_url": url, "model": "m",
            "scoring": "echo1", "template": "chatml",
        }  # fmt: skip
        texts = [(f"{i}. How do I change my password?", f" Reset link {i}.") for i in range(n)]
        rounds = itertools.count()
        seconds = interleaved(
            {
                "bare": lambda: asyncio.run(_bare_scores(url, texts)),
                "pipeline": lambda: _score_stage(folder / f"round{next(rounds)}", policy, texts),
            },
            repeats,
            time.perf_counter,  # both wait for a server
        )
    value = ratio(seconds, "pipeline", "bare")
    calls = n / sorted(seconds["pipeline"])[len(seconds["pipeline"]) // 2]
    note = f"{n} single calls, {CONCURRENCY} at once, {calls:.0f} scores/s with the pipeline"
    return row("scoring stage / bare AsyncOpenAI loop", value, 1 / 0.85, note)


async def _bare_scores(url: str, texts: list[tuple[str, str]]) -> None:
    """What a user would write to score a response: one call, and a sum over its tokens."""
    from openai import AsyncOpenAI

    places = asyncio.Semaphore(CONCURRENCY)
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def one(context: str, response: str) -> float:
            prompt = f"<|im_start|>user\n{context}<|im_end|>\n<|im_start|>assistant\n"
            async with places:
                answer = await client.completions.create(
                    model="m", prompt=f"{prompt}{response}<|im_end|>", echo=True, logprobs=1,
                    max_tokens=1, temperature=1.0, top_p=1.0,
                )  # fmt: skip
            block = answer.choices[0].logprobs
            assert block is not None
            at, total = 0, 0.0
            for token, value in zip(block.tokens or (), block.token_logprobs or (), strict=True):
                total += value if at >= len(prompt) and value is not None else 0.0
                at += len(token)
            return total

        scores = await asyncio.gather(*(one(*text) for text in texts))
    assert len(scores) == len(texts)


def _score_stage(folder: Path, policy: dict[str, Any], texts: list[tuple[str, str]]) -> None:
    """The scoring stage of a fresh run, from rows on disk to rows on disk."""
    config = PipelineConfig.model_validate(
        {
            "work_dir": str(folder),
            "dataset": {"path": "none", "response_field": "r", "logprob_field": "l"},
            "judge": {"provider": "offline"},
            "target_policies": [policy],
            "limits": {"default": {"max_concurrency": CONCURRENCY}},
        }
    )
    store = CallStore(folder / "store.sqlite")
    schema = schema_after("oracle")
    given = [
        dict.fromkeys(schema) | {
            "row_id": i, "prompt_id": str(i), "draw_idx": 0, "context": c, "response": r,
            "logp_given": -3.0, "complete": True, "ending": "eos",
        }
        for i, (c, r) in enumerate(texts)
    ]  # fmt: skip
    parts = [given[at : at + 1000] for at in range(0, len(given), 1000)]
    chunks = tuple(
        write_chunk(folder, store, "oracle", f"{i:02x}", part, schema)
        for i, part in enumerate(parts)
    )
    progress = LineProgress(io.StringIO())
    progress.start("target_policy", len(given))
    executor = LocalExecutor(config, folder, store, progress.update)
    made = executor.run_stage(TeacherForcing(config), RowStream(folder, "oracle", chunks))
    assert sum(chunk.rows - chunk.errors for chunk in made) == len(texts)
    executor.close()
    store.close()


async def _bare(url: str, judge: dict[str, Any], texts: list[tuple[str, str]]) -> None:
    """What a user would write: a client, a semaphore, gather. The same bodies are sent."""
    from openai import AsyncOpenAI

    made = make_judge(JudgeConfig.model_validate(judge))
    bodies = [_body(made, context, response, i) for i, (context, response) in enumerate(texts)]
    places = asyncio.Semaphore(CONCURRENCY)
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def one(body: dict[str, Any]) -> float:
            async with places:
                answer = await client.chat.completions.create(**body)
            return float(json.loads(answer.choices[0].message.content)["score"])

        scores = await asyncio.gather(*(one(body) for body in bodies))
    assert len(scores) == len(texts)


def _body(judge: Any, context: str, response: str, seed: int) -> dict[str, Any]:
    prompt = judge.template.render(context, response, rubric=None, answer_format="")
    return {
        "model": "judge", "messages": [{"role": "user", "content": prompt}], "temperature": 0.0,
        "max_tokens": 512, "seed": seed, "response_format": judge._schema(),
    }  # fmt: skip


def _stage(folder: Path, judge: dict[str, Any], texts: list[tuple[str, str]]) -> None:
    """The judge stage of a fresh run, from rows on disk to rows on disk."""
    config = PipelineConfig.model_validate(
        {
            "work_dir": str(folder),
            "dataset": {"path": "none", "response_field": "r", "logprob_field": "l"},
            "judge": judge,
            "target_policies": [{"name": "t", "provider": "ngram"}],
            "limits": {"default": {"max_concurrency": CONCURRENCY}},
        }
    )
    store = CallStore(folder / "store.sqlite")
    given = [
        {
            "row_id": i,
            "prompt_id": str(i),
            "draw_idx": 0,
            "context": c,
            "response": r,
            "error": None,
        }
        for i, (c, r) in enumerate(texts)
    ]
    schema = schema_after("logging_policy")
    parts = [given[at : at + 1000] for at in range(0, len(given), 1000)]
    chunks = tuple(
        write_chunk(folder, store, "logging_policy", f"{i:02x}", part, schema)
        for i, part in enumerate(parts)
    )
    progress = LineProgress(io.StringIO())
    progress.start("judge", len(given))
    executor = LocalExecutor(config, folder, store, progress.update)
    made = executor.run_stage(JudgeStage(config), RowStream(folder, "logging_policy", chunks))
    assert sum(chunk.rows - chunk.errors for chunk in made) == len(texts)
    executor.close()
    store.close()


# -- memory and resume ----------------------------------------------------------------------------


def _scale(folder: Path, n: int) -> list[dict[str, Any]]:
    small, large = _run_rows(n // 10, folder / "small"), _run_rows(n, folder / "large")
    note = f"{n} rows in {large['seconds']:.0f} s; {small['peak'] / 1e9:.2f} GB for {n // 10} rows"
    rows = [row(f"peak memory of {n} rows, GB", large["peak"] / 1e9, 1.5, note)]
    config = load_config(folder / "large" / "config.yaml")
    store = CallStore(config.work_dir / "store.sqlite", read_only=True)
    calls = sum(total.calls for total in store.totals())
    finished = _plan_ratio(config, store)
    shutil.rmtree(config.work_dir / "chunks" / "judge")
    note = (
        f"{calls} calls; {_plan_ratio(config, store):.0f} with the judge's outputs lost, when "
        "every row's key is made again and looked up"
    )
    rows.append(row("plan of the finished run / reading its keys", finished, 10.0, note))
    store.close()
    return rows


def _plan_ratio(config: PipelineConfig, store: CallStore) -> float:
    seconds = interleaved(
        {"keys": lambda: sum(1 for _ in store.all_keys()), "plan": lambda: _plan(config, store)}, 3
    )
    return ratio(seconds, "plan", "keys")


def _plan(config: PipelineConfig, store: CallStore) -> None:
    plan = make_plan(config, store)
    judge = next(stage for stage in plan.stages if stage.stage == "judge")
    assert judge.todo == 0


def _run_rows(n: int, folder: Path) -> dict[str, float]:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.workers.pipeline_rows", str(n), str(folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(ended.stdout.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
