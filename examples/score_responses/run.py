"""Log-probs of given responses under two policies: teacher forcing on a small model."""

from __future__ import annotations

import csv
from pathlib import Path

from cje.policies import make_multi_sampler

with Path("responses.csv").open(encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
sampler = make_multi_sampler(
    [
        {"name": "new", "provider": "ngram", "temperature": 1.0},
        {"name": "bolder", "provider": "ngram", "temperature": 1.3},
    ]
)
matrix = sampler.logp_matrix([r["context"] for r in rows], [r["response"] for r in rows])
for row, (new, bolder) in zip(rows, matrix.tolist(), strict=True):
    print(f"{row['id']}: log p = {new:.2f} under new, {bolder:.2f} under bolder")
