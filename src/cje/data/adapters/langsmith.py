"""LangSmith: an experiment as a table (`feedback.<key>` columns), or a list of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cje.data.adapters.scores import Adapted, Response, adapted, judged_and_human, number, text

__all__ = ["from_json", "from_lines", "from_table", "known_header", "known_line"]

_TOOL = "a LangSmith export"
_FEEDBACK = "feedback."


def from_json(content: Any, path: Path) -> Adapted | None:
    """A list of runs or of table rows."""
    if not (isinstance(content, list) and content and isinstance(content[0], dict)):
        return None
    return from_lines(content, path) if known_line(content[0]) else None


def known_line(first: Mapping[str, Any]) -> bool:
    return _is_run(first) or known_header(list(first))


def known_header(header: Sequence[str]) -> bool:
    return "example_id" in header and any(name.startswith(_FEEDBACK) for name in header)


def from_table(header: Sequence[str], rows: Sequence[Sequence[str]], path: Path) -> Adapted:
    """The table of ``evaluate(...).to_pandas()`` or of the web page, saved as CSV."""
    return from_lines([dict(zip(header, cells, strict=False)) for cells in rows], path)


def from_lines(objects: Sequence[Mapping[str, Any]], path: Path) -> Adapted:
    if _is_run(objects[0]):
        kept = [run for run in objects if run.get("reference_example_id")]
        left = len(objects) - len(kept)
        notes = [f"ignored {left} runs without a reference example"] if left else []
        return adapted(_from_runs(kept or objects, path), _TOOL, *notes)
    return adapted(_from_rows(objects, path), _TOOL)


def _is_run(item: Mapping[str, Any]) -> bool:
    return {"run_type", "inputs", "feedback_stats"} <= set(item)


def _from_runs(runs: Sequence[Mapping[str, Any]], path: Path) -> Iterator[Response]:
    for run in runs:
        scores = {
            key: number(stats.get("avg"))
            for key, stats in (run.get("feedback_stats") or {}).items()
            if isinstance(stats, dict)
        }
        judged, human = judged_and_human(scores)
        yield Response(
            prompt_id=str(run.get("reference_example_id") or run.get("id")),
            policy=str(run.get("session_name") or run.get("session_id") or path.stem),
            judged=judged,
            human=human,
            prompt=text(run.get("inputs")),
            response=text(run.get("outputs")),
            metadata={
                **((run.get("extra") or {}).get("metadata") or {}),
                **{key: run[key] for key in ("name", "session_name") if run.get(key)},
                **({"tags": ", ".join(map(str, run["tags"]))} if run.get("tags") else {}),
            },
        )


def _from_rows(rows: Sequence[Mapping[str, Any]], path: Path) -> Iterator[Response]:
    for row in rows:
        scores = {
            name.removeprefix(_FEEDBACK): number(value)
            for name, value in row.items()
            if name.startswith(_FEEDBACK)
        }
        judged, human = judged_and_human(scores)
        yield Response(
            prompt_id=str(row["example_id"]),
            policy=str(row.get("experiment") or row.get("session_name") or path.stem),
            judged=judged,
            human=human,
            prompt=_joined(row, "inputs."),
            response=_joined(row, "outputs."),
            metadata={
                name.removeprefix("metadata."): value
                for name, value in row.items()
                if not name.startswith((_FEEDBACK, "inputs.", "outputs."))
            },
        )


def _joined(row: Mapping[str, Any], prefix: str) -> str:
    return "\n".join(text(value) for name, value in row.items() if name.startswith(prefix))
