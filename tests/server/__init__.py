"""A real HTTP server that speaks the OpenAI protocol over a real tiny language model.

It imitates the quirks of the servers people run, injects faults, and counts every call.
"""

from tests.server.faults import FAULTS, Faults
from tests.server.quirks import QUIRKS, Quirks
from tests.server.running import SubprocessServer, TestServer

__all__ = ["FAULTS", "QUIRKS", "Faults", "Quirks", "SubprocessServer", "TestServer"]
