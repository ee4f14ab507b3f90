"""DeepEval test runs (`.latest_test_run.json`, or files in DEEPEVAL_RESULTS_FOLDER)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cje.data.adapters.scores import Adapted, Response, adapted, judged_and_human, number, text

__all__ = ["from_json"]


def from_json(content: Any, path: Path) -> Adapted | None:
    """A test run; the policy is the hyperparameter `model`, else the file's name."""
    run = content.get("testRunData", content) if isinstance(content, dict) else None
    if not (isinstance(run, dict) and isinstance(run.get("testCases"), list)):
        return None
    cases = run["testCases"]
    if not cases or not all(isinstance(case, dict) and "metricsData" in case for case in cases):
        return None
    hyperparameters = run.get("hyperparameters") or {}
    policy = str(hyperparameters.get("model") or path.stem.lstrip("."))
    notes = []
    if run.get("conversationalTestCases"):
        notes.append(f"ignored {len(run['conversationalTestCases'])} conversations")
    run_metadata = {"hyperparameters": hyperparameters} if hyperparameters else {}
    return adapted(_responses(cases, policy, run_metadata), "a DeepEval test run", *notes)


def _responses(
    cases: list[Mapping[str, Any]], policy: str, run: Mapping[str, Any]
) -> Iterator[Response]:
    for i, case in enumerate(cases):
        scores = {m["name"]: number(m.get("score")) for m in case.get("metricsData") or ()}
        judged, human = judged_and_human(scores)
        yield Response(
            prompt_id=str(case.get("name") or f"case_{case.get('order', i)}"),
            policy=policy,
            judged=judged,
            human=human,
            prompt=text(case.get("input")),
            response=text(case.get("actualOutput")),
            metadata={
                **run,
                **(case.get("additionalMetadata") or {}),
                **({"tags": ", ".join(map(str, case["tags"]))} if case.get("tags") else {}),
            },
        )
