"""How many labels until an anytime interval leaves a threshold."""

from __future__ import annotations

import numpy as np

from cje.inference.sequential.anytime import AnytimeRule

__all__ = ["labels_to_decision"]

_MOST_LABELS = 10_000_000


def labels_to_decision(
    gap: float,
    label_variance: float,
    fixed_variance: float,
    count: int,
    rule: AnytimeRule,
) -> int | None:
    r"""Labels in all at which the interval leaves the threshold, at the present estimate.

    The smallest n with :math:`q(n) \sqrt{v_L\,n_0/n + v_F} \le |gap|`.

    Parameters
    ----------
    gap : float
        Present estimate minus threshold.
    label_variance, fixed_variance : float
        The parts of the variance that shrink with labels, after `count` of them, and that do not.

    Returns
    -------
    int or None
        None where no number (within the horizon, if there is one) decides.
    """
    last = rule.tuned_at if rule.method == "spending" else _MOST_LABELS
    n = np.unique(np.geomspace(max(count, rule.first_look), max(last, count), 2_000).astype(int))
    n = n[n <= last]
    if gap == 0.0 or not len(n):
        return None
    half = rule.critical_value(n) * np.sqrt(label_variance * count / n + fixed_variance)
    enough = np.flatnonzero(half <= abs(gap))
    return int(n[enough[0]]) if len(enough) else None
