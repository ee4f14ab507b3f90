r"""The labels' part of an off-policy estimate: a weighted mean residual, and how labels move it.

Every estimator here has the form

.. math:: \hat V = \sum_v s_v\, D_v + \hat c, \qquad
          \hat c = \frac{\sum_i (L_i/\pi_i) M_i (Y_i - f^{(-v(i))}(S_i))}{\sum_i (L_i/\pi_i) M_i}

where :math:`D_v` is the estimator's mean of fold model :math:`f^{(-v)}` over the target, and
:math:`s_v` the share of the label weight in fold v, so that any error of f common to both terms
cancels. M is m(S) = E[W | S] where the estimator takes E[Y | S] to carry over (less
variance, and the errors of f and of m enter as a product only), or W itself where it does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cje.errors import CJEError
from cje.estimators.logged import LoggedRows
from cje.kernels.clusters import cluster_sums

__all__ = ["LabelTerm", "label_term"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MAX_LEVERAGE = 0.9
# Residuals of cross-fitted models are correlated through the training sets they share, which a sum
# of squares does not see. The constant was chosen, not derived: without it intervals from 50 labels
# covered 0.92-0.94 in benchmarks/coverage_offpolicy.py, with it about 0.95 (the same cells, which
# are therefore no independent check of it).
_CROSS_FIT_EXCESS = 5.0


@dataclass(frozen=True)
class LabelTerm:
    """The label part for K policies.

    Attributes
    ----------
    shares : array (V, K)
        Weight of the labels in each fold.
    correction : array (K,)
        The weighted mean residual c.
    influence : array (G, K)
        Of c, by prompt.
    left_shares : array (J, V, K), left_correction : array (J, K)
        Both without each group of labelled prompts.
    effective_labels : array (K,)
        Kish's effective number of labels behind c.
    """

    shares: FloatArray
    correction: FloatArray
    influence: FloatArray
    left_shares: FloatArray
    left_correction: FloatArray
    effective_labels: FloatArray

    @property
    def inflation(self) -> FloatArray:
        """(K,) factor on standard errors for the dependence between cross-fitted residuals."""
        return np.sqrt(1.0 + _CROSS_FIT_EXCESS / self.effective_labels)

    def values(self, fold_means: FloatArray) -> FloatArray:
        """(K,) estimates from the target's means (V, K) of the fold models."""
        return np.asarray((self.shares * fold_means).sum(axis=0) + self.correction)

    def leave_out(self, fold_means: FloatArray) -> FloatArray:
        """(J, K) estimates without each group of labels.

        The fold models stay as they are: the estimate does not depend on them to first order.
        """
        left = np.einsum("jvk,vk->jk", self.left_shares, fold_means) + self.left_correction
        centre = self.values(fold_means)
        return np.asarray(centre + self.inflation * (left - centre))


def label_term(
    logged: LoggedRows,
    out_of_fold: FloatArray,
    weights: FloatArray,
    groups: IntArray,
    n_clusters: int,
) -> LabelTerm:
    """Compute the label part.

    Parameters
    ----------
    out_of_fold : array (n,) or (n, K)
        f of every logged row by the model that saw no label of its fold.
    weights : array (n, K)
        M.
    groups : int array (n_labelled,)
        Jackknife group of each labelled row.
    """
    rows = np.flatnonzero(logged.labelled)
    omega = weights[rows] / logged.propensity[rows][:, None]
    total = omega.sum(axis=0)
    if not (total > 0).all():
        name = logged.policies[int(np.argmin(total))]
        raise CJEError(
            "every labelled row has weight zero under this policy",
            where=name,
            hint="label more logged rows, or draw fresh responses and use the direct method",
        )
    fitted = out_of_fold[rows]
    residual = logged.labels[rows][:, None] - (fitted[:, None] if fitted.ndim == 1 else fitted)
    weighted = omega * residual
    correction = weighted.sum(axis=0) / total
    share = omega / total
    hc2 = 1.0 / np.sqrt(1.0 - np.minimum(share, _MAX_LEVERAGE))
    effective = total**2 / (omega**2).sum(axis=0)
    influence = share * (residual - correction) * hc2 * np.sqrt(1.0 + _CROSS_FIT_EXCESS / effective)

    n_groups, v = int(groups.max()) + 1, logged.n_folds
    cell = groups * v + logged.folds[rows]
    mass = cluster_sums(omega, cell, n_groups * v).reshape(n_groups, v, -1)
    by_fold = mass.sum(axis=0)
    left_total = np.maximum(total - mass.sum(axis=1), 1e-300)
    return LabelTerm(
        shares=by_fold / total,
        correction=correction,
        influence=cluster_sums(influence, logged.clusters[rows], n_clusters),
        left_shares=(by_fold - mass) / left_total[:, None, :],
        left_correction=(weighted.sum(axis=0) - cluster_sums(weighted, groups, n_groups))
        / left_total,
        effective_labels=effective,
    )
