"""Does scoring through a real server give the exact log-probs? One server, one table row.

``python scripts/servers/conformance.py --name "vLLM 0.32 (CPU)" --provider vllm --url URL
--model base --truth truth.json --out row.json``: the server holds the model that `train_tiny.py`
made, `truth.json` comes from `truth.py`. Traffic goes to loopback only.
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
from cje.policies import APIPolicyRunner

AT_ONCE = 8


def _runner(options: argparse.Namespace, **more: Any) -> APIPolicyRunner:
    return APIPolicyRunner(
        {
            "name": "p", "provider": options.provider, "model": options.model,
            "base_url": options.url, "template": "chatml", "timeout": 120.0, **more,
        }
    )  # fmt: skip


async def _score(runner: APIPolicyRunner, case: dict[str, Any]) -> float | str:
    try:
        return (await runner.alog_prob(case["question"], case["response"])).value
    except BadOutputError as error:
        return error.reason
    except ModelCallError as error:
        return f"{error.reason}: {error}"


async def _suite(options: argparse.Namespace, cases: list[dict[str, Any]]) -> dict[str, Any]:
    runner = _runner(options, **({"bos": False} if options.no_bos else {}))
    found: dict[str, Any] = {"name": options.name}
    try:
        capability = await runner.aprobe()
    except ModelCallError as error:
        return {**found, "form": None, "evidence": f"the probe failed: {error}"}
    found |= {"form": capability.form, "evidence": capability.evidence_text(),
              "warnings": list(capability.warnings)}  # fmt: skip
    if capability.form is None:
        return found
    began = time.perf_counter()
    values = await gather_bounded([lambda c=c: _score(runner, c) for c in cases], AT_ONCE)
    seconds = time.perf_counter() - began
    errors: dict[str, list[float]] = {}
    refused: Counter[str] = Counter()
    for case, value in zip(cases, values, strict=True):
        if isinstance(value, str):
            refused[f"{case['kind']}: {value}"] += 1
        else:
            errors.setdefault(case["kind"], []).append(abs(value - case["logprob"]))
    found |= {
        "scored": sum(map(len, errors.values())), "refused": dict(refused),
        "max_error": {kind: max(gaps) for kind, gaps in errors.items()},
        "calls_per_s": len(cases) / seconds,
        "bare_calls_per_s": await _bare(options, cases),
        "generated": await _generated(runner, cases),
    }  # fmt: skip
    await runner.aclose()
    return found


async def _bare(options: argparse.Namespace, cases: list[dict[str, Any]]) -> float:
    """The same single calls in a bare loop of the SDK."""
    client = AsyncOpenAI(base_url=options.url, api_key="none", max_retries=0)

    async def call(case: dict[str, Any]) -> None:
        prompt = f"<|im_start|>user\n{case['question']}<|im_end|>\n<|im_start|>assistant\n"
        await client.completions.create(
            model=options.model, prompt=f"{prompt}{case['response']}<|im_end|>",
            max_tokens=1, extra_body={"prompt_logprobs": 0} if options.provider == "vllm" else None,
            echo=options.provider != "vllm", logprobs=None if options.provider == "vllm" else 1,
        )  # fmt: skip

    began = time.perf_counter()
    await gather_bounded([lambda c=c: call(c) for c in cases], AT_ONCE)
    await client.close()
    return len(cases) / (time.perf_counter() - began)


async def _generated(runner: APIPolicyRunner, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Texts the model writes itself, and their log-probs while writing and scored again."""
    questions = [case["question"] for case in cases[:40]]
    gaps, ends = [], Counter[str]()
    for seed, question in enumerate(questions):
        made = await runner.agenerate(question, seed=seed)
        ends[made.ending] += 1
        if not made.text or made.logprob is None:
            continue
        try:
            again = await runner.alog_prob(
                question, made.text, token_ids=made.token_ids, ending=made.ending,
                end_text=made.end_text,
            )  # fmt: skip
        except BadOutputError as error:
            ends[error.reason] += 1
            continue
        if made.logprob_has_eos == (made.ending != "open"):
            gaps.append(abs(again.value - made.logprob))
    return {"endings": dict(ends), "compared": len(gaps), "max_gap": max(gaps, default=None)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("name", "provider", "url", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--no-bos", action="store_true", help="the truth has no BOS in front")
    options = parser.parse_args()
    cases = json.loads(options.truth.read_text(encoding="utf-8"))
    found = run_sync(_suite(options, cases))
    options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
