"""Chat messages and chat completions: a row's prompt and response taken out of its messages.

Known: a list of ``{"role", "content"}`` messages (``{"from", "value"}`` in ShareGPT's files) under
`messages` or a similar name, lists of messages as `prompt` and `completion`, and the output of
OpenAI's batch interface (``response.body.choices``). All other fields of a row stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.adapters.scores import Adapted, text

__all__ = ["content_of", "from_json", "from_lines", "is_messages", "known_line"]

_LISTS = ("messages", "conversation", "conversations", "chat", "turns")
_ANSWERS = ("assistant", "gpt", "model", "bot", "ai")


def from_json(content: Any, path: Path) -> Adapted | None:
    """A list of such rows."""
    if not (isinstance(content, list) and content and isinstance(content[0], dict)):
        return None
    return from_lines(content, path) if known_line(content[0]) else None


def known_line(first: Mapping[str, Any]) -> bool:
    return _messages_of(first) is not None or _body_of(first) is not None or (
        is_messages(first.get("prompt")) and "completion" in first
    )  # fmt: skip


def from_lines(objects: Sequence[Mapping[str, Any]], path: Path) -> Adapted:
    notes = ("prompt and response taken from the messages of each row",)
    return Adapted([_row(row) for row in objects], "chat messages", notes)


def is_messages(value: Any) -> bool:
    """Whether a value is a list of chat messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(m, dict) and ({"role", "content"} <= set(m) or {"from", "value"} <= set(m))
            for m in value
        )
    )


def content_of(messages: Any) -> str:
    """The text of a message, or of several."""
    if is_messages(messages):
        return "\n".join(content_of(m.get("content", m.get("value"))) for m in messages)
    if isinstance(messages, list):  # parts of one message
        parts = [p.get("text") if isinstance(p, dict) else p for p in messages]
        return "\n".join(text(part) for part in parts if part is not None)
    return text(messages)


def _messages_of(row: Mapping[str, Any]) -> str | None:
    return next((name for name in _LISTS if is_messages(row.get(name))), None)


def _body_of(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The completion in a row: the row itself, or its response's body."""
    response = row.get("response")
    body: Any = response.get("body", response) if isinstance(response, dict) else row
    choices = body.get("choices") if isinstance(body, dict) else None
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        return None
    return body if "message" in choices[0] or "text" in choices[0] else None


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(row)
    body, name = _body_of(row), _messages_of(row)
    if body is not None:
        choice = body["choices"][0]
        if body is row:
            out.pop("choices")
        out["response"] = content_of((choice.get("message") or {}).get("content")) or text(
            choice.get("text")
        )
        if body.get("model") is not None:
            out.setdefault("model", body["model"])
    if name is not None:
        before, after = _parted(out.pop(name))
        out.setdefault("prompt", before)
        if after:
            out.setdefault("response", after)
    for key in ("prompt", "completion"):
        if is_messages(out.get(key)):
            out[key] = content_of(out[key])
    return out


def _parted(messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """What was said before the last answer, and that answer."""
    speakers = [m.get("role", m.get("from")) for m in messages]
    answers = [i for i, who in enumerate(speakers) if who in _ANSWERS]
    last = answers[-1] if answers else len(messages)
    return content_of(list(messages[:last])), content_of(list(messages[last : last + 1]))
