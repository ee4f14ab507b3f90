"""The estimator's options, checked by name before anything is computed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from cje.errors import CJEError
from cje.estimators.registry import REGISTRY, EstimatorEntry

__all__ = ["check_options"]

# Set by analyze_dataset from its own arguments.
_DATA = frozenset({"self", "data", "dataset", "sampler", "fresh_draws", "calibration_data"})


def check_options(
    entry: EstimatorEntry, options: Mapping[str, Any], targets: Sequence[str]
) -> dict[str, Any]:
    """The estimator's options by known names; `targets` are the policies of the log."""
    known = _options_of(entry)
    for name in options:
        if name in known:
            continue
        having = [e.name for e in REGISTRY.values() if name in _options_of(e)]
        hint = f"its options are {', '.join(known)}"
        if having:
            hint += f"; estimators with {name}: {', '.join(having)}"
        raise CJEError(f"the estimator '{entry.name}' has no such option", value=name, hint=hint)
    checked = dict(options)
    if "same_as_logging" in checked:
        checked["same_as_logging"] = _targets(checked["same_as_logging"], targets)
    return checked


def _options_of(entry: EstimatorEntry) -> list[str]:
    """Keyword options of the constructor, those passed on to its bases included."""
    names: dict[str, None] = {}
    for cls in entry.load().__mro__:
        if "__init__" not in vars(cls):
            continue
        kinds = {p.name: p.kind for p in inspect.signature(cls.__init__).parameters.values()}
        names |= dict.fromkeys(
            name
            for name, kind in kinds.items()
            if name not in _DATA and kind not in (inspect.Parameter.VAR_POSITIONAL,
                                                  inspect.Parameter.VAR_KEYWORD)
        )  # fmt: skip
        if inspect.Parameter.VAR_KEYWORD not in kinds.values():
            break
    return list(names)


def _targets(given: Any, targets: Sequence[str]) -> tuple[str, ...]:
    """Names of target policies: one string is one name, an unknown name an error."""
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in targets:
            raise CJEError(
                "same_as_logging names a policy that the logged data have no log-probs of",
                value=name,
                hint=f"target policies: {', '.join(targets) or 'none'}",
            )
    return names
