"""`cje score`: a column per policy, resumed after kill -9, and the command it prints works."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import transformers
from typer.testing import CliRunner

from cje import analyze_dataset
from cje.cli.main import app
from cje.errors import CJEError
from cje.pipeline.scoring import score_file

ROOT = Path(__file__).resolve().parents[3]


def logged(path: Path, n: int = 40) -> list[dict]:
    rows = [
        {
            "prompt_id": f"p{i}", "prompt": f"Tell me about the river {i % 7}.",
            "response": f"It is {'very ' * (i % 5)}long.", "judge_score": (i * 7 % 10) / 10,
            "oracle_label": (i * 3 % 10) / 10 if i % 2 else None, "policy": "prod",
        }
        for i in range(n)
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return rows


def exact(folder: Path, row: dict, temperature: float = 1.0) -> float:
    """By transformers: its own template, its own tokens, full logits."""
    tokeniser = transformers.AutoTokenizer.from_pretrained(folder)
    made = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    messages = [{"role": "user", "content": row["prompt"]}]
    prompt = tokeniser.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = tokeniser(prompt, add_special_tokens=False)["input_ids"]
    whole = tokeniser(prompt + row["response"] + "<|im_end|>", add_special_tokens=False)
    whole = torch.tensor([whole["input_ids"]])
    with torch.inference_mode():
        scores = torch.log_softmax(made(whole).logits[0] / temperature, -1)
    return sum(float(scores[i - 1, whole[0, i]]) for i in range(len(ids), whole.shape[1]))


def test_the_command_adds_exact_columns_and_the_next_command_works(tmp_path, folders):
    rows = logged(tmp_path / "logged.jsonl")
    out = tmp_path / "scored.parquet"
    arguments = [
        "score", str(tmp_path / "logged.jsonl"), "--policy", f"cand={folders[1]}",
        "--policy", f"prod={folders[0]}", "--policy", f"hot={folders[0]}",
        "--set", "hot.temperature=1.3", "-o", str(out),
    ]  # fmt: skip
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert f"cje analyze --logged {out}" in shown.output
    frame = pl.read_parquet(out)
    assert frame["prompt_id"].to_list() == [row["prompt_id"] for row in rows]
    for number in (0, 11):
        row = frame.row(number, named=True)
        assert row["base_policy_logprob"] == pytest.approx(exact(folders[0], rows[number]), 1e-5)
        cand, hot = (row[f"target_policy_logprobs.{name}"] for name in ("cand", "hot"))
        assert cand == pytest.approx(exact(folders[1], rows[number]), 1e-5)
        assert hot == pytest.approx(exact(folders[0], rows[number], 1.3), 1e-5)
        assert row["n_tokens.cand"] == row["n_tokens.prod"] > 3
        assert row["boundary.cand"] == "offsets"
    result = analyze_dataset(None, logged_data=out)
    assert set(result.policies) == {"cand", "hot"}
    again = CliRunner().invoke(app, [*arguments, "--quiet"])
    assert "120 scores" not in again.output  # equal rows share one score
    assert "from an earlier run" in again.output
    assert pl.read_parquet(out).equals(frame)


def test_kill_9_loses_no_score_that_was_stored(tmp_path, folders):
    logged(tmp_path / "logged.jsonl", 400)
    out, store = tmp_path / "s.jsonl", tmp_path / "s.jsonl.store" / "store.sqlite"
    command = [
        sys.executable, "-m", "cje.cli.main", "score", str(tmp_path / "logged.jsonl"),
        "--policy", f"prod={folders[0]}", "--policy", f"cand={folders[1]}", "-o", str(out),
        "--batch-tokens", "64",
    ]  # fmt: skip

    def finished() -> int:
        try:
            with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
                return int(db.execute("SELECT count(*) FROM calls").fetchone()[0])
        except sqlite3.OperationalError:
            return 0

    process = subprocess.Popen(command, cwd=ROOT, env=os.environ, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while finished() < 10 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = finished()
    assert kept >= 10
    assert not out.exists()
    policies = [
        {"name": name, "provider": "transformers", "model": str(folder), "template": "auto"}
        for name, folder in zip(("prod", "cand"), folders, strict=True)
    ]
    resumed = score_file(tmp_path / "logged.jsonl", policies, out)
    assert resumed.reused == kept
    fresh = score_file(tmp_path / "logged.jsonl", policies, tmp_path / "other.jsonl")
    assert fresh.reused == 0
    a, b = (
        pl.read_ndjson(path).select("base_policy_logprob", "target_policy_logprobs.cand")
        for path in (out, tmp_path / "other.jsonl")
    )
    np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), atol=1e-5)


def test_a_row_that_cannot_be_scored_is_left_out_and_named(tmp_path, folders):
    rows = logged(tmp_path / "logged.jsonl", 6)
    rows[2]["response"] = "He wrote <|im_end|> and went on."
    (tmp_path / "logged.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    policies = [{"name": "prod", "provider": "transformers", "model": str(folders[0]),
                 "template": "auto"}]  # fmt: skip
    found = score_file(tmp_path / "logged.jsonl", policies, tmp_path / "s.parquet")
    assert (found.rows, found.errors, dict(found.reasons)) == (5, 1, {"control_text": 1})
    assert json.loads(found.errors_path.read_text())["row"] == 3
    assert [finding.code for finding in found.findings] == ["error-rows"]


def test_nobody_guesses_which_policy_wrote_the_responses(tmp_path, folders):
    rows = [dict(row, policy="old") for row in logged(tmp_path / "logged.jsonl", 3)]
    (tmp_path / "logged.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    policies = [{"name": "prod", "provider": "transformers", "model": str(folders[0])}]
    with pytest.raises(CJEError, match="logging='NAME'"):
        score_file(tmp_path / "logged.jsonl", policies, tmp_path / "s.parquet")
