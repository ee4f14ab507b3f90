"""Public names that load on first use, so that importing a package is fast."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_names(
    package: str, home: Mapping[str, str], public: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's ``__getattr__`` and ``__dir__`` (PEP 562).

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    home : mapping
        Public name -> the module that defines it, below the package or in full (``cje. ...``).
    public : sequence of str
        The package's ``__all__``, which ``dir`` shows.
    """

    def load(name: str) -> Any:
        if name in home:
            module = home[name]
            path = module if module.startswith("cje.") else f"{package}.{module}"
            return getattr(importlib.import_module(path), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: sorted(public)
