"""Runs in a peer's own environment: intervals of policy values on the data sets it is given.

    python stress_peer.py cje-eval|ppi|glide

One process for a whole study. Every line on standard input names an input file and the file to
write; the answer is the seconds of processor spent. The input holds `score` and `label`
(repetition, policy, row; label NaN: none), `cluster` (row), `watched` (positions of the policies
asked for) and, where labels were drawn with known chances, `chance` (repetition, policy, row). The
output holds `low`, `high` and `state` (repetition, policy asked for): 0 for an interval, 1 for a
refusal, 2 for an error, and `problem`, the errors' messages with their counts. This file imports
nothing of this project: in that environment `cje` is the peer.
"""

import importlib
import json
import logging
import re
import sys
import time
import warnings
from collections import Counter

import numpy as np

REFUSED, ERROR = 1, 2


def cje_eval(score, label, cluster, chance, watched):
    """Direct mode with its defaults; rows of one cluster share a prompt, as it clusters by prompt.

    Its reliability gate that refuses claims of level counts as a refusal.
    """
    from cje import analyze_dataset

    names = [f"p{k}" for k in range(len(score))]
    draws = {
        name: [
            {
                "prompt_id": f"c{c}",
                "draw_idx": i,
                "judge_score": float(s),
                "oracle_label": None if np.isnan(y) else float(y),
            }
            for i, (c, s, y) in enumerate(zip(cluster, score[k], label[k], strict=True))
        ]
        for k, name in enumerate(names)
    }
    known = {} if chance is None else {
        "label_design": "known_propensity",
        "label_propensities": dict(zip(names, (c.tolist() for c in chance), strict=True)),
    }  # fmt: skip
    unit = (0.0, 1.0)
    result = analyze_dataset(
        fresh_draws_data=draws, fresh_judge_scale=unit, fresh_oracle_scale=unit, **known
    )
    order = [result.metadata["target_policies"].index(names[k]) for k in watched]
    limits = np.array(result.ci(), dtype=float)[order]
    gates = result.gates
    refused = [
        bool(names[k] in gates and gates[names[k]].refuse_level_claims)
        or not np.isfinite(limits[j]).all()
        for j, k in enumerate(watched)
    ]
    return limits, np.where(refused, REFUSED, 0)


def by_cluster(score, label, cluster):
    """Means of clusters that are labelled as a whole, where there are clusters of several rows."""
    if len(np.unique(cluster)) == len(cluster):
        return score, label
    size = np.bincount(cluster)
    return np.bincount(cluster, score) / size, np.bincount(cluster, label) / size


def ppi(score, label, cluster, chance, watched):
    """PPI++ mean of ppi-python; the labelled rows are not among the unlabelled."""
    from ppi_py import ppi_mean_ci

    limits = []
    for k in watched:
        s, y = by_cluster(score[k], label[k], cluster)
        has = np.isfinite(y)
        found = ppi_mean_ci(y[has], s[has], s[~has], alpha=0.05)
        limits.append([float(np.ravel(v)[0]) for v in found])
    return np.array(limits), np.where(np.isfinite(limits).all(axis=1), 0, REFUSED)


def glide(score, label, cluster, chance, watched):
    """PPI++ mean of glide; clustered where rows share one, ASI where chances are known."""
    from glide.estimators import ASIMeanEstimator, ClusteredPPIMeanEstimator, PPIMeanEstimator

    limits = []
    for k in watched:
        if chance is not None:
            result = ASIMeanEstimator().estimate(label[k], score[k], chance[k])
        elif len(np.unique(cluster)) < len(cluster):
            result = ClusteredPPIMeanEstimator().estimate(label[k], score[k], cluster)
        else:
            result = PPIMeanEstimator().estimate(label[k], score[k])
        interval = result.confidence_interval
        limits.append([float(interval.lower_bound), float(interval.upper_bound)])
    return np.array(limits), np.where(np.isfinite(limits).all(axis=1), 0, REFUSED)


def answer(method, given):
    """Limits and states of every data set; an exception is an error of that data set alone."""
    watched, n = given["watched"], len(given["score"])
    limits = np.full((n, len(watched), 2), np.nan)
    state = np.full((n, len(watched)), ERROR)
    problems = Counter()
    for r in range(n):
        chance = given["chance"][r] if "chance" in given else None
        try:
            limits[r], state[r] = method(
                given["score"][r], given["label"][r], given["cluster"], chance, watched
            )
        except Exception as error:  # whatever a peer raises is a row of the result
            said = re.sub(r"\d+", "#", str(error))  # one line for all positions
            problems[f"{type(error).__name__}: {said}"[:120]] += 1
    return {"low": limits[..., 0], "high": limits[..., 1], "state": state,
            "problem": json.dumps(dict(problems))}  # fmt: skip


def main():
    method, package = {
        "cje-eval": (cje_eval, "cje.calibration"),
        "ppi": (ppi, "ppi_py"),
        "glide": (glide, "glide.estimators"),
    }[sys.argv[1]]
    importlib.import_module(package)  # a broken environment stops here
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        source, target = line.split()
        start = time.process_time()
        with np.load(source) as stored:
            given = {name: stored[name] for name in stored.files}
        np.savez(target, **answer(method, given))
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
