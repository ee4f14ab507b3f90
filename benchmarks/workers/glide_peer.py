"""Runs in glide's own environment: clustered and stratified PPI means of the samples given.

    python glide_peer.py samples.npz out.npz

`samples.npz` holds `score`, `label` (repetition, row; NaN: no label), `cluster` (row) and `big_*`
for the timing. `out.npz` receives for each method `<method>` (repetition, 3): estimate, low, high;
and `seconds`, processor seconds of one clustered estimate of the big sample.
"""

import sys
import time
import warnings

import numpy as np
from glide.estimators import ClusteredPPIMeanEstimator, PPIMeanEstimator, StratifiedPPIMeanEstimator


def limits(result):
    interval = result.confidence_interval
    return [float(result.mean), float(interval.lower_bound), float(interval.upper_bound)]


def main():
    warnings.simplefilter("ignore")
    given = np.load(sys.argv[1])
    score, label, cluster = given["score"], given["label"], given["cluster"]
    strata = (score > 0.5).astype(int)
    found = {"clustered": [], "stratified": [], "plain": []}
    for s, y, g in zip(score, label, strata, strict=True):
        found["clustered"].append(limits(ClusteredPPIMeanEstimator().estimate(y, s, cluster)))
        found["stratified"].append(limits(StratifiedPPIMeanEstimator().estimate(y, s, g)))
        found["plain"].append(limits(PPIMeanEstimator().estimate(y, s)))
    big = (given["big_label"], given["big_score"], given["big_cluster"])
    seconds = []
    for _ in range(5):
        start = time.process_time()
        limits(ClusteredPPIMeanEstimator().estimate(*big))
        seconds.append(time.process_time() - start)
    np.savez(sys.argv[2], seconds=np.median(seconds), **found)


if __name__ == "__main__":
    main()
