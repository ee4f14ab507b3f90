"""All that is wrong in a configuration, on one line."""

from __future__ import annotations

from pydantic import ValidationError

__all__ = ["config_faults"]


def config_faults(error: ValidationError) -> str:
    """``field: what is wrong`` for every fault pydantic found; values are not repeated."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'config'}: {fault['msg']}"
        for fault in error.errors(include_input=False, include_url=False)
    )
