r"""The labels' part of an off-policy estimate: a weighted mean residual, and how labels move it.

Every estimator here has the form

.. math:: \hat V = \sum_v s_v\, D_v + \hat c, \qquad
          \hat c = \frac{\sum_i (L_i/\pi_i) M_i (Y_i - f^{(-v(i))}(S_i))}{\sum_i (L_i/\pi_i) M_i}

where :math:`D_v` is the estimator's mean of fold model :math:`f^{(-v)}` over the target, and
:math:`s_v` the share of the label weight in fold v, so that any error of f common to both terms
cancels. M is m(S) = E[W | S] where the estimator takes E[Y | S] to carry over (less
variance, and the errors of f and of m enter as a product only), or W itself where it does not.

Seen from the labels it is one weighted mean, :math:`\hat V = \sum_i \omega_i x_i / \sum_i
\omega_i` with :math:`\omega_i = (L_i/\pi_i) M_i` and :math:`x_i = D_{v(i)} + Y_i -
f^{(-v(i))}(S_i)`: leaving a prompt's labels out, and their influence, follow from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cje.errors import CJEError
from cje.estimators.offpolicy.logged import LoggedRows
from cje.estimators.plug_in import label_influence
from cje.inference import jackknife_influence
from cje.kernels.arrays import FloatArray, IntArray
from cje.kernels.clusters import cluster_sums

__all__ = ["CalibrationSensitivity", "LabelTerm", "label_term", "through_calibration"]


@dataclass(frozen=True)
class LabelTerm:
    """The label part for K policies.

    Attributes
    ----------
    weight : array (m, K)
        Share of each labelled row in the label weight of each policy.
    residual : array (m, K)
        Y - f of the labelled rows.
    folds, clusters : int array (m,)
        Fold and prompt of each labelled row.
    design : array (m,)
        1 / propensity, summing to one.
    n_folds, n_clusters : int
    """

    weight: FloatArray
    residual: FloatArray
    folds: IntArray
    clusters: IntArray
    design: FloatArray
    n_folds: int
    n_clusters: int

    @property
    def shares(self) -> FloatArray:
        """(V, K) weight of the labels in each fold."""
        return cluster_sums(self.weight, self.folds, self.n_folds)

    @property
    def correction(self) -> FloatArray:
        """(K,) the weighted mean residual c."""
        return self.mean(self.residual)

    def by_prompt(self, rows: FloatArray) -> FloatArray:
        """(G, K) sums over the labels of each prompt."""
        return cluster_sums(rows, self.clusters, self.n_clusters)

    def spread(self, coefficients: FloatArray) -> FloatArray:
        """(G, K) weight of each prompt's labels times the standard deviation of a residual.

        The errors of one prompt's labels are taken as equal, which is conservative where they are
        not. The labels' influence through the calibration is left out: it is mostly noise of the
        blocks' masses, which out-of-fold residuals contain already.
        """
        sigma = np.sqrt(self.design @ self.residual**2)
        return self.by_prompt(coefficients * sigma)

    def pseudo_labels(self, fold_means: FloatArray) -> FloatArray:
        """(m, K) x: each label's estimate of the value, given the target's means (V, K) of f."""
        return np.asarray(fold_means[self.folds] + self.residual)

    def mean(self, pseudo: FloatArray) -> FloatArray:
        """(K,) weighted means of pseudo-labels: the estimates."""
        return np.asarray((self.weight * pseudo).sum(axis=0))

    def jackknife(self, pseudo: FloatArray) -> FloatArray:
        """(G, K) delete-one-prompt jackknife of the weighted means of pseudo-labels, by prompt.

        A label of share w moves the mean by w (x - mean) / (1 - w): heavy labels, which shrink
        their own residuals, count in full (HC3; MacKinnon & White 1985). The fold models are not
        refitted; the labels' influence through them is `through_calibration`.
        """
        prompts, left = self.left_means(pseudo)
        out = np.zeros((self.n_clusters, left.shape[1]))
        if len(prompts) >= 2:
            out[prompts] = jackknife_influence(left)
        return out

    def left_means(self, pseudo: FloatArray) -> tuple[IntArray, FloatArray]:
        """The labelled prompts (J,), and the weighted means of pseudo-labels without each."""
        prompts, at = np.unique(self.clusters, return_inverse=True)
        gone = cluster_sums(self.weight, at, len(prompts))
        moved = cluster_sums(self.weight * pseudo, at, len(prompts))
        return prompts, (moved.sum(axis=0) - moved) / np.maximum(1.0 - gone, 1e-12)


@dataclass(frozen=True)
class CalibrationSensitivity:
    r"""How labels move one target through the calibration.

    The label part makes an error of f cancel where the label weights w and the target's rows t put
    the same mass on every block of f. Where they do not (m(S) is estimated, and may be of the wrong
    shape), label j of block b moves the value by

    .. math:: \Big(\sum_{u \in b} t_u - \sum_{i \in b} w_i\Big) \frac{v_j}{\sum_{i \in b} v_i}
              (Y_j - f_j)

    besides :math:`w_j (Y_j - f_j)`: the sum over the labels does not contain it, since the
    residuals of a fold share the error of their model.

    Attributes
    ----------
    predicted, target : array (n,)
        f, fitted on all labels, of the rows that make up the target, and their weights t.
    fitted : array (m,)
        f of the labelled rows.
    calibrating : array (m,)
        Weights v with which f was fitted.
    at_labels : array (m,), optional
        Weights w, where they are not the label part's own.
    """

    predicted: FloatArray
    target: FloatArray
    fitted: FloatArray
    calibrating: FloatArray
    at_labels: FloatArray | None = None

    def coefficients(self, weight: FloatArray) -> FloatArray:
        """(m,) how far a unit of each label's residual moves the value, label weights `weight`."""
        w = weight if self.at_labels is None else self.at_labels
        return label_influence(
            np.concatenate([self.predicted, self.fitted]),
            np.concatenate([self.target, -w]),
            self.fitted,
            self.fitted + 1.0,
            self.calibrating,
        )


def through_calibration(
    term: LabelTerm, labels: FloatArray, sensitivities: Sequence[CalibrationSensitivity]
) -> FloatArray:
    """(m, K) what the labels move through the calibration."""
    columns = [
        one.coefficients(term.weight[:, k]) * (labels - one.fitted)
        for k, one in enumerate(sensitivities)
    ]
    return np.column_stack(columns)


def label_term(
    logged: LoggedRows, out_of_fold: FloatArray, weights: FloatArray, n_clusters: int
) -> LabelTerm:
    """Compute the label part.

    Parameters
    ----------
    out_of_fold : array (n,) or (n, K)
        f of every logged row by the model that saw no label of its fold.
    weights : array (n, K)
        M.
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
    return LabelTerm(
        omega / total,
        np.broadcast_to(residual, omega.shape),
        logged.folds[rows],
        logged.clusters[rows],
        1.0 / logged.propensity[rows] / (1.0 / logged.propensity[rows]).sum(),
        logged.n_folds,
        n_clusters,
    )
