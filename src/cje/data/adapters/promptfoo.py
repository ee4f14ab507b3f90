"""promptfoo output: JSON, JSON Lines and CSV.

A policy is a provider (and its prompt, where there are several). A prompt is a set of variables:
promptfoo numbers repeats as further tests, so equal variables are draws of one prompt. A rating
given in promptfoo's viewer is an assertion of type `human`; it overwrites the result's score, so
the judge's score is then taken from the other assertions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.adapters.scores import Adapted, Response, adapted, number, text
from cje.errors import CJEError

__all__ = ["from_json", "from_lines", "from_table", "known_header", "known_line"]

_TOOL = "promptfoo output"
_AFTER_OUTPUT = ("Status", "Score")


def from_json(content: Any, path: Path) -> Adapted | None:
    """The file of ``promptfoo eval -o out.json`` or ``promptfoo export``."""
    if not (isinstance(content, dict) and isinstance(content.get("results"), dict)):
        return None
    results = content["results"].get("results")
    if not (isinstance(results, list) and results and known_line(results[0])):
        return None
    version = (content.get("metadata") or {}).get("promptfooVersion")
    return adapted(_responses(results), _TOOL + (f" (promptfoo {version})" if version else ""))


def known_line(first: Any) -> bool:
    return isinstance(first, dict) and {"promptIdx", "testIdx", "gradingResult"} <= set(first)


def from_lines(objects: Sequence[Mapping[str, Any]], path: Path) -> Adapted:
    """The results, one per test and provider."""
    return adapted(_responses(objects), _TOOL)


def _responses(results: Sequence[Mapping[str, Any]]) -> Iterator[Response]:
    several_prompts = len({_prompt_label(result) for result in results}) > 1
    numbers: dict[str, str] = {}
    for result in sorted(results, key=lambda r: (int(r["testIdx"]), int(r["promptIdx"]))):
        key = json.dumps(result.get("vars"), sort_keys=True, default=str)
        prompt_id = numbers.setdefault(key, str(result["testIdx"]))
        policy = _provider(result)
        if several_prompts:
            policy = f"{policy} | {_prompt_label(result)}"
        judged, human = _scores(result)
        yield Response(
            prompt_id=prompt_id,
            policy=policy,
            judged={"score": judged},
            human={} if human is None else {"human": human},
            prompt=text((result.get("prompt") or {}).get("raw")),
            response=text((result.get("response") or {}).get("output")),
            metadata=_metadata(result),
        )


def _metadata(result: Mapping[str, Any]) -> dict[str, Any]:
    """The test's own metadata, its variables, the provider and the prompt's label."""
    test = result.get("testCase") or {}
    return {
        **(test.get("metadata") or {}),
        **(result.get("metadata") or {}),
        "vars": result.get("vars") or {},
        "provider": _provider(result),
        "prompt_label": _prompt_label(result),
    }


def _provider(result: Mapping[str, Any]) -> str:
    provider = result.get("provider")
    if isinstance(provider, dict):
        return str(provider.get("label") or provider.get("id"))
    return str(provider)


def _prompt_label(result: Mapping[str, Any]) -> str:
    return text((result.get("prompt") or {}).get("label"))


def _scores(result: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The judge's score and the human's rating."""
    parts = (result.get("gradingResult") or {}).get("componentResults") or []
    kinds = [(part.get("assertion") or {}).get("type") for part in parts]
    rated = [part for part, kind in zip(parts, kinds, strict=True) if kind == "human"]
    if not rated:
        return number(result.get("score")), None
    human = number(rated[-1].get("score", rated[-1].get("pass")))
    others = [part for part, kind in zip(parts, kinds, strict=True) if kind != "human"]
    weights = [float((part.get("assertion") or {}).get("weight") or 1.0) for part in others]
    if not others:
        return None, human
    total = sum(w * (number(p.get("score")) or 0.0) for w, p in zip(weights, others, strict=True))
    return total / sum(weights), human


def known_header(header: Sequence[str]) -> bool:
    """Variables, then for every provider its output, Status, Score and remarks."""
    at = [i for i, name in enumerate(header) if name.startswith("[") and "]" in name]
    return bool(at) and all(tuple(header[i + 1 : i + 3]) == _AFTER_OUTPUT for i in at)


def from_table(header: Sequence[str], rows: Sequence[Sequence[str]], path: Path) -> Adapted:
    """The file of ``promptfoo eval -o out.csv``; it holds no human ratings."""
    outputs = [i for i, name in enumerate(header) if name.startswith("[") and "]" in name]
    labels = {i: header[i][1:].partition("]")[0] for i in outputs}
    several = len(set(labels.values())) < len(labels)
    responses = []
    numbers: dict[tuple[str, ...], str] = {}
    for r, cells in enumerate(rows):
        if len(cells) != len(header):
            raise CJEError(
                f"the line has {len(cells)} cells, the header {len(header)}",
                where=f"{path.name}, row {r + 1}",
            )
        variables = tuple(cells[: outputs[0]])
        prompt_id = numbers.setdefault(variables, str(r))
        for i in outputs:
            policy = header[i][1:].replace("] ", " | ", 1) if several else labels[i]
            responses.append(
                Response(
                    prompt_id=prompt_id,
                    policy=policy,
                    judged={"score": number(cells[i + 2])},
                    human={},
                    prompt=" ".join(variables),
                    response=cells[i],
                )
            )
    return adapted(responses, _TOOL)
