"""``python -m tests.server --port 0 --quirk vllm --fault 429=0.05 --fault reset=0.01``."""

from __future__ import annotations

import argparse
import asyncio

from tests.server.faults import Faults
from tests.server.http import App
from tests.server.quirks import QUIRKS
from tests.server.routes import Routes
from tests.server.running import serve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--quirk", choices=sorted(QUIRKS), default="openai")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME=SHARE")
    parser.add_argument("--fault-seed", type=int, default=0)
    parser.add_argument("--only-first", type=int, default=3)
    parser.add_argument("--retry-after", type=float, default=0.02)
    parser.add_argument("--latency", type=float, default=0.0)
    options = parser.parse_args()
    shares = {name: float(share) for name, _, share in (f.partition("=") for f in options.fault)}
    faults = Faults(shares, options.fault_seed, options.only_first, options.retry_after)
    app = App(Routes(QUIRKS[options.quirk]), faults, options.latency)
    asyncio.run(serve(app, options.port))


if __name__ == "__main__":
    main()
