"""Spans and traces: OpenTelemetry's names for model calls (GenAI, OpenInference), nested spans.

The prompt, the response and the model are taken from the attributes; everything else of a row
stays where it is, so that scores and versions can be named by their paths. Spans that are not model
calls are ignored and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.adapters.conversations import content_of
from cje.data.adapters.scores import Adapted

__all__ = ["from_json", "from_lines", "known_line"]

_TRACE_IDS = ("trace_id", "traceId", "context.trace_id", "traceID")
# What an attribute is called by the conventions in use.
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "model": ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name",
              "llm.request.model", "ai.model.id"),
    "prompt": ("gen_ai.prompt", "gen_ai.input.messages", "gen_ai.prompt.0.content", "input.value",
               "llm.prompts", "ai.prompt"),
    "response": ("gen_ai.completion", "gen_ai.output.messages", "gen_ai.completion.0.content",
                 "output.value", "llm.completions", "ai.response.text"),
}  # fmt: skip


def from_json(content: Any, path: Path) -> Adapted | None:
    """A list of spans or traces, or an object with one under `traces` or `spans`."""
    if isinstance(content, dict):
        content = next((content[key] for key in ("traces", "spans") if key in content), None)
    if not (isinstance(content, list) and content and isinstance(content[0], dict)):
        return None
    return from_lines(content, path) if known_line(content[0]) else None


def known_line(first: Mapping[str, Any]) -> bool:
    traced = any(key in first for key in _TRACE_IDS)
    return traced and (isinstance(first.get("attributes"), dict) or _spans_of(first) is not None)


def from_lines(objects: Sequence[Mapping[str, Any]], path: Path) -> Adapted:
    if any(_spans_of(row) is not None for row in objects):
        return Adapted([_from_trace(row) for row in objects], "traces", ("one row per trace",))
    rows = [_from_span(row) for row in objects]
    calls = [row for row in rows if "response" in row]
    kept = calls or rows
    notes = [f"{len(kept)} spans of model calls"]
    if len(kept) < len(rows):
        notes.append(f"ignored {len(rows) - len(kept)} other spans")
    return Adapted(kept, "spans", tuple(notes))


def _spans_of(row: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    for key in ("spans", "observations"):
        spans = row.get(key)
        if isinstance(spans, list) and all(isinstance(span, dict) for span in spans):
            return spans
    return None


def _from_span(span: Mapping[str, Any]) -> dict[str, Any]:
    attributes = span.get("attributes") or {}
    found = {
        role: next((attributes[name] for name in names if attributes.get(name) is not None), None)
        for role, names in _ATTRIBUTES.items()
    }
    row = dict(span)
    for role, value in found.items():
        if value is not None:
            row.setdefault(role, value if role == "model" else content_of(value))
    return row


def _from_trace(trace: Mapping[str, Any]) -> dict[str, Any]:
    """The trace's first input and last output, where it has none of its own."""
    spans = [_from_span(span) for span in _spans_of(trace) or ()]
    row = {key: value for key, value in trace.items() if key not in ("spans", "observations")}
    names = {"prompt": ("input", "prompt"), "response": ("output", "response"), "model": ("model",)}
    for role, keys in names.items():
        own = next((row[key] for key in keys if row.get(key) is not None), None)
        values = [span[k] for span in spans for k in keys if span.get(k) is not None]
        value = own if own is not None else next(
            iter(values if role == "prompt" else values[::-1]), None
        )  # fmt: skip
        if value is not None:
            row[role] = value if role == "model" else content_of(value)
            for key in keys:
                if key != role:
                    row.pop(key, None)
    return row
