"""Does scoring through a real server give the exact log-probs? One server, one table row.

``python scripts/servers/conformance.py --name "vLLM 0.32 (CPU)" --provider vllm --url URL
--model base --truth truth.json --out row.json``: the server holds the model that `train_tiny.py`
made, `truth.json` comes from `truth.py`. With ``--record FILE`` the exchanges of the probe and of
one response per kind are kept, for the tests to replay. Traffic goes to loopback only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from cje.models import BadOutputError, ModelCallError, gather_bounded, run_sync
from cje.policies import APIPolicyRunner, render_prompt

AT_ONCE = 8


def _runner(options: argparse.Namespace, truth: dict[str, Any]) -> APIPolicyRunner:
    return APIPolicyRunner(
        {
            "name": "p", "provider": options.provider, "model": options.model, "timeout": 120.0,
            "base_url": options.url, "template": truth["template"], "eos": truth["eos"],
        }
    )  # fmt: skip


async def _score(runner: APIPolicyRunner, case: dict[str, Any]) -> list[float] | str:
    """Token by token, or why not."""
    try:
        whole = await runner.alog_prob(case["question"], case["response"])
        if runner.config.control_text_in(case["response"]) is not None:
            return [whole.value]
        prompt = render_prompt(runner.config, case["question"])
        form = (await runner.aprobe()).form
        assert form is not None
        scored = await runner.scorer.text(
            form, prompt, case["response"], runner.config.eos_text or ""
        )
    except BadOutputError as error:
        return error.reason
    except ModelCallError as error:
        return f"{error.reason}: {error}"
    values = [float(t.logprob or 0.0) for t in scored.tokens[scored.span.start : scored.span.stop]]
    assert abs(sum(values) - whole.value) < 1e-3, "two scores of one text differ"
    return values


def _gap(case: dict[str, Any], values: list[float]) -> float:
    """Largest difference of a token's log-prob, and of the sum's over its tokens."""
    truth = case["token_logprobs"]
    gaps = [abs(sum(values) - case["logprob"]) / len(truth)]
    if len(values) == len(truth):
        gaps += [abs(a - b) for a, b in zip(values, truth, strict=True)]
    return max(gaps)


async def _by_ids(runner: APIPolicyRunner, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """The responses' own token ids, sent as logged ids: how many were scored as ids, how well."""
    gaps, kinds = [], Counter[str]()
    for case in cases[:60]:
        try:
            found = await runner.alog_prob(
                case["question"], case["response"], token_ids=case["ids"]
            )
        except ModelCallError as error:
            kinds[error.reason] += 1
            continue
        kinds[found.boundary] += 1
        if found.boundary == "token_ids" and case["starts_whole"]:
            gaps.append(abs(found.value - case["logprob"]))
    return {"boundaries": dict(kinds), "max_gap": max(gaps, default=None)}


async def _suite(options: argparse.Namespace, truth: dict[str, Any]) -> dict[str, Any]:
    runner, cases = _runner(options, truth), truth["cases"]
    if options.record is not None:
        await _record(options, runner, cases)
    found: dict[str, Any] = {"name": options.name}
    try:
        capability = await runner.aprobe()
    except ModelCallError as error:
        return {**found, "form": None, "evidence": f"the probe failed: {error}"}
    found |= {"form": capability.form, "evidence": capability.evidence_text(),
              "warnings": list(capability.warnings)}  # fmt: skip
    if capability.form is None:
        return found
    values = await gather_bounded([lambda c=c: _score(runner, c) for c in cases], AT_ONCE)
    errors: dict[str, list[float]] = {}
    refused: Counter[str] = Counter()
    for case, value in zip(cases, values, strict=True):
        if isinstance(value, str):
            refused[f"{case['kind']}: {value}"] += 1
        else:
            errors.setdefault(case["kind"], []).append(_gap(case, value))
    usual = [c for c in cases if c["kind"] in ("ascii", "code", "long") and c["response"].isascii()]
    found |= {
        "scored": sum(map(len, errors.values())), "refused": dict(refused),
        "max_error": {kind: max(gaps) for kind, gaps in errors.items()},
        "by_ids": await _by_ids(runner, cases),
        "generated": await _generated(runner, cases),
        **await _speed(options, runner, usual),
    }  # fmt: skip
    await runner.aclose()
    return found


