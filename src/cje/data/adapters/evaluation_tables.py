"""Tables of evaluation tools, one row per response: MLflow, RAGAS, Arize Phoenix, Braintrust.

The layouts are those of the tools' own files (MLflow 3.17, RAGAS 0.4, Phoenix 20, Braintrust 0.47)
and documentation: MLflow's ``eval_results_table.json`` (columns
such as ``faithfulness/v1/score``) and evaluated traces (``Correctness/value``), RAGAS'
``result.to_pandas()``, Phoenix' spans (``context.span_id``, ``attributes.llm.model_name``,
``eval.Correctness.score``) and experiments (``annotation_Correctness_score``), Braintrust's
experiment exports (``scores``, ``metadata``) and its runner's ``as_json()``. A row's
other columns stay in ``metadata``, so that any of them can be the policy, the id or a subgroup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cje.data.adapters.scores import Adapted, Response, adapted, judged_and_human, number, text

__all__ = ["from_json", "from_lines", "from_table", "known_header", "known_line"]

Row = Mapping[str, Any]

# The names of RAGAS' metrics, 0.1 to 0.4; one with modes is written "name(mode=f1)".
_RAGAS = frozenset(
    {"agent_goal_accuracy", "answer_correctness", "answer_relevancy", "answer_similarity",
     "aspect_critic", "bleu_score", "chrf_score", "context_entity_recall", "context_precision",
     "context_recall", "context_utilization", "data_compare_score", "domain_specific_rubrics",
     "exact_match", "factual_correctness", "faithful_rate", "faithfulness",
     "faithfulness_with_hhem", "id_based_context_precision", "id_based_context_recall",
     "instance_rubrics", "llm_context_precision_with_reference",
     "llm_context_precision_without_reference", "llm_context_recall",
     "llm_sql_equivalence_with_reference", "noise_sensitivity",
     "non_llm_context_precision_with_reference", "non_llm_context_recall",
     "non_llm_string_similarity", "nv_accuracy", "nv_context_relevance",
     "nv_response_groundedness", "relevance_rate", "response_relevancy", "rouge_score",
     "rubrics_score", "semantic_similarity", "string_present", "summary_score",
     "tool_call_accuracy", "tool_call_f1", "topic_adherence"}
)  # fmt: skip
_MODE = re.compile(r"\(mode=\w+\)$")


def _is_ragas(column: str) -> bool:
    return _MODE.sub("", column) in _RAGAS


@dataclass(frozen=True)
class _Tool:
    """How one tool's rows are known, which columns are scores, and where the rest stands."""

    name: str
    known: Callable[[frozenset[str]], bool]
    score: Callable[[str], str | None]  # column -> the score's name
    ids: tuple[str, ...]
    policies: tuple[str, ...]
    prompts: tuple[str, ...]
    responses: tuple[str, ...]


_MLFLOW_SCORE = re.compile(r"^(?:metrics/)?([^/]+)(?:/v\d+)?/(?:score|value)$")
_PHOENIX_SCORE = re.compile(r"^(?:eval|annotation)\.(.+)\.score$")

_EXPERIMENT_SCORE = re.compile(r"^annotation_(.+)_score$")

_TOOLS = (
    _Tool(
        "an MLflow evaluation table",
        lambda names: any(_MLFLOW_SCORE.match(name) for name in names),
        lambda column: found[1] if (found := _MLFLOW_SCORE.match(column)) else None,
        ("example_id", "dataset_record_id", "question_id", "id", "request_id"),
        ("policy", "model", "model_id", "run_id", "run_name"),
        ("inputs", "request", "question", "input", "prompt"),
        ("outputs", "response", "predictions", "prediction", "output"),
    ),
    _Tool(
        "Arize Phoenix spans",
        lambda names: "context.span_id" in names,
        lambda column: found[1] if (found := _PHOENIX_SCORE.match(column)) else None,
        ("example_id", "attributes.metadata.example_id", "dataset_example_id"),
        ("attributes.llm.model_name", "model"),
        ("attributes.input.value", "input"),
        ("attributes.output.value", "output"),
    ),
    _Tool(
        "an Arize Phoenix experiment",
        lambda names: {"example_id", "repetition_number", "reference_output", "output"} <= names,
        lambda column: found[1] if (found := _EXPERIMENT_SCORE.match(column)) else None,
        ("example_id",),
        ("policy", "experiment_name", "metadata.model"),
        ("input",),
        ("output",),
    ),
    _Tool(
        "a RAGAS result",
        lambda names: (
            {"user_input", "response"} <= names or {"question", "answer", "contexts"} <= names
        )
        and any(map(_is_ragas, names)),
        lambda column: column if _is_ragas(column) or column.startswith("human") else None,
        ("example_id", "question_id", "id"),
        ("policy", "model", "version"),
        ("user_input", "question"),
        ("response", "answer"),
    ),
    _Tool(
        "a Braintrust export",
        lambda names: {"input", "output", "scores"} <= names
        and bool(names & {"span_id", "root_span_id", "_xact_id", "experiment_id", "exc_info"}),
        lambda column: column.removeprefix("scores.") if column.startswith("scores.") else None,
        ("dataset_record_id", "metadata.example_id", "metadata.question_id"),
        ("experiment_name", "metadata.model", "experiment_id"),
        ("input",),
        ("output",),
    ),
)  # fmt: skip


