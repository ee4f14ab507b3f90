"""Runs in cje-eval's own environment: processor seconds of one direct analysis of a table.

    python direct_peer.py table.parquet-or-csv

Reads columns policy, prompt_id, judge_score, oracle_label (blank: not labelled), builds the rows
cje-eval takes (not timed), and prints the processor seconds of `analyze_dataset` with its
intervals, and by how many MiB it raised the memory's peak.
"""

import csv
import logging
import resource
import sys
import time
from collections import defaultdict


def main() -> None:
    from cje import analyze_dataset

    logging.disable(logging.WARNING)
    draws = defaultdict(list)
    with open(sys.argv[1], newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            draws[row["policy"]].append(
                {
                    "prompt_id": row["prompt_id"],
                    "judge_score": float(row["judge_score"]),
                    "oracle_label": float(row["oracle_label"]) if row["oracle_label"] else None,
                }
            )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    start = time.process_time()
    result = analyze_dataset(
        fresh_draws_data=dict(draws), fresh_judge_scale=(0.0, 1.0), fresh_oracle_scale=(0.0, 1.0)
    )
    result.ci()
    seconds = time.process_time() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before)


if __name__ == "__main__":
    main()
