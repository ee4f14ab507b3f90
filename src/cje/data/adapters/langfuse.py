"""Langfuse exports: traces with their scores, or a list of scores.

A score with source ANNOTATION was given by a person and is a label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.adapters.scores import Adapted, Response, adapted, is_human, number, text

__all__ = ["from_json", "from_lines", "from_table", "known_header", "known_line"]

_TOOL = "a Langfuse export"
_IDS = ("prompt_id", "example_id", "dataset_item_id", "datasetItemId")
_SCORE_KEYS = {"traceId", "name", "value", "source"}


def from_json(content: Any, path: Path) -> Adapted | None:
    """An API page ({"data": [...]}) or a plain list of traces or scores."""
    items = content.get("data") if isinstance(content, dict) else content
    if not (isinstance(items, list) and items and isinstance(items[0], dict)):
        return None
    return from_lines(items, path) if known_line(items[0]) else None


def known_line(first: Mapping[str, Any]) -> bool:
    return _is_score(first) or _is_trace(first)


def known_header(header: Sequence[str]) -> bool:
    return set(header) >= _SCORE_KEYS


def from_table(header: Sequence[str], rows: Sequence[Sequence[str]], path: Path) -> Adapted:
    """A list of scores exported as CSV."""
    return from_lines([dict(zip(header, cells, strict=False)) for cells in rows], path)


def from_lines(objects: Sequence[Mapping[str, Any]], path: Path) -> Adapted:
    if _is_score(objects[0]):
        notes = ["a list of scores, one row per trace"]
        other = sum(_trace_of(score) is None for score in objects)
        if other:
            notes.append(f"ignored {other} scores that are about no trace")
        return adapted(_from_scores(objects, path), _TOOL, *notes)
    return adapted((_from_trace(trace, path) for trace in objects), _TOOL)


def _is_score(item: Mapping[str, Any]) -> bool:
    known = {"name", "value", "source"} <= set(item) and ("traceId" in item or "subject" in item)
    return known and item["source"] in ("ANNOTATION", "EVAL", "API")


def _trace_of(score: Mapping[str, Any]) -> str | None:
    """The trace a score is about: `traceId`, or the `subject` of the API's third version."""
    subject = score.get("subject")
    if isinstance(subject, dict):
        return str(subject.get("id")) if subject.get("kind") == "trace" else None
    return str(score["traceId"]) if score.get("traceId") else None


def _is_trace(item: Mapping[str, Any]) -> bool:
    scores = item.get("scores")
    has_scores = isinstance(scores, list) and all(
        isinstance(s, dict) and {"name", "source"} <= set(s) for s in scores
    )
    return has_scores and {"id", "input", "output"} <= set(item)


def _from_trace(trace: Mapping[str, Any], path: Path) -> Response:
    given = trace.get("metadata")
    metadata: dict[str, Any] = given if isinstance(given, dict) else {}
    judged, human = _split(trace["scores"])
    policy = next(
        (
            str(value)
            for value in (
                *(metadata.get(key) for key in ("policy", "model")),
                *(trace.get(key) for key in ("release", "version", "name")),
            )
            if value
        ),
        path.stem,
    )
    return Response(
        prompt_id=str(next((metadata[key] for key in _IDS if metadata.get(key)), trace["id"])),
        policy=policy,
        judged=judged,
        human=human,
        prompt=text(trace.get("input")),
        response=text(trace.get("output")),
        metadata={**metadata, **_of_trace(trace)},
    )


def _of_trace(trace: Mapping[str, Any]) -> dict[str, Any]:
    """What a trace says about itself beside its metadata."""
    kept = {
        key: trace[key]
        for key in ("name", "release", "version", "sessionId", "userId", "environment")
        if trace.get(key)
    }
    if trace.get("tags"):
        kept["tags"] = ", ".join(map(str, trace["tags"]))
    return kept


def _from_scores(scores: Sequence[Mapping[str, Any]], path: Path) -> Iterator[Response]:
    by_trace: dict[str, list[Mapping[str, Any]]] = {}
    for score in scores:
        trace = _trace_of(score)
        if trace is not None:
            by_trace.setdefault(trace, []).append(score)
    for trace_id, group in by_trace.items():
        judged, human = _split(group)
        policy = str(next((s["traceName"] for s in group if s.get("traceName")), path.stem))
        given: Mapping[str, Any] = next(
            (s["metadata"] for s in group if isinstance(s.get("metadata"), dict)), {}
        )
        yield Response(trace_id, policy, judged, human, metadata=given)


def _split(
    scores: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    judged: dict[str, float | None] = {}
    human: dict[str, float | None] = {}
    for score in scores:
        name = str(score["name"])
        value = number(score.get("value"))
        if value is None:
            value = number(score.get("stringValue"))
        by_person = score.get("source") == "ANNOTATION" or is_human(name)
        if not by_person:
            judged[name] = value
            continue
        author = score.get("authorUserId")
        human[f"{name} by {author}" if author else name] = value
    return judged, human
