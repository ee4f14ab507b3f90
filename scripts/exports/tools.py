"""Exports in the layouts of other tools' documentation, with what tells versions apart in metadata.

(`tests/fixtures/adapters/` has files that the tools wrote themselves.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from export import export
from truth import BASES, POLICIES
from writing import as_csv, as_json, as_jsonl

TOOLS = "files of other tools"
ROWS = BASES["plain"]


@export("tools_mlflow", TOOLS, "eval_results_table.json", "--field",
        "policy=metadata.prompt_version", says=("MLflow evaluation table",))  # fmt: skip
def tools_mlflow(folder: Path) -> None:
    names = [
        "example_id",
        "inputs",
        "outputs",
        "prompt_version",
        "token_count",
        "answer_quality/v1/score",
        "answer_quality/v1/justification",
        "human_grade/v1/score",
    ]
    as_json(
        folder / "eval_results_table.json",
        {
            "columns": names,
            "data": [
                [
                    row["prompt_id"],
                    row["prompt"],
                    row["response"],
                    row["policy"],
                    40 + i % 7,
                    row["judge_score"],
                    "by rubric",
                    row["oracle_label"],
                ]
                for i, row in enumerate(ROWS)
            ],
        },
    )


@export("tools_ragas", TOOLS, "ragas.csv", asks="is it the policy?", same_ids=False,
        says=("RAGAS result",), base="unit")  # fmt: skip
def tools_ragas(folder: Path) -> None:
    as_csv(
        folder / "ragas.csv",
        [
            {
                "user_input": row["prompt"],
                "retrieved_contexts": "['a', 'b']",
                "response": row["response"],
                "reference": "see the manual",
                "faithfulness": row["judge_score"],
                "human_faithfulness": row["oracle_label"],
                "pipeline": row["policy"],
            }
            for row in BASES["unit"]
        ],
    )


@export("tools_phoenix", TOOLS, "spans.csv", same_ids=False, says=("Arize Phoenix spans",))
def tools_phoenix(folder: Path) -> None:
    found: list[dict[str, Any]] = []
    for i, row in enumerate(ROWS):
        ids = {"context.span_id": f"s{i:03d}", "context.trace_id": f"t{i:03d}"}
        found.append({"name": "ChatCompletion", "span_kind": "LLM", **ids,
                      "attributes.llm.model_name": row["policy"],
                      "attributes.input.value": row["prompt"],
                      "attributes.output.value": row["response"],
                      "eval.Quality.score": row["judge_score"], "eval.Quality.label": "rated",
                      "annotation.human.score": row["oracle_label"]})  # fmt: skip
        if i % 10 == 0:
            found.append({"name": "retriever", "span_kind": "RETRIEVER", **ids})
    as_csv(folder / "spans.csv", found)


@export("tools_braintrust", TOOLS, "experiment.jsonl", "--field", "prompt_id=metadata.question",
        says=("Braintrust export",))  # fmt: skip
def tools_braintrust(folder: Path) -> None:
    as_jsonl(
        folder / "experiment.jsonl",
        [
            {
                "id": f"r{i:03d}",
                "span_id": f"s{i:03d}",
                "root_span_id": f"s{i:03d}",
                "created": "2026-01-01T00:00:00Z",
                "input": {"question": row["prompt"]},
                "output": row["response"],
                "expected": None,
                "tags": None,
                "scores": {"Quality": row["judge_score"], "Human review": row["oracle_label"]},
                "metadata": {"model": row["policy"], "question": row["prompt_id"]},
            }
            for i, row in enumerate(ROWS)
        ],
    )


def _inspect_log(policy: str, prompt: str) -> dict[str, Any]:
    """Inspect's JSON log of one run; people's scores come from a scorer of their own."""
    mine = [row for row in ROWS if row["policy"] == policy]
    return {
        "version": 2, "status": "success",
        "eval": {"task": "support", "model": "openai/gpt-4o", "task_args": {"prompt": prompt},
                 "tags": ["nightly"], "packages": {"inspect_ai": "0.3.285"}},
        "samples": [
            {"id": row["prompt_id"], "epoch": 1, "input": row["prompt"], "target": "",
             "metadata": {"topic": "billing"}, "output": {"completion": row["response"]},
             "scores": {"model_graded_qa": {"value": row["judge_score"]},
                        **({"human_review": {"value": row["oracle_label"]}}
                           if row["oracle_label"] is not None else {})}}
            for row in mine],
    }  # fmt: skip


@export("tools_inspect_two_logs", TOOLS, "prod.json", "cand.json", "--baseline", "prod",
        asks="the same policy and prompt are in several files",
        says=("inspect_ai 0.3.285",))  # fmt: skip
def tools_inspect_two_logs(folder: Path) -> None:
    for policy in POLICIES:
        as_json(folder / f"{policy}.json", _inspect_log(policy, policy))


@export("tools_inspect_task_args", TOOLS, "a.json", "b.json", "--baseline", "prod", "--field",
        "policy=metadata.task_args.prompt")  # fmt: skip
def tools_inspect_task_args(folder: Path) -> None:
    for policy, name in zip(POLICIES, "ab", strict=True):
        as_json(folder / f"{name}.json", _inspect_log(policy, policy))


@export("tools_langfuse", TOOLS, "traces.json", "--field", "policy=metadata.prompt_version",
        says=("Langfuse export",))  # fmt: skip
def tools_langfuse(folder: Path) -> None:
    as_json(
        folder / "traces.json",
        {
            "data": [
                {
                    "id": f"t{i:03d}",
                    "name": "chat",
                    "input": row["prompt"],
                    "output": row["response"],
                    "tags": ["prod"],
                    "metadata": {"prompt_id": row["prompt_id"], "prompt_version": row["policy"]},
                    "scores": [
                        {"name": "quality", "source": "EVAL", "value": row["judge_score"]},
                        *(
                            [
                                {
                                    "name": "review",
                                    "source": "ANNOTATION",
                                    "value": row["oracle_label"],
                                }
                            ]
                            if row["oracle_label"] is not None
                            else []
                        ),
                    ],
                }
                for i, row in enumerate(ROWS)
            ]
        },
    )


@export("tools_langsmith", TOOLS, "experiment.csv", "--field", "policy=metadata.prompt_version",
        says=("LangSmith export",))  # fmt: skip
def tools_langsmith(folder: Path) -> None:
    as_csv(
        folder / "experiment.csv",
        [
            {
                "example_id": row["prompt_id"],
                "inputs.question": row["prompt"],
                "outputs.answer": row["response"],
                "feedback.quality": row["judge_score"],
                "feedback.human": row["oracle_label"],
                "metadata.prompt_version": row["policy"],
                "execution_time": 0.5,
            }
            for row in ROWS
        ],
    )
