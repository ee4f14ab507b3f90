"""Start pipeline runs that can be killed, without paying for the imports each time.

A process that has imported everything (and used nothing: no threads yet) forks once per line read:
the line is a configuration's path, the child runs it. Printed: the child's id, then its status.
"""

from __future__ import annotations

import os
import sys

import openai  # noqa: F401 - imported before forking

import cje.estimators.offpolicy.calibrated_ips
import cje.judges.api
import cje.policies.api  # noqa: F401
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                CJEPipeline(load_config(line.strip())).run()
            except BaseException as error:  # the parent reads the message and the status
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
