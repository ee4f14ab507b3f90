"""Compile a kernel for one model, with static shapes."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["compiled_copy"]


def compiled_copy(function: Callable[..., Any]) -> Any:
    """A compiled copy of `function` with a separate cache.

    torch caches compiled code by code object, and makes a size dynamic (slower) after a second
    value. A second model in the process must not have this effect on the first.
    """
    assert isinstance(function, types.FunctionType)
    own = types.FunctionType(
        function.__code__.replace(), function.__globals__, function.__name__,
        function.__defaults__, function.__closure__,
    )  # fmt: skip
    return torch.compile(own, dynamic=False)
