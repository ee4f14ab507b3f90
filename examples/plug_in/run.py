"""A judge of one's own: any function of prompt and response, calibrated like any other."""

from __future__ import annotations

import polars as pl

from cje import analyze_dataset
from cje.judges import DeterministicJudge

judge = DeterministicJudge(lambda context, response: min(1.0, len(response) / 60))
rows = pl.read_csv("answers.csv").to_dicts()
for row in rows:
    row["judge_score"] = judge.score(row["prompt"], row["response"]).mean
print(analyze_dataset(rows, baseline="prod").summary())
