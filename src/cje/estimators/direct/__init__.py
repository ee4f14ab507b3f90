"""Direct estimation: responses of every policy are available; labels on a slice correct the judge.

`estimator` holds the class; the other modules hold its parts. For logged log-probs see
`cje.estimators.offpolicy`.
"""

from cje.estimators.direct.estimator import DirectEstimator

__all__ = ["DirectEstimator"]
