r"""Published overlap diagnostics beside the effective sample size (Landesberg & Narayan 2025).

With T the responses that are typical of the target, those whose surprisal :math:`-\log \pi'(a|x)` is at most its 90%
quantile under the target, the *target-typicality coverage* is :math:`\beta = P_{\pi_0}(T)`, the share of logged rows
in T, and no estimate from the log alone has a standard error below

.. math:: \frac{\sigma_T\, \alpha}{\sqrt{\beta n}} \sqrt{1 + \chi^2_T}, \qquad \alpha = P_{\pi'}(T).

What they add to the effective sample size is where it is lost, not whether: by Cauchy-Schwarz
:math:`\beta \ge \alpha^2\, ESS/n`, in every sample, so a coverage below 0.70 (the paper's limit) implies that the
effective sample size of the *raw* weights is below 87% of the rows. Where the logging policy never answered like the target, the
weights of what it did answer can be even, and ESS and coverage both look healthy; the mean of the unnormalised
weights, then below one, is what shows it (`support-truncated`).

References
----------
Landesberg & Narayan (2025), Causal Judge Evaluation, arXiv:2512.11150; Bhattacharyya (1943).
"""  # noqa: E501

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import LARGEST, finite_array
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["TYPICAL_MASS", "Typicality", "target_typicality"]


# The paper's limit. No finding uses it; with 0.45 in its place coverage and mass fall together.
TYPICAL_MASS = 0.9


@dataclass(frozen=True)
class Typicality:
    r"""How much of the log looks like the target's typical responses.

    Attributes
    ----------
    coverage : float
        :math:`\beta`, the share of logged rows that are typical of the target.
    mass : float
        :math:`\alpha`, the target's own share of them (about `TYPICAL_MASS`).
    affinity : float
        Bhattacharyya's :math:`E_{\pi_0}[\sqrt{W}]` of the mean-one weights: 1 where the policies are the same.
    shape : float
        :math:`\sqrt{1 + \chi^2_T}`, how uneven the weights are among typical rows.
    floor : float
        :math:`\alpha \sqrt{1 + \chi^2_T} / \sqrt{\beta}`: the standard error of an estimate from
        the log is at least this many times that of the same number of labels on responses of the
        target.
    """  # noqa: E501

    coverage: float
    mass: float
    affinity: float
    shape: float
    floor: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def target_typicality(
    target_logprob: ArrayLike, log_ratio: ArrayLike, lengths: ArrayLike | None = None
) -> Typicality:
    r"""Target-typicality coverage and related diagnostics, from logged rows.

    Parameters
    ----------
    target_logprob, log_ratio : array (n,)
        :math:`\log \pi'(a|x)` of every logged response, and its difference to the logging policy's.
    lengths : array (n,), optional
        Tokens of every response: surprisal is then per token, as published. Without them typical responses are mostly
        the short ones.

    Examples
    --------
    >>> same = target_typicality(np.arange(-100.0, 0.0), np.zeros(100))
    >>> same.coverage, same.affinity, round(same.floor, 3)
    (0.9, 1.0, 0.949)
    """  # noqa: E501
    log_p = finite_array("target_logprob", target_logprob, ndim=1, largest=LARGEST)
    ratio = finite_array("log_ratio", log_ratio, ndim=1, largest=LARGEST)
    if len(log_p) != len(ratio) or not len(ratio):
        raise CJEError("one log-prob and one log-ratio per row", value=(len(log_p), len(ratio)))
    surprisal = -log_p
    if lengths is not None:
        n_tokens = finite_array("lengths", lengths, ndim=1, largest=LARGEST)
        if n_tokens.shape != log_p.shape or n_tokens.min() <= 0.0:
            raise CJEError("one positive length per row", value=n_tokens.shape)
        surprisal = surprisal / n_tokens
    weight = np.exp(ratio - ratio.max())
    weight /= weight.mean()
    inside = surprisal <= _quantile(surprisal, weight)
    coverage, mass = float(inside.mean()), float(weight[inside].sum() / len(weight))
    squares = float((weight[inside] ** 2).mean())
    shape = np.sqrt(squares) / float(weight[inside].mean())
    affinity = min(float(np.sqrt(weight).mean()), 1.0)
    return Typicality(coverage, mass, affinity, float(shape), float(mass * shape / coverage**0.5))


def _quantile(surprisal: FloatArray, weight: FloatArray) -> float:
    """The surprisal below which the target has `TYPICAL_MASS` of its responses."""
    order = np.argsort(surprisal, kind="stable")
    below = np.cumsum(weight[order])
    at = int(np.searchsorted(below, TYPICAL_MASS * below[-1] * (1.0 - 1e-12)))
    return float(surprisal[order[min(at, len(order) - 1)]])