def known_header(header: Sequence[str]) -> bool:
    return _tool(frozenset(header)) is not None


def known_line(first: Row) -> bool:
    return known_header(list(first))


def from_json(content: Any, path: Path) -> Adapted | None:
    """A list of rows, or MLflow's table of columns and data."""
    if isinstance(content, dict) and {"columns", "data"} <= set(content):
        names, data = content["columns"], content["data"]
        content = [dict(zip(names, cells, strict=False)) for cells in data]
    elif isinstance(content, dict) and isinstance(content.get("events"), list):
        content = content["events"]
    elif isinstance(content, dict) and isinstance(content.get("results"), list):
        content = _of_experiment(content["results"], content.get("summary"))
    if not (isinstance(content, list) and content and isinstance(content[0], dict)):
        return None
    return from_lines(content, path) if known_line(content[0]) else None


def _of_experiment(results: list[Any], summary: Any) -> list[Any]:
    """The rows of Braintrust's `EvalResultWithSummary.as_json()` with their experiment's name."""
    name = summary.get("experiment_name") if isinstance(summary, dict) else None
    return [{"experiment_name": name, **row} if isinstance(row, dict) else row for row in results]


def from_table(header: Sequence[str], rows: Sequence[Sequence[str]], path: Path) -> Adapted:
    return from_lines([dict(zip(header, cells, strict=False)) for cells in rows], path)


def from_lines(objects: Sequence[Row], path: Path) -> Adapted:
    """One row per response; spans without any score or output are ignored."""
    tool = _tool(frozenset(objects[0]))
    assert tool is not None  # `known_line` was true
    responses = [_response(_flat(row), tool, path) for row in objects]
    kept = [r for r in responses if r.judged or r.human] or responses
    left = len(responses) - len(kept)
    notes = [f"ignored {left} rows without a score"] if left else []
    return adapted(kept, tool.name, *notes)


def _tool(names: frozenset[str]) -> _Tool | None:
    return next((tool for tool in _TOOLS if tool.known(names)), None)


def _flat(row: Row) -> dict[str, Any]:
    """Nested objects (also those written as JSON in a cell) as columns with dots."""
    out: dict[str, Any] = {}
    for name, value in row.items():
        nested = _object(value) if name in ("scores", "metadata", "attributes") else None
        if nested is None:
            out[name] = value
        else:
            out |= {f"{name}.{key}": inner for key, inner in nested.items()}
    for name, note in _named(out.get("annotations"), "name"):
        out[f"annotation_{name}_score"] = note.get("score")
        out[f"annotation_{name}_annotator_kind"] = note.get("annotator_kind")
    return out


def _named(notes: Any, key: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a list with their names; none where it is something else."""
    found = notes if isinstance(notes, list) else []
    return [(str(note[key]), note) for note in found if isinstance(note, dict) and key in note]


def _assessments(row: Row) -> list[tuple[str, dict[str, Any]]]:
    """MLflow's records of who assessed what: in JSON its own column, in CSV the trace's."""
    notes = row.get("assessments")
    if isinstance(notes, str):
        info = (_object(row.get("trace")) or {}).get("info")
        notes = info.get("assessments") if isinstance(info, dict) else None
    return _named(notes, "assessment_name")


def _people_and_expectations(row: Row) -> tuple[set[str], set[str]]:
    """Names of the scores that people gave, and of expected values, which are not scores."""
    kinds = {c: v for c, v in row.items() if c.endswith("_annotator_kind")}
    people = {
        column.removeprefix("annotation_").removesuffix("_annotator_kind")
        for column, kind in kinds.items()
        if kind == "HUMAN"
    }
    expected = set()
    for name, note in _assessments(row):
        source = note.get("source")
        if "expectation" in note:
            expected.add(name)
        elif isinstance(source, dict) and source.get("source_type") == "HUMAN":
            people.add(name)
    return people, expected


def _object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def _response(row: Mapping[str, Any], tool: _Tool, path: Path) -> Response:
    people, expected = _people_and_expectations(row)
    scores = {
        name: number(value)
        for column, value in row.items()
        if (name := tool.score(column)) is not None and number(value) is not None
        if name not in expected
    }
    judged, human = judged_and_human(scores)
    human = {**human, **{name: value for name, value in judged.items() if name in people}}
    judged = {name: value for name, value in judged.items() if name not in people}

    def first(names: Sequence[str]) -> Any:
        return next((row[name] for name in names if row.get(name) not in (None, "")), None)

    prompt, policy = text(first(tool.prompts)), first(tool.policies)
    metadata = {
        column.removeprefix("metadata."): value
        for column, value in row.items()
        if tool.score(column) is None and column not in (*tool.prompts, *tool.responses)
    }
    return Response(
        prompt_id=str(first(tool.ids) or prompt),
        policy=path.stem if policy is None else str(policy),
        judged=judged,
        human=human,
        prompt=prompt,
        response=text(first(tool.responses)),
        metadata=metadata,
    )
