"""Files that other evaluation tools write -> plain rows that `cje.data.read` understands.

An adapter recognises the parsed content of its tool and returns rows with the names of `Dataset`
columns. `read` tries all of them before it treats a file as a plain table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.adapters import (
    conversations,
    deepeval,
    evaluation_tables,
    inspect_ai,
    langfuse,
    langsmith,
    lm_eval,
    openai_evals,
    promptfoo,
    spans,
)
from cje.data.adapters.scores import Adapted

__all__ = ["Adapted", "from_json", "from_lines", "from_table", "known_lines", "known_table"]

# Each takes what was parsed and the file's path, and returns None where the file is not its own.
_JSON: Sequence[Callable[[Any, Path], Adapted | None]] = (
    inspect_ai.from_json,
    promptfoo.from_json,
    deepeval.from_json,
    langfuse.from_json,
    langsmith.from_json,
    evaluation_tables.from_json,
    spans.from_json,
    conversations.from_json,
)
# Whether the first object of a JSON Lines file is the tool's, and the conversion.
_LINES: Sequence[
    tuple[
        Callable[[Mapping[str, Any]], bool],
        Callable[[Sequence[Mapping[str, Any]], Path], Adapted],
    ]
] = (
    (lm_eval.known_line, lm_eval.from_lines),
    (openai_evals.known_line, openai_evals.from_lines),
    (promptfoo.known_line, promptfoo.from_lines),
    (langfuse.known_line, langfuse.from_lines),
    (langsmith.known_line, langsmith.from_lines),
    (evaluation_tables.known_line, evaluation_tables.from_lines),
    (spans.known_line, spans.from_lines),
    (conversations.known_line, conversations.from_lines),
)
# Whether a CSV header is the tool's, and the conversion.
_TABLES: Sequence[
    tuple[
        Callable[[Sequence[str]], bool],
        Callable[[Sequence[str], Sequence[Sequence[str]], Path], Adapted],
    ]
] = (
    (promptfoo.known_header, promptfoo.from_table),
    (langfuse.known_header, langfuse.from_table),
    (langsmith.known_header, langsmith.from_table),
    (evaluation_tables.known_header, evaluation_tables.from_table),
)


def from_json(content: Any, path: Path) -> Adapted | None:
    """Rows from a parsed JSON file that one of the tools wrote; None for any other."""
    for adapter in _JSON:
        adapted = adapter(content, path)
        if adapted is not None:
            return adapted
    return None


def known_lines(first: Mapping[str, Any]) -> bool:
    """Whether a JSON Lines file that starts with this object is one of the tools'."""
    return any(known(first) for known, _ in _LINES)


def from_lines(objects: Sequence[Mapping[str, Any]], path: Path) -> Adapted:
    """Rows from the objects of a JSON Lines file for which `known_lines` is true."""
    return next(convert for known, convert in _LINES if known(objects[0]))(objects, path)


def known_table(header: Sequence[str]) -> bool:
    """Whether a CSV file with these columns is one of the tools'."""
    return any(known(header) for known, _ in _TABLES)


def from_table(header: Sequence[str], rows: Sequence[Sequence[str]], path: Path) -> Adapted:
    """Rows from a CSV file for which `known_table` is true."""
    return next(convert for known, convert in _TABLES if known(header))(header, rows, path)
