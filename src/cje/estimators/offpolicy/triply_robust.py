"""`tr-cpo`: the doubly robust value with labels weighted by W, which does not borrow E[Y | S]."""

from __future__ import annotations

from typing import Any, ClassVar

from cje.checks import check_choice
from cje.estimators.offpolicy.base import LABEL_WEIGHTS
from cje.estimators.offpolicy.doubly_robust import DRCPOEstimator
from cje.estimators.offpolicy.problem import Problem
from cje.kernels.arrays import FloatArray

__all__ = ["TRCPOEstimator"]


class TRCPOEstimator(DRCPOEstimator):
    r"""Triply robust: doubly robust plus :math:`(L / \pi_L(S))\, W (Y - f(S))`.

    .. math:: \hat V = \sum_v s_v \overline{f^{(-v)}(\text{fresh})}
              + \frac{\sum_i (L_i/\pi_i) W_i (Y_i - f^{(-v(i))}(S_i))}{\sum_i (L_i/\pi_i) W_i}

    Right where the weights and the labelling propensity are right, whatever f is; and where f is
    right and carries over, whatever the weights are. The label term is in the influence function:
    no jackknife is added to it.

    Parameters
    ----------
    label_weight : {"raw", "projected"}
        W, or m(S) = E[W | S] in its place: less variance, but unbiased only if W and Y are
        uncorrelated given S (a length-biased judge breaks it).

    Notes
    -----
    Other parameters as in `DRCPOEstimator`.
    """

    name: ClassVar[str] = "tr-cpo"
    heavy_tail_refuses: bool = True

    def __init__(self, *args: Any, label_weight: str = "raw", **options: Any) -> None:
        check_choice("label_weight", label_weight, LABEL_WEIGHTS)
        super().__init__(*args, **options)
        self.label_weight = label_weight

    def label_weights(self, problem: Problem) -> tuple[FloatArray, bool]:
        if self.label_weight == "projected":
            return problem.projected, True
        return problem.logged.weights, True
