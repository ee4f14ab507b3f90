"""Runs in obp's own environment: SNIPS and DR with obp's bootstrap intervals.

    python obp_peer.py problem.npz out.npz

`problem.npz` holds `reward`, `action`, `pscore` (repetition, row), `action_dist` (repetition, row,
action) and `model` (repetition, row, action), the reward model's prediction of every action.
`out.npz` receives `snips` and `dr` (repetition, 3): value, low, high; and their seconds.
"""

import logging
import sys
import time

import numpy as np

logging.disable(logging.CRITICAL)

from obp.ope import (  # noqa: E402
    DoublyRobust,
    SelfNormalizedDoublyRobust,
    SelfNormalizedInverseProbabilityWeighting,
)


def main():
    given = np.load(sys.argv[1])
    found = {"snips": [], "dr": [], "sndr": []}
    seconds = dict.fromkeys(found, 0.0)
    methods = {
        "snips": SelfNormalizedInverseProbabilityWeighting(),
        "dr": DoublyRobust(),
        "sndr": SelfNormalizedDoublyRobust(),
    }
    for r in range(len(given["reward"])):
        data = {
            "reward": given["reward"][r],
            "action": given["action"][r],
            "pscore": given["pscore"][r],
            "action_dist": given["action_dist"][r][:, :, None],
        }
        for name, method in methods.items():
            extra = {}
            if name != "snips":
                extra["estimated_rewards_by_reg_model"] = given["model"][r][:, :, None]
            value = method.estimate_policy_value(**data, **extra)
            start = time.process_time()
            limits = method.estimate_interval(
                **data, **extra, n_bootstrap_samples=200, random_state=r
            )
            seconds[name] += time.process_time() - start
            bounds = [limits[key] for key in ("95.0% CI (lower)", "95.0% CI (upper)")]
            found[name].append([float(value), *map(float, bounds)])
    np.savez(sys.argv[2], **found, **{f"{name}_seconds": s for name, s in seconds.items()})


if __name__ == "__main__":
    main()
