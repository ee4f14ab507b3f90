"""Optimism-corrected calibration by the bootstrap, for anything with fit and predict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from cje.checks import check_probabilities, check_seed, check_whole_number, finite_array
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.survival.discrimination import harrell_c
from cje.survival.ici import integrated_calibration_index
from cje.survival.in_the_large import calibration_in_the_large
from cje.survival.sample import check_horizon, cluster_codes, survival_sample
from cje.survival.slope import calibration_slope, from_survival

__all__ = ["OptimismCorrected", "SurvivalModel", "optimism_corrected"]


class SurvivalModel(Protocol):
    """What a model must offer."""

    def fit(self, x: FloatArray, time: FloatArray, event: BoolArray) -> Self:
        """Train and return the model."""
        ...

    def predict_survival(self, x: FloatArray, times: FloatArray) -> FloatArray:
        """Survival probabilities, (rows of x, times)."""
        ...


@dataclass(frozen=True)
class OptimismCorrected:
    """A metric as it appears on the training data, its optimism, and their difference.

    `standard_error` is that of the optimism's Monte Carlo mean, not of the metric. For ICI,
    optimism is measured on squares above the noise floor (see `optimism_corrected`).
    """

    apparent: float
    optimism: float
    corrected: float
    standard_error: float
    n_bootstrap: int

    def __float__(self) -> float:
        return self.corrected


def own_survival(
    model: SurvivalModel, x: FloatArray, time: FloatArray, *, max_columns: int = 200
) -> FloatArray:
    """S(T_i|x_i) through the model's survival matrix, in blocks that keep the matrix small."""
    order = np.argsort(time, kind="stable")
    out = np.empty(len(time))
    for start in range(0, len(order), max_columns):
        rows = order[start : start + max_columns]
        distinct, column = np.unique(time[rows], return_inverse=True)
        matrix = _predicted(model, x[rows], distinct)
        out[rows] = matrix[np.arange(len(rows)), column]
    return out


def _predicted(model: SurvivalModel, x: FloatArray, times: FloatArray) -> FloatArray:
    """The survival matrix of a model of any origin, checked."""
    matrix = check_probabilities("predict_survival", model.predict_survival(x, times), ndim=2)
    if matrix.shape != (len(x), len(times)):
        raise CJEError("predict_survival must give one row per subject and one column per time",
                       value=matrix.shape, hint=f"expected {(len(x), len(times))}")  # fmt: skip
    return matrix


def model_metrics(
    model: SurvivalModel,
    x: FloatArray,
    time: FloatArray,
    event: BoolArray,
    horizon: float,
    subject: IntArray | None = None,
) -> dict[str, float]:
    """O/E, slope, ICI, its squared excess over the noise floor, and Harrell's C on data.

    `subject` is the subject or cluster of each row, so that copies and rows of one cluster are not
    taken for independent rows in the noise floor.

    The risk is ``model.predict_log_risk(x)`` where the model has one, else cloglog of its survival
    at the horizon.
    """
    at_t = _predicted(model, x, np.array([horizon]))[:, 0]
    own_score = getattr(model, "predict_log_risk", None)
    score = from_survival(at_t) if own_score is None else np.asarray(own_score(x))
    ici = integrated_calibration_index(at_t, time, event, horizon, groups=subject)
    own = own_survival(model, x, time)
    return {
        "in_the_large": calibration_in_the_large(own, event, strict=True).value,
        "slope": calibration_slope(score, time, event, strict=True).value,
        "ici": ici.value,
        "excess": ici.value**2 - ici.null_reference**2,
        "c": harrell_c(score, time, event).value,
    }


