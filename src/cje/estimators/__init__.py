"""Policy-value estimators: naive, direct, pairwise, IPS, doubly robust, stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cje._lazy import lazy_names

if TYPE_CHECKING:
    from cje.estimators.direct.bootstrap import bootstrap_direct as bootstrap_direct
    from cje.estimators.direct.estimator import DirectEstimator as DirectEstimator
    from cje.estimators.naive import NaiveEstimator as NaiveEstimator
    from cje.estimators.offpolicy.calibrated_ips import CalibratedIPS as CalibratedIPS
    from cje.estimators.offpolicy.doubly_robust import DRCPOEstimator as DRCPOEstimator
    from cje.estimators.offpolicy.importance import IPSEstimator as IPSEstimator
    from cje.estimators.offpolicy.importance import SNIPSEstimator as SNIPSEstimator
    from cje.estimators.offpolicy.mrdr import MRDREstimator as MRDREstimator
    from cje.estimators.offpolicy.stacked import StackedDREstimator as StackedDREstimator
    from cje.estimators.offpolicy.tmle import TMLEEstimator as TMLEEstimator
    from cje.estimators.offpolicy.triply_robust import TRCPOEstimator as TRCPOEstimator
    from cje.estimators.pairwise.estimator import PairwiseEstimator as PairwiseEstimator
    from cje.estimators.registry import REGISTRY as REGISTRY
    from cje.estimators.registry import find_estimator as find_estimator
    from cje.results.comparison import BestPolicy as BestPolicy
    from cje.results.comparison import Comparison as Comparison
    from cje.results.result import EstimationResult as EstimationResult

# Public name -> module. Loaded on first use: most sessions need one estimator.
_HOME = {
    "CalibratedIPS": "offpolicy.calibrated_ips",
    "IPSEstimator": "offpolicy.importance",
    "SNIPSEstimator": "offpolicy.importance",
    "DRCPOEstimator": "offpolicy.doubly_robust",
    "MRDREstimator": "offpolicy.mrdr",
    "TMLEEstimator": "offpolicy.tmle",
    "TRCPOEstimator": "offpolicy.triply_robust",
    "StackedDREstimator": "offpolicy.stacked",
    "REGISTRY": "registry",
    "BestPolicy": "cje.results.comparison",
    "Comparison": "cje.results.comparison",
    "EstimationResult": "cje.results.result",
    "DirectEstimator": "direct.estimator",
    "NaiveEstimator": "naive",
    "PairwiseEstimator": "pairwise.estimator",
    "bootstrap_direct": "direct.bootstrap",
    "find_estimator": "registry",
}
__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME, __all__)
