"""LLM judges that answer with a verdict: from token probabilities to calibrated `JudgeScores`.

A judge asked for a grade puts probability on each verdict token ("1" .. "5", "good"/"bad"). That
distribution is a classifier's output, and is calibrated as one: against the verdicts of people or
of a better judge on some of the responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import check_choice, check_weights, float_array
from cje.classification._arrays import check_distribution
from cje.classification._labels import frame_names, label_array, lookup, same_order, top_class
from cje.classification.calibrators import resolve_calibrator
from cje.classification.m2b import (
    apply_class_wise,
    check_min_count,
    fit_class_wise,
    fit_top_label,
    replace_top,
)
from cje.classification.verdict_tokens import verdict_distribution
from cje.data.judge_score import JudgeScores
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["VerdictCalibrator"]


class VerdictCalibrator:
    r"""Calibrate a judge's distribution over verdicts, and turn it into means and variances.

    Parameters
    ----------
    values : mapping from verdict to number
        Each verdict's place on the [0, 1] scale, in the order of the columns, such as
        ``{"bad": 0.0, "fair": 0.5, "good": 1.0}``.
    calibrator : str or object
        As in `TopLabelCalibrator`.
    reduction : {"top-label", "confidence", "class-wise"}
        Which probabilities are calibrated.
    min_count : float
        Verdicts that are the most probable one of fewer labelled responses share one map
        (top-label only).

    Notes
    -----
    With calibrated probabilities :math:`q_k` and values :math:`v_k` the score has mean
    :math:`\sum q_k v_k` and variance :math:`\sum q_k v_k^2 - (\sum q_k v_k)^2`: the judge's own
    uncertainty about the verdict, which later intervals can include.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([1.0, 1.0], size=200)
    >>> truth = np.where(rng.random(200) < 0.5 + 0.5 * (p[:, 1] - 0.5), "good", "bad")
    >>> judge = VerdictCalibrator({"bad": 0.0, "good": 1.0}).fit(p, truth)
    >>> scores = judge.scores(p)
    >>> scores[0].variance <= 0.25
    True
    """

    def __init__(
        self,
        values: Mapping[Any, float],
        *,
        calibrator: Any = "sigmoid",
        reduction: Literal["top-label", "confidence", "class-wise"] = "top-label",
        min_count: float = 20,
    ) -> None:
        if not isinstance(values, Mapping):
            raise CJEError("values must map each verdict to a number", value=values)
        self.verdicts = list(values)
        self.values = float_array("values", list(values.values()))
        if len(self.values) < 2 or not ((self.values >= 0.0) & (self.values <= 1.0)).all():
            raise CJEError(
                "values must place at least two verdicts on [0, 1]",
                value=dict(values),
                hint="map the judge's scale first, e.g. (grade - 1) / 4 for grades 1 to 5",
            )
        check_choice("reduction", reduction, ("top-label", "confidence", "class-wise"))
        check_min_count(min_count)
        self.calibrator = resolve_calibrator(calibrator, len(self.values))
        self.reduction = reduction
        self.min_count = min_count

    def fit(
        self,
        distribution: Any,
        verdicts: Sequence[Any] | ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> VerdictCalibrator:
        """Fit on labelled responses.

        Parameters
        ----------
        distribution : array or data frame (n, K), or sequence of n mappings token -> log-prob
            The judge's probability of each verdict; rows sum to one, and the columns of a data
            frame are named after the verdicts. Or the log-probs of the verdict token as the server
            lists them (`verdict_distribution`).
        verdicts : array (n,)
            The verdict each response deserves.
        sample_weight : array (n,), optional
        """
        p = self._check(distribution)
        truth = label_array(verdicts, "verdicts")
        if truth.shape != (len(p),):
            raise CJEError("verdicts must hold one label per response", value=truth.shape)
        codes = lookup(truth, np.asarray(self.verdicts))
        w = check_weights("sample_weight", sample_weight, len(p))
        if self.reduction == "class-wise":
            self._columns = fit_class_wise(p, codes, w, self.calibrator)
        else:
            few = float("inf") if self.reduction == "confidence" else float(self.min_count)
            labels, scores = top_class(p)
            self._top = fit_top_label(labels, scores, codes, p.shape[1], w, self.calibrator, few)
        return self

    def _check(self, distribution: Any) -> FloatArray:
        if _are_logprobs(distribution):
            return verdict_distribution(distribution, self.verdicts).probability
        p = check_distribution(distribution, where="the judge's distribution")
        names = frame_names(distribution)
        order = None if names is None else same_order(names, self.verdicts)
        if order is not None:
            p = p[:, order]
        elif names is not None:
            raise CJEError(
                "the columns of the judge's distribution are not named after the verdicts",
                value=names, hint=f"rename them to {self.verdicts}, or pass an array",
            )  # fmt: skip
        if p.shape[1] != len(self.values):
            raise CJEError(
                f"the judge's distribution has {p.shape[1]} columns, and there are "
                f"{len(self.values)} verdicts",
                value=self.verdicts,
            )
        return p

    def calibrate(self, distribution: Any) -> FloatArray:
        """Calibrated distribution over the verdicts, (n, K)."""
        p = self._check(distribution)
        class_wise = self.reduction == "class-wise"
        if not hasattr(self, "_columns" if class_wise else "_top"):
            raise CJEError("this calibrator is not fitted", hint="call fit first")
        if class_wise:
            return apply_class_wise(self._columns, p)
        labels, scores = top_class(p)
        return replace_top(p, labels, self._top.confidence(labels, scores))

    def scores(self, distribution: Any) -> JudgeScores:
        """Calibrated mean and variance of each response's verdict."""
        q = self.calibrate(distribution)
        q = q / q.sum(axis=1, keepdims=True)  # rounding must not leave [0, 1]
        mean = np.clip(q @ self.values, 0.0, 1.0)
        spread = (q * (self.values[None, :] - mean[:, None]) ** 2).sum(axis=1)
        return JudgeScores(mean, np.minimum(spread, mean * (1.0 - mean)))


def _are_logprobs(distribution: Any) -> bool:
    """Whether these are mappings from token to log-prob, one per response."""
    return (
        isinstance(distribution, Sequence)
        and all(isinstance(entry, Mapping) for entry in distribution)
        and len(distribution) > 0
    )
