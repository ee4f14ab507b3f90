"""Effective sample size of weights."""

from __future__ import annotations

from cje.kernels.arrays import FloatArray

__all__ = ["effective_sample_size"]


def effective_sample_size(weights: FloatArray) -> float:
    r"""Kish's effective sample size, :math:`(\sum w)^2 / \sum w^2`; zero where all weights are.

    Examples
    --------
    >>> import numpy as np
    >>> effective_sample_size(np.array([1.0, 1.0, 0.0, 0.0]))
    2.0
    """
    top = float(weights.max(initial=0.0))
    if top == 0.0:
        return 0.0
    scaled = weights / top
    return float(scaled.sum() ** 2 / (scaled @ scaled))
