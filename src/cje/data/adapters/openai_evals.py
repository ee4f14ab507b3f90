"""OpenAI Evals event logs: a line with the run's `spec`, then one event per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.adapters.scores import Adapted, Response, adapted, judged_and_human, number, text

__all__ = ["from_lines", "known_line"]


def known_line(first: Mapping[str, Any]) -> bool:
    spec = first.get("spec")
    return isinstance(spec, dict) and "eval_name" in spec


def from_lines(objects: Sequence[Mapping[str, Any]], path: Path) -> Adapted:
    """One row per sample: the score of its `match` or `metrics` event, the text of `sampling`."""
    spec = objects[0]["spec"]
    completion = spec.get("completion_fns") or [path.stem]
    samples: dict[str, dict[str, Any]] = {}
    for event in objects[1:]:
        if event.get("sample_id") is not None and isinstance(event.get("data"), dict):
            _collect(samples.setdefault(str(event["sample_id"]), {"scores": {}}), event)
    kept = {key: spec[key] for key in ("eval_name", "run_config", "run_id") if spec.get(key)}
    responses = _responses(samples, str(completion[0]), kept)
    return adapted(responses, "an OpenAI Evals log", f"eval '{spec['eval_name']}'")


def _collect(sample: dict[str, Any], event: Mapping[str, Any]) -> None:
    data = event["data"]
    if event.get("type") == "match":
        sample["scores"]["match"] = number(data.get("correct"))
    elif event.get("type") == "metrics":
        for name, value in data.items():
            if isinstance(value, int | float | bool):
                sample["scores"][name] = number(value)
    elif event.get("type") == "sampling":
        sample["prompt"] = text(data.get("prompt"))
        sampled = data.get("sampled")
        sample["response"] = text(sampled[0] if isinstance(sampled, list) and sampled else sampled)


def _responses(
    samples: Mapping[str, Mapping[str, Any]], policy: str, run: Mapping[str, Any]
) -> Iterator[Response]:
    for sample_id, sample in samples.items():
        scores = sample["scores"]
        judged, human = judged_and_human(scores)
        yield Response(
            prompt_id=sample_id,
            policy=policy,
            judged=judged,
            human=human,
            prompt=sample.get("prompt", ""),
            response=sample.get("response", ""),
            metadata=run,
        )
