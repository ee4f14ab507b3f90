"""Save an experiment of LangSmith's own runner: python make_langsmith.py OUT (needs: langsmith)."""

import datetime
import os
import sys
import uuid

os.environ["LANGSMITH_TRACING"] = "false"
os.environ.setdefault("LANGSMITH_API_KEY", "none")

from langsmith import Client
from langsmith.schemas import Example

examples = [
    Example(
        id=uuid.UUID(int=100 + i),
        inputs={"question": f"question {i}"},
        outputs={"answer": "x"},
        dataset_id=uuid.UUID(int=7),
        created_at=datetime.datetime(2026, 1, 1),
    )
    for i in range(4)
]


def app(inputs):
    return {"answer": "answer to " + inputs["question"]}


def correctness(inputs, outputs, reference_outputs):
    return {"key": "correctness", "score": 0.25 * int(inputs["question"][-1])}


def human_rating(inputs, outputs, reference_outputs):
    return {"key": "human_rating", "score": 1 if inputs["question"].endswith("1") else None}


result = Client(auto_batch_tracing=False).evaluate(
    app,
    data=examples,
    evaluators=[correctness, human_rating],
    upload_results=False,
    max_concurrency=1,
)
result.to_pandas().to_csv(f"{sys.argv[1]}/experiment.csv", index=False)
