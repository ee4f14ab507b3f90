"""Policy-value estimators: naive, direct, IPS, doubly robust, stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names

if TYPE_CHECKING:
    from cje.estimators.calibrated_ips import CalibratedIPS as CalibratedIPS
    from cje.estimators.comparison import BestPolicy as BestPolicy
    from cje.estimators.comparison import Comparison as Comparison
    from cje.estimators.direct import DirectEstimator as DirectEstimator
    from cje.estimators.direct_bootstrap import bootstrap_direct as bootstrap_direct
    from cje.estimators.doubly_robust import DRCPOEstimator as DRCPOEstimator
    from cje.estimators.importance import IPSEstimator as IPSEstimator
    from cje.estimators.importance import SNIPSEstimator as SNIPSEstimator
    from cje.estimators.mrdr import MRDREstimator as MRDREstimator
    from cje.estimators.naive import NaiveEstimator as NaiveEstimator
    from cje.estimators.registry import REGISTRY as REGISTRY
    from cje.estimators.registry import find_estimator as find_estimator
    from cje.estimators.result import EstimationResult as EstimationResult
    from cje.estimators.stacked import StackedDREstimator as StackedDREstimator
    from cje.estimators.tmle import TMLEEstimator as TMLEEstimator
    from cje.estimators.triply_robust import TRCPOEstimator as TRCPOEstimator

# Public name -> module. Loaded on first use: most sessions need one estimator.
_HOME = {
    "CalibratedIPS": "calibrated_ips",
    "IPSEstimator": "importance",
    "SNIPSEstimator": "importance",
    "DRCPOEstimator": "doubly_robust",
    "MRDREstimator": "mrdr",
    "TMLEEstimator": "tmle",
    "TRCPOEstimator": "triply_robust",
    "StackedDREstimator": "stacked",
    "REGISTRY": "registry",
    "BestPolicy": "comparison",
    "Comparison": "comparison",
    "DirectEstimator": "direct",
    "EstimationResult": "result",
    "NaiveEstimator": "naive",
    "bootstrap_direct": "direct_bootstrap",
    "find_estimator": "registry",
}
__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
