"""Decisions on an anytime interval: pass, fail, or keep labelling."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cje.errors import CJEError
from cje.inference.intervals import Interval
from cje.inference.sequential.anytime import AnytimeRule

__all__ = ["Decision", "Verdict", "decide", "labels_to_decision"]

_MOST_LABELS = 10_000_000


class Verdict(StrEnum):
    """What an interval says about a threshold."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "keep labelling"


@dataclass(frozen=True)
class Decision:
    """A verdict, and what it rests on.

    Attributes
    ----------
    verdict : Verdict
    threshold : float
        The value (or difference) that must be exceeded.
    interval : Interval
    more_labels : int or None
        While undecided: labels still needed if the present estimate is right; None where no number
        of labels decides (the estimate lies at the threshold, or the judged rows are too few).
    """

    verdict: Verdict
    threshold: float
    interval: Interval
    more_labels: int | None = None


def decide(interval: Interval, threshold: float) -> Verdict:
    """PASS where the interval lies above `threshold`, FAIL where it lies below.

    On an anytime interval both errors together stay below ``1 - level``, however often one looks.
    A gate "at most 0.02 worse" has the threshold -0.02 on the difference; "better" has 0.

    Examples
    --------
    >>> decide(Interval(-0.01, 0.05), -0.02)
    <Verdict.PASS: 'pass'>
    """
    if not np.isfinite(threshold):
        raise CJEError("a threshold must be finite", value=threshold)
    if interval.low > threshold:
        return Verdict.PASS
    return Verdict.FAIL if interval.high < threshold else Verdict.UNDECIDED


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
