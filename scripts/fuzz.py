"""Attack every public entry point for some minutes, on a seed that is printed and can be given.

``make fuzz MINUTES=30`` takes a new seed; ``make fuzz MINUTES=30 SEED=123`` makes the same attacks
in the same order, as far as the time reaches. Round k of a target uses the seed + k.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PER_ROUND = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int)
    parser.add_argument("targets", nargs="+")
    options = parser.parse_args()
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    again = f"make fuzz MINUTES={options.minutes:g} SEED={seed}"
    print(f"seed {seed}; the same attacks again: {again}", flush=True)
    end = time.monotonic() + 60.0 * options.minutes
    examples: Counter[str] = Counter()
    failures: list[str] = []
    for number in range(10**6):
        for target in options.targets:
            if time.monotonic() >= end:
                return _report(examples, failures, again)
            tried, broken, said = _round(target, seed + number)
            examples.update(tried)
            if broken:
                failures.append(f"{', '.join(broken)}: seed {seed + number}")
                print(said, flush=True)
        print(f"after round {number + 1}: {sum(examples.values())} examples", flush=True)
    return _report(examples, failures, again)


def _round(target: str, seed: int) -> tuple[Counter[str], list[str], str]:
    """(examples by test, tests that broke, what pytest printed): one test per entry point."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "--timeout", "0", "--tb=short", "-rA",
         "-p", "no:cacheprovider", "--hypothesis-show-statistics", f"--hypothesis-seed={seed}",
         target],
        cwd=ROOT, capture_output=True, text=True,
        env=os.environ | {"CJE_FUZZ_EXAMPLES": str(PER_ROUND), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    broken = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, flags=re.MULTILINE)
    if done.returncode not in (0, 1) or (done.returncode and not broken):
        broken = broken or [target]  # it died: that is a finding too
    return _examples(done.stdout), broken, done.stdout[-6000:] + done.stderr[-2000:]


def _examples(said: str) -> Counter[str]:
    """Examples of each test, counted by Hypothesis; tests without generated input do not count."""
    found: Counter[str] = Counter()
    test = ""
    for line in said.splitlines():
        name = re.match(r"^(tests/\S+::.+):$", line)
        test = name[1] if name else test
        phase = re.search(r"- (\d+) passing, (\d+) failing, and (\d+) invalid", line)
        if phase:
            found[test] += sum(map(int, phase.groups()))
    return found


def _report(examples: Counter[str], failures: list[str], again: str) -> int:
    for test, count in sorted(examples.items()):
        print(f"{count:>9}  {test}")
    print(f"{sum(examples.values()):>9}  examples in all; {len(failures)} rounds broke something")
    for failure in failures:
        print(f"broken: {failure}")
    if failures:
        print(f"repeat: {again}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