async def _record(
    options: argparse.Namespace, runner: APIPolicyRunner, cases: list[dict[str, Any]]
) -> None:
    """The exchanges of the probe and of the first response of each kind, as the server had them."""
    made: list[dict[str, Any]] = []
    exchange = runner.client.post

    async def post(path: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
        kept = {"path": path, "body": body}
        try:
            kept["answer"] = await exchange(path, body, **more)
        except ModelCallError as error:
            kept |= {"status": error.status, "detail": error.what}
            raise
        finally:
            made.append(kept)
        return kept["answer"]

    runner.client.post = post
    first = {case["kind"]: case for case in reversed(cases) if len(case["response"]) < 60}
    capability = await runner.aprobe()
    if capability.form is not None:
        for case in first.values():
            await _score(runner, case)
    runner.client.post = exchange
    kept = {
        "server": options.name, "provider": options.provider, "form": capability.form,
        "template": runner.config.template, "eos": runner.config.eos_text,
        "cases": [
            {name: case[name] for name in ("kind", "question", "response", "logprob")}
            for case in first.values()
        ],
        "exchanges": made,
    }  # fmt: skip
    text = json.dumps(kept, ensure_ascii=False, indent=0)
    options.record.write_text(text + "\n", encoding="utf-8")


async def _speed(
    options: argparse.Namespace, runner: APIPolicyRunner, cases: list[dict[str, Any]]
) -> dict[str, float]:
    """Scores per second, ours and a bare loop of the SDK that makes the same single calls."""
    form = (await runner.aprobe()).form
    if form == "llama_server":  # its own route: the SDK has no call for it
        bare = None
    else:
        bare = await _bare(options, runner, cases)
    began = time.perf_counter()
    await gather_bounded(
        [lambda c=c: runner.alog_prob(c["question"], c["response"]) for c in cases], AT_ONCE
    )
    return {"calls_per_s": len(cases) / (time.perf_counter() - began), "bare_calls_per_s": bare}


async def _bare(
    options: argparse.Namespace, runner: APIPolicyRunner, cases: list[dict[str, Any]]
) -> float:
    client = AsyncOpenAI(base_url=options.url, api_key="none", max_retries=0)
    vllm = options.provider == "vllm"

    async def call(case: dict[str, Any]) -> None:
        prompt = render_prompt(runner.config, case["question"])
        await client.completions.create(
            model=options.model, prompt=f"{prompt}{case['response']}{runner.config.eos_text}",
            max_tokens=1, extra_body={"prompt_logprobs": 0} if vllm else None,
            echo=not vllm, logprobs=None if vllm else 1,
        )  # fmt: skip

    began = time.perf_counter()
    await gather_bounded([lambda c=c: call(c) for c in cases], AT_ONCE)
    seconds = time.perf_counter() - began
    await client.close()
    return len(cases) / seconds


async def _generated(runner: APIPolicyRunner, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Texts the model writes itself, and their log-probs while writing and scored again."""
    questions = [case["question"] for case in cases[:40]]
    gaps, ends = [], Counter[str]()
    for seed, question in enumerate(questions):
        made = await runner.agenerate(question, seed=seed)
        ends[made.ending] += 1
        if not made.text or made.logprob is None:
            continue
        ending = made.ending if made.logprob_has_eos else "open"
        try:
            again = await runner.alog_prob(
                question, made.text, token_ids=made.token_ids, ending=ending,
                end_text=made.end_text,
            )  # fmt: skip
        except BadOutputError as error:
            ends[error.reason] += 1
            continue
        gaps.append(abs(again.value - made.logprob))
    return {"endings": dict(ends), "compared": len(gaps), "max_gap": max(gaps, default=None)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("name", "provider", "url", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--record", type=Path, help="keep exchanges here")
    options = parser.parse_args()
    found = run_sync(_suite(options, json.loads(options.truth.read_text(encoding="utf-8"))))
    options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
