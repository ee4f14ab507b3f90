"""The variance of identical labels: they show no spread, but their mean is not certain."""

from __future__ import annotations

__all__ = ["unseen_variance"]


def unseen_variance(n: float) -> float:
    r"""Variance assumed for n identical labels, which show none.

    A mean :math:`\mu` above a label at the bottom of the range gives n such labels with
    probability at most :math:`(1 - \mu)^n`, which is 2.5% at about :math:`3.69 / n`. The variance
    puts the normal limit there.

    Examples
    --------
    >>> round(1.96 * unseen_variance(50) ** 0.5, 4)  # 3.69 / 50
    0.0738
    """
    return float((3.69 / 1.96 / n) ** 2)
