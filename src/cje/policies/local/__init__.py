"""Policies on your own hardware: exact log-probs from weights (extra ``local``).

Nothing here is imported unless a configuration says ``provider: transformers``, or on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names

if TYPE_CHECKING:
    from cje.policies.local.chat import LocalChat as LocalChat
    from cje.policies.local.engine import ScoringEngine as ScoringEngine
    from cje.policies.local.model import LocalModel as LocalModel
    from cje.policies.local.runner import LocalPolicy as LocalPolicy

__all__ = ["LocalChat", "LocalModel", "LocalPolicy", "ScoringEngine"]
_HOME = {
    "LocalChat": "chat",
    "ScoringEngine": "engine",
    "LocalModel": "model",
    "LocalPolicy": "runner",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
