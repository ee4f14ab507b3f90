"""Runs in a peer's own environment: estimates policy means on the replayed samples of `replay`.

    python replay_peer.py cje-eval|ppi samples.npz out.npz

`samples.npz` holds `score`, `label` (repetition, policy, row) and `labelled` (how many first rows
of each policy carry a label); `out.npz` receives `estimate`, `low`, `high` (repetition, policy).
This file imports nothing of this project: in that environment `cje` is the peer.
"""

import logging
import sys
from collections.abc import Callable

import numpy as np


def cje_eval(score: np.ndarray, label: np.ndarray, labelled: int) -> np.ndarray:
    """Direct mode of cje-eval, defaults; every response has a prompt of its own."""
    from cje import analyze_dataset

    draws = {
        f"p{k}": [
            {
                "prompt_id": f"p{k}_{i}",
                "judge_score": float(score[k, i]),
                "oracle_label": float(label[k, i]) if i < labelled else None,
            }
            for i in range(score.shape[1])
        ]
        for k in range(len(score))
    }
    unit = (0.0, 1.0)
    result = analyze_dataset(
        fresh_draws_data=draws, fresh_judge_scale=unit, fresh_oracle_scale=unit
    )
    order = [result.metadata["target_policies"].index(f"p{k}") for k in range(len(score))]
    limits = np.array(result.ci())[order]
    return np.column_stack([np.asarray(result.estimates)[order], limits])


def ppi(score: np.ndarray, label: np.ndarray, labelled: int) -> np.ndarray:
    """PPI++ mean of ppi-python, defaults; the labelled rows are not among the unlabelled."""
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    rows = []
    for s, y in zip(score, label, strict=True):
        data = (y[:labelled], s[:labelled], s[labelled:])
        low, high = ppi_mean_ci(*data, alpha=0.05)
        rows.append([float(np.ravel(v)[0]) for v in (ppi_mean_pointestimate(*data), low, high)])
    return np.array(rows)


def main() -> None:
    method: Callable[..., np.ndarray] = {"cje-eval": cje_eval, "ppi": ppi}[sys.argv[1]]
    logging.disable(logging.WARNING)
    samples = np.load(sys.argv[2])
    labelled = int(samples["labelled"])
    out = np.stack(
        [method(s, y, labelled) for s, y in zip(samples["score"], samples["label"], strict=True)]
    )
    np.savez(sys.argv[3], estimate=out[..., 0], low=out[..., 1], high=out[..., 2])


if __name__ == "__main__":
    main()
