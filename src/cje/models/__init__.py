"""One call to one model server, and the typed errors that can end it.

The layer below `cje.judges` and `cje.policies`: clients, keys, errors, and a bridge from
synchronous code. See docs/design/models-layer.md.
"""

from cje.models.call_errors import BadOutputError, FatalError, ModelCallError, RetryableError
from cje.models.client import Client, Completion, make_client
from cje.models.endpoint import JSON, PROVIDERS, Endpoint, Usage, call_seed
from cje.models.running import gather_bounded, run_sync, with_retries

__all__ = [
    "JSON",
    "PROVIDERS",
    "BadOutputError",
    "Client",
    "Completion",
    "Endpoint",
    "FatalError",
    "ModelCallError",
    "RetryableError",
    "Usage",
    "call_seed",
    "gather_bounded",
    "make_client",
    "run_sync",
    "with_retries",
]