def optimism_corrected(
    make_model: Callable[[], SurvivalModel],
    x: FloatArray,
    event_times: FloatArray,
    event_indicators: BoolArray,
    time_horizon: float | None = None,
    *,
    groups: Any = None,
    n_bootstrap: int = 100,
    seed: int = 0,
) -> dict[str, OptimismCorrected]:
    r"""Apparent performance less its bootstrap optimism (Harrell, Lee & Mark 1996).

    .. math:: \text{corrected} = A - \frac1B\sum_b \big[M(f_b; D_b) - M(f_b; D)\big]

    where :math:`f_b` is the model refitted on the bootstrap sample :math:`D_b`.

    ICI is corrected on another scale. Noise alone keeps it above zero, and a bootstrap sample
    contains the noise of the original data and its own, so that its plain optimism has the wrong
    sign. With :math:`e = ICI^2 - N^2`, where N is the null reference (by subject in :math:`D_b`),
    which averages to the squared miscalibration: :math:`\text{corrected}^2 = A^2 - \frac1B\sum_b
    [e(f_b;D_b)-e(f_b;D)]`.

    Parameters
    ----------
    make_model : callable
        Returns a fresh, unfitted `SurvivalModel`.
    x : array (n, p)
    groups : array of labels (n,), optional
        Cluster of each row: whole clusters are resampled.

    Returns
    -------
    dict
        ``in_the_large``, ``slope``, ``ici``, ``c``.

    Raises
    ------
    CJEError
        Invalid input; a bootstrap sample on which the model or a metric is undefined.
    """
    if not callable(make_model) or not hasattr(make_model(), "fit"):
        raise CJEError("make_model must return a fresh model when called", value=make_model)
    sample = survival_sample(event_times, event_indicators, groups=groups)
    horizon = check_horizon(time_horizon, sample)
    check_whole_number("n_bootstrap", n_bootstrap, least=2, most=1_000_000)
    rng = check_seed(seed)
    covariates = finite_array("x", x, n=len(sample), ndim=2)
    # rows that tie in every column are interchangeable: their order changes no bootstrap sample
    order = np.lexsort((*covariates.T, sample.event, sample.time))
    covariates, time, event = covariates[order], sample.time[order], sample.event[order]
    code = cluster_codes(sample, order)
    members = np.split(np.argsort(code, kind="stable"), np.cumsum(np.bincount(code))[:-1])
    subject = None if sample.cluster is None else code
    apparent = model_metrics(
        make_model().fit(covariates, time, event), covariates, time, event, horizon, subject
    )
    gaps: dict[str, list[float]] = {name: [] for name in apparent}
    for draw in range(n_bootstrap):
        rows = np.concatenate([members[k] for k in rng.integers(0, len(members), len(members))])
        try:
            model = make_model().fit(covariates[rows], time[rows], event[rows])
            inside = model_metrics(
                model, covariates[rows], time[rows], event[rows], horizon, code[rows]
            )
            outside = model_metrics(model, covariates, time, event, horizon, subject)
        except CJEError as error:
            raise CJEError(
                f"a bootstrap sample cannot be assessed: {error.what}",
                where=f"sample {draw + 1} of {n_bootstrap}",
                hint="the data are too few for this model or horizon: fewer covariates, "
                "more events or an earlier horizon",
            ) from error
        for name, values in gaps.items():
            values.append(inside[name] - outside[name])
    corrected = {name: _corrected(apparent[name], values) for name, values in gaps.items()}
    excess = corrected.pop("excess")
    corrected["ici"] = _above_floor(apparent["ici"], excess)
    return corrected


def _corrected(apparent: float, gaps: list[float]) -> OptimismCorrected:
    mean = float(np.mean(gaps))
    error = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps)))
    return OptimismCorrected(apparent, mean, apparent - mean, error, len(gaps))


def _above_floor(apparent: float, excess: OptimismCorrected) -> OptimismCorrected:
    """ICI less an optimism known on the scale of its square."""
    corrected = float(np.sqrt(max(apparent**2 - excess.optimism, 0.0)))
    error = excess.standard_error / (2.0 * max(corrected, 1e-12))
    return OptimismCorrected(apparent, apparent - corrected, corrected, error, excess.n_bootstrap)
