"""Runs in the environment of cje-eval 0.3.0: calibrates the arrays it is given, on demand.

    python calibration_peer.py arrays.npz out.npz

`arrays.npz` holds, for each suffix in ("continuous", "discrete"), `score_`, `label_`, `mask_` and
`weight_`. Every line on standard input names a task and a suffix; the answer is its seconds. At
end of input the results are written to `out.npz`. This file imports nothing of this project: in
that environment `cje` is the peer.
"""

import logging
import sys
import time
import warnings

import numpy as np


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    from cje.calibration import JudgeCalibrator, SimcalConfig, SIMCalibrator

    arrays = np.load(sys.argv[1])
    data = {name: arrays[name] for name in arrays.files}
    results = {}
    for line in sys.stdin:
        task, kind = line.split()
        score, label, mask, weight = (
            data[f"{name}_{kind}"] for name in ("score", "label", "mask", "weight")
        )
        config = SimcalConfig(ess_floor=None, var_cap=None)
        start = time.process_time()
        if task == "rewards":
            result = JudgeCalibrator().fit_cv(score, label[mask], mask, n_folds=5)
            seconds, value = time.process_time() - start, result.calibrated_scores
        elif task == "monotone":
            result = JudgeCalibrator(calibration_mode="monotone").fit_transform(
                score, label[mask], mask
            )
            seconds, value = time.process_time() - start, result.calibrated_scores
        elif task == "stacked":
            folds = np.arange(len(score)) % 5
            value, _ = SIMCalibrator(config).transform(weight, score, fold_ids=folds)
            seconds = time.process_time() - start
        else:
            value, _ = SIMCalibrator(config).transform(weight, score)
            seconds = time.process_time() - start
        results[f"{task}_{kind}"] = value
        print(seconds, flush=True)
    np.savez(sys.argv[2], **results)


if __name__ == "__main__":
    main()
