"""Runs in cje-eval 0.3.0's own environment: seconds of one stacked-dr analysis.

    python stacked_peer.py logged.jsonl fresh_draws/

Prints one JSON object: seconds from files to intervals, the policies, values and standard errors.
"""

import json
import logging
import sys
import time
import warnings


def main() -> None:
    from cje import analyze_dataset

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    start = time.process_time()
    result = analyze_dataset(
        logged_data_path=sys.argv[1], fresh_draws_dir=sys.argv[2], estimator="stacked-dr"
    )
    result.confidence_interval(0.05)
    seconds = time.process_time() - start
    print(
        json.dumps(
            {
                "seconds": seconds,
                "policies": list(result.metadata["target_policies"]),
                "values": [float(value) for value in result.estimates],
                "errors": [float(value) for value in result.standard_errors],
            }
        )
    )


if __name__ == "__main__":
    main()
