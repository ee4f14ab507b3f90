r"""Calibration of the whole distribution: softmax temperature and vector scaling.

With :math:`z_{ik} = \log p_{ik}` the maps are

.. math:: q_i = \operatorname{softmax}(\beta z_i) \qquad \text{and} \qquad
          q_{ik} \propto \exp((\beta + a_k) z_{ik} + b_k) ,

fitted by maximum likelihood. Vector scaling has a coefficient and an intercept per class, too many
for rare classes, so it is shrunk towards temperature scaling: the mean negative log-likelihood has
:math:`\frac{1}{2n}\sum_k (a_k^2/\tau_a^2 + b_k^2/\tau_b^2)` added, normal priors of standard
deviation :math:`\tau_a` and :math:`\tau_b`. Their weight falls as rows are added. Both problems are
convex.

References
----------
Guo, Pleiss, Sun and Weinberger (2017), "On calibration of modern neural networks". Berta,
Holzmüller, Jordan and Bach (2025), "Structured matrix scaling for multi-class calibration" (the
idea of shrinking a larger map towards a smaller one).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["SoftmaxMap", "fit_temperature", "fit_vector"]

_EDGE = 1e-12  # a probability of zero has no logarithm
_LOWEST, _HIGHEST = 1e-2, 1e2  # of the inverse temperature
_SCALE_SD, _SHIFT_SD = 0.25, 1.0  # prior standard deviations of a_k and b_k


@dataclass(frozen=True)
class SoftmaxMap:
    """A fitted map: a coefficient and an intercept of each class's log-probability."""

    slope: FloatArray
    intercept: FloatArray

    def apply(self, p: FloatArray) -> FloatArray:
        """Calibrated distributions."""
        return np.asarray(softmax(_logs(p) * self.slope + self.intercept, axis=1))


def _logs(p: FloatArray) -> FloatArray:
    """Centred log-probabilities."""
    z = np.log(np.maximum(p, _EDGE))
    return np.asarray(z - z.mean(axis=1, keepdims=True))


def _share(n: int, w: FloatArray | None) -> FloatArray:
    return np.full(n, 1.0 / n) if w is None else w / w.sum()


def fit_temperature(p: FloatArray, codes: IntArray, w: FloatArray | None) -> SoftmaxMap:
    """Maximum likelihood of one inverse temperature between 0.01 and 100, by Newton's method."""
    z, share = _logs(p), _share(len(p), w)
    chosen = float(share @ z[np.arange(len(p)), codes])
    beta = 1.0
    for _ in range(100):
        q = softmax(beta * z, axis=1)
        mean = np.einsum("ik,ik->i", q, z)
        slope = float(share @ mean) - chosen
        curvature = float(share @ (np.einsum("ik,ik->i", q, z**2) - mean**2))
        if abs(slope) <= 1e-12 or curvature <= 0.0:
            break
        # A step of more than a factor of two may leave the range where the loss is quadratic.
        step = float(np.clip(beta - slope / curvature, beta / 2.0, beta * 2.0))
        step = float(np.clip(step, _LOWEST, _HIGHEST))
        if abs(step - beta) <= 1e-12 * beta:
            break
        beta = step
    k = p.shape[1]
    return SoftmaxMap(np.full(k, beta), np.zeros(k))


def fit_vector(p: FloatArray, codes: IntArray, w: FloatArray | None) -> SoftmaxMap:
    """Penalised maximum likelihood of vector scaling, from the temperature's fit on."""
    z, share = _logs(p), _share(len(p), w)
    n, k = z.shape
    rows = float(len(p) if w is None else w.sum())
    truth = np.zeros((n, k))
    truth[np.arange(n), codes] = 1.0
    ridge = np.concatenate(
        ([0.0], np.full(k, 1.0 / _SCALE_SD**2), np.full(k, 1.0 / _SHIFT_SD**2))
    ) / rows  # fmt: skip

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        score = z * (theta[0] + theta[1 : k + 1]) + theta[k + 1 :]
        total = logsumexp(score, axis=1)
        value = float(share @ (total - score[np.arange(n), codes]))
        error = share[:, None] * (np.exp(score - total[:, None]) - truth)
        by_class = (error * z).sum(axis=0)
        gradient = np.concatenate(([by_class.sum()], by_class, error.sum(axis=0)))
        return value + 0.5 * float(ridge @ theta**2), gradient + ridge * theta

    start = np.zeros(2 * k + 1)
    start[0] = fit_temperature(p, codes, w).slope[0]
    found = minimize(loss, start, jac=True, method="L-BFGS-B",
                     bounds=[(_LOWEST, _HIGHEST)] + [(None, None)] * (2 * k),
                     options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-8})  # fmt: skip
    if not np.isfinite(found.fun):
        raise CJEError("vector scaling found no finite optimum", value=float(found.fun))
    return SoftmaxMap(found.x[0] + found.x[1 : k + 1], found.x[k + 1 :])
