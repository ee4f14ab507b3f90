"""Evaluate with MLflow itself: python make_mlflow.py OUT (needs: mlflow).

`eval_results_table.json` is the table that `mlflow.evaluate` stores in its run (MLflow 2 and 3),
`eval_results.csv` the one of `mlflow.genai.evaluate` (MLflow 3). Traces and runs are kept in a
temporary folder.
"""

import os
import sys
import tempfile

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["GIT_PYTHON_REFRESH"] = "quiet"

import mlflow
import pandas as pd
from mlflow.entities import Feedback
from mlflow.genai.scorers import scorer
from mlflow.metrics import MetricValue, make_metric

OUT = os.path.abspath(sys.argv[1])
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)
mlflow.set_tracking_uri(f"sqlite:///{folder.name}/mlflow.db")


def by_rule(predictions, targets=None, metrics=None):
    return MetricValue(scores=[0.25 * i for i in range(4)], justifications=["by rule"] * 4)


table = pd.DataFrame(
    {
        "inputs": [f"question {i}" for i in range(4)],
        "outputs": [f"answer {i}" for i in range(4)],
        "prompt_version": ["v1", "v1", "v2", "v2"],
    }
)
with mlflow.start_run() as run:
    quality = make_metric(eval_fn=by_rule, greater_is_better=True, name="quality", version="v1")
    mlflow.models.evaluate(
        data=table, predictions="outputs", extra_metrics=[quality], evaluators="default"
    )
    mlflow.artifacts.download_artifacts(
        run_id=run.info.run_id, artifact_path="eval_results_table.json", dst_path=OUT
    )


@scorer
def correctness(inputs, outputs):
    return Feedback(value=0.25 * int(inputs["question"][-1]), rationale="by rule")


@scorer
def human_rating(inputs, outputs):
    return 1.0 if inputs["question"].endswith("1") else None


data = [
    {
        "inputs": {"question": f"question {i}"},
        "outputs": f"answer {i}",
        "expectations": {"steps": i},
    }
    for i in range(4)
]
result = mlflow.genai.evaluate(data=data, scorers=[correctness, human_rating])
frame = result.tables["eval_results"]
text = frame.sort_values("request", key=lambda column: column.map(str)).to_csv(index=False)
with open(f"{OUT}/eval_results.csv", "w") as file:
    file.write(text.replace(folder.name, "temporary"))  # no path of the machine in a fixture
