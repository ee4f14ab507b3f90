"""Runs in a peer's own environment: limits of candidate minus baseline on samples of `decision`.

    python decision_peer.py ppi|cje-eval|glide|truescore samples.npz out.npz

`samples.npz` holds `score` and `label` (repetition, policy, prompt), the baseline first, `paired`,
and `sizes`, the pairs of labels at each look: the first pairs are the labelled ones. `out.npz`
receives `sizes`, `low` and `high` (repetition, look), and `seconds` of processor per look.
This file imports nothing of this project: in one of these environments `cje` is the peer.
"""

import logging
import sys
import time
import warnings

import numpy as np

BATCH = 20  # labelled pairs between two looks of glide's monitor


def ppi(score, label, sizes, paired):
    """PPI++ of ppi-python: the mean of the differences, predicted by the judge's differences."""
    from ppi_py import ppi_mean_ci

    d, s = label[1] - label[0], score[1] - score[0]
    found = [ppi_mean_ci(d[:n], s[:n], s[n:], alpha=0.05) for n in sizes]
    return sizes, [[float(np.ravel(end)[0]) for end in pair] for pair in found]


def cje_eval(score, label, sizes, paired):
    """Direct mode of cje-eval and its own comparison, defaults."""
    from cje import analyze_dataset

    def limits(n):
        draws = {
            name: [
                {
                    "prompt_id": f"q{i}" if paired else f"{name}{i}",
                    "judge_score": float(score[k, i]),
                    "oracle_label": float(label[k, i]) if i < n else None,
                }
                for i in range(score.shape[1])
            ]
            for k, name in enumerate(("base", "candidate"))
        }
        unit = (0.0, 1.0)
        result = analyze_dataset(
            fresh_draws_data=draws, fresh_judge_scale=unit, fresh_oracle_scale=unit
        )
        found = result.compare_policies("candidate", "base")
        return [found["ci_lower"], found["ci_upper"]]

    return sizes, [limits(n) for n in sizes]


def glide(score, label, sizes, paired):
    """glide's prediction-powered monitor, one for each side, each at 97.5%.

    Every batch has `BATCH` labelled pairs and an equal share of all others.
    """
    from glide.monitors import AsymptoticPPRM

    d, s = label[1] - label[0], score[1] - score[0]
    n_batches = int(sizes[-1]) // BATCH
    last = n_batches * BATCH
    others = np.array_split(np.arange(last, len(d)), n_batches)
    order = np.concatenate(
        [np.r_[BATCH * b : BATCH * (b + 1), rest] for b, rest in enumerate(others)]
    )
    batch = np.concatenate([np.full(BATCH + len(rest), b) for b, rest in enumerate(others)])
    shown = np.where(order < last, d[order], np.nan)
    low, high = (
        AsymptoticPPRM()
        .detect(shown, s[order], batch, higher_is_better=better, threshold=0.05,
                confidence_level=0.975)
        .confidence_bounds
        for better in (False, True)
    )  # fmt: skip
    return BATCH * np.arange(1, n_batches + 1), np.column_stack([low, high])


def truescore(score, label, sizes, paired):
    """truescore's confidence sequence of the labels' differences, defaults; it takes no judge."""
    from truescore.sequential import confidence_sequence

    found = confidence_sequence((label[1] - label[0])[: sizes[-1]], bounds=(-1.0, 1.0))
    at = np.asarray(sizes) - 1
    return sizes, np.column_stack([found.lower_bounds[at], found.upper_bounds[at]])


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    method = {"ppi": ppi, "cje-eval": cje_eval, "glide": glide, "truescore": truescore}[sys.argv[1]]
    given = np.load(sys.argv[2])
    sizes, paired = [int(n) for n in given["sizes"]], bool(given["paired"])
    samples = list(zip(given["score"], given["label"], strict=True))
    method(*samples[0], sizes, paired)  # imports and compilation are not counted
    start = time.process_time()
    answers = [method(*sample, sizes, paired) for sample in samples]
    seconds = time.process_time() - start
    limits = np.array([found for _, found in answers])
    looks = np.array(answers[0][0])
    np.savez(
        sys.argv[3], sizes=looks, low=limits[..., 0], high=limits[..., 1],
        seconds=seconds / (len(samples) * len(looks)),
    )  # fmt: skip


if __name__ == "__main__":
    main()
