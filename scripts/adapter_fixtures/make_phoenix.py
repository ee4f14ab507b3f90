"""Export spans, annotations and an experiment from a Phoenix server on this machine.

python make_phoenix.py OUT (needs: arize-phoenix; the server listens on loopback only and keeps its
data in a temporary folder).
"""

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

PORT = "16016"
HERE = f"http://127.0.0.1:{PORT}"
OUT = Path(sys.argv[1])


def wait_for_server():
    for _ in range(120):
        try:
            urllib.request.urlopen(HERE, timeout=1).close()
            return
        except OSError:
            time.sleep(0.5)
    raise SystemExit("the server did not start")


def export():
    from phoenix.client import Client

    client = Client(base_url=HERE)
    spans = [
        {
            "name": "chat",
            "context": {"trace_id": f"{i + 1:032x}", "span_id": f"{i + 1:016x}"},
            "span_kind": "LLM",
            "start_time": f"2026-01-01T00:00:0{i}+00:00",
            "end_time": f"2026-01-01T00:00:0{i}.5+00:00",
            "status_code": "OK",
            "attributes": {
                "llm.model_name": "mock-1",
                "input.value": f"question {i}",
                "output.value": f"answer {i}",
                "metadata": {"topic": "ab"[i % 2]},
            },
        }
        for i in range(4)
    ]
    client.spans.log_spans(project_identifier="default", spans=spans)
    judged = [
        {"span_id": f"{i + 1:016x}", "name": "Quality", "annotator_kind": "LLM",
         "result": {"score": 0.25 * i, "label": "rated"}}
        for i in range(4)
    ]  # fmt: skip
    human = [
        {"span_id": f"{i + 1:016x}", "name": "rating", "annotator_kind": "HUMAN",
         "result": {"score": float(i == 1)}}
        for i in (0, 1)
    ]  # fmt: skip
    time.sleep(3)
    client.spans.log_span_annotations(span_annotations=judged + human, sync=True)
    frame = client.spans.get_spans_dataframe(project_identifier="default")
    frame = frame.sort_values("start_time")
    frame.to_csv(OUT / "spans.csv")
    frame.to_json(OUT / "spans.jsonl", orient="records", lines=True, date_format="iso")
    notes = client.spans.get_span_annotations_dataframe(
        spans_dataframe=frame, project_identifier="default"
    )
    notes.to_csv(OUT / "annotations.csv")

    dataset = client.datasets.create_dataset(
        name="questions",
        inputs=[{"question": f"question {i}"} for i in range(4)],
        outputs=[{"answer": "x"} for _ in range(4)],
    )
    experiment = client.experiments.run_experiment(
        dataset=dataset,
        task=lambda input: "answer to " + input["question"],
        evaluators={"correctness": lambda input, output: 0.25 * int(input["question"][-1])},
        experiment_name="mock-1",
        print_summary=False,
    )
    for kind in ("json", "csv"):
        url = f"{HERE}/v1/experiments/{experiment['experiment_id']}/{kind}"
        with urllib.request.urlopen(url) as answer:
            (OUT / f"experiment.{kind}").write_bytes(answer.read())


with tempfile.TemporaryDirectory() as folder:
    settings = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": PORT,
        "PHOENIX_GRPC_PORT": "16017",
        "PHOENIX_WORKING_DIR": folder,
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [sys.executable, "-m", "phoenix.server.main", "serve"]
    server = subprocess.Popen(command, env={**os.environ, **settings})
    try:
        wait_for_server()
        export()
    finally:
        server.terminate()
        server.wait()
