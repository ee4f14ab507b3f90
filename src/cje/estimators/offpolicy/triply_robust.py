"""`tr-cpo`: the doubly robust value with labels weighted by W, which does not borrow E[Y | S]."""

from __future__ import annotations

from typing import ClassVar

from cje.estimators.offpolicy.doubly_robust import DRCPOEstimator

__all__ = ["TRCPOEstimator"]


class TRCPOEstimator(DRCPOEstimator):
    r"""Triply robust: doubly robust plus :math:`(L / \pi_L(S))\, W (Y - f(S))`.

    .. math:: \hat V = \sum_v s_v \overline{f^{(-v)}(\text{fresh})}
              + \frac{\sum_i (L_i/\pi_i) W_i (Y_i - f^{(-v(i))}(S_i))}{\sum_i (L_i/\pi_i) W_i}

    Right where the weights and the labelling propensity are right, whatever f is; and where f is
    right and carries over, whatever the weights are. The label term is in the influence function:
    no jackknife is added to it.

    Notes
    -----
    Parameters as in `DRCPOEstimator`. With its default outcome model and labels weighted by W
    `dr-cpo` gives the same value and interval; there the labels count as oracle uncertainty.
    """

    name: ClassVar[str] = "tr-cpo"
    labels_in_sample: ClassVar[bool] = True
    heavy_tail_refuses: bool = True
