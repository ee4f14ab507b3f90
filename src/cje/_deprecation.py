"""Old names of arguments: accepted with a warning until the next minor release."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["renamed_arguments"]

P = ParamSpec("P")
R = TypeVar("R")


def renamed_arguments(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept old keyword arguments under their new names, with a DeprecationWarning.

    Parameters
    ----------
    **renamed : str
        Old name = new name.

    Raises
    ------
    TypeError
        When called with both the old and the new name.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old, new in renamed.items():
                if old not in kwargs:
                    continue
                if new in kwargs:
                    raise TypeError(
                        f"{function.__name__}() got both {new!r} and its old name {old!r}"
                    )
                warnings.warn(
                    f"{function.__name__}: {old!r} is now called {new!r}; the old name goes in the "
                    "next minor release",
                    DeprecationWarning,
                    stacklevel=2,
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
