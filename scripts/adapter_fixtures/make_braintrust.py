"""Evaluate with Braintrust's own runner: python make_braintrust.py OUT (needs: braintrust).

`result.json` is the runner's result; `experiment.jsonl` holds the rows that its logger sends to
the service, which the service's own exports repeat. Nothing is sent.
"""

import json
import sys

from braintrust import Eval, logger
from braintrust.logger import Experiment, ObjectMetadata, ProjectExperimentMetadata
from braintrust.util import LazyValue

data = [
    {"input": f"question {i}", "expected": "x", "metadata": {"topic": "ab"[i % 2]}}
    for i in range(4)
]


def answer(input):
    return "answer to " + input


def correctness(input, output, expected=None):
    return 0.25 * int(input[-1])


def human_review(input, output, expected=None):
    return 1.0 if input.endswith("1") else None


result = Eval(
    "capitals",
    data=data,
    task=answer,
    scores=[correctness, human_review],
    no_send_logs=True,
)
with open(f"{sys.argv[1]}/result.json", "w") as file:
    file.write(result.as_json() + "\n")

logger.login(api_key=logger.TEST_API_KEY)
names = ProjectExperimentMetadata(
    project=ObjectMetadata(id="capitals-id", name="capitals", full_info={}),
    experiment=ObjectMetadata(id="mock-1-id", name="mock-1", full_info={}),
)
with logger._internal_with_memory_background_logger() as memory:
    experiment = Experiment(lazy_metadata=LazyValue(lambda: names, use_mutex=False))
    for case in data:
        with experiment.start_span(name="eval", type="eval") as span:
            with span.start_span(name="task", type="task"):
                output = answer(case["input"])
            scores = {f.__name__: f(case["input"], output) for f in (correctness, human_review)}
            span.log(output=output, scores=scores, **case)
    rows = memory.pop()
for row in rows:
    row["context"].pop("caller_filename")  # a path of the machine that wrote the fixture
with open(f"{sys.argv[1]}/experiment.jsonl", "w") as file:
    file.writelines(json.dumps(row, default=str) + "\n" for row in rows)
