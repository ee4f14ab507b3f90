"""The result of an estimation: values and comparisons, as JSON, text, report and plots.

What produces a result lives in `cje.estimators`; what draws neutral parts lives in `cje.report`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names

if TYPE_CHECKING:
    from cje.results.comparison import BestPolicy as BestPolicy
    from cje.results.comparison import Comparison as Comparison
    from cje.results.result import EstimationResult as EstimationResult

_HOME = {
    "BestPolicy": "comparison",
    "Comparison": "comparison",
    "EstimationResult": "result",
}
__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
