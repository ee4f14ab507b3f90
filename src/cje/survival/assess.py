"""`survival_report`: every metric of a survival model, in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from cje.checks import check_level, check_probabilities, finite_array
from cje.errors import CJEError
from cje.hints import by_interface
from cje.kernels.arrays import FloatArray
from cje.report import Report
from cje.survival.assessed import HorizonView, SurvivalReport
from cje.survival.brier import brier_score, index_of_prediction_accuracy
from cje.survival.discrimination import harrell_c, time_dependent_auc
from cje.survival.ici import integrated_calibration_index
from cje.survival.in_the_large import calibration_in_the_large, observed_expected_at_horizon
from cje.survival.net_benefit import NetBenefit, net_benefit, risk_groups
from cje.survival.predictions import Predictions, read_follow_up, read_predictions
from cje.survival.report import metrics_report
from cje.survival.result import MetricEstimate
from cje.survival.sample import SurvivalSample, check_horizon, survival_sample
from cje.survival.slope import calibration_slope, from_survival

__all__ = ["survival_report"]


@overload
def survival_report(
    predictions: Sequence[MetricEstimate], *, title: str = ..., subtitle: str = ...
) -> Report: ...
@overload
def survival_report(
    predictions: Any,
    y: Any,
    horizons: Any,
    *,
    times: Any = ...,
    risk_scores: Any = ...,
    survival_at_own_time: Any = ...,
    survival_at_entry: Any = ...,
    cause: int | None = ...,
    entry: Any = ...,
    sample_weight: Any = ...,
    groups: Any = ...,
    level: float = ...,
    title: str = ...,
) -> SurvivalReport: ...
def survival_report(
    predictions: Any,
    y: Any = None,
    horizons: Any = None,
    *,
    times: Any = None,
    risk_scores: Any = None,
    survival_at_own_time: Any = None,
    survival_at_entry: Any = None,
    cause: int | None = None,
    entry: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    title: str = "Survival calibration",
    subtitle: str = "",
) -> SurvivalReport | Report:
    r"""Assess a model: calibration, discrimination, overall error and net benefit.

    Parameters
    ----------
    predictions : mapping, array, data frame or sequence of step functions
        Predicted survival; with competing events one minus the predicted cumulative incidence.
        See `cje.survival.predictions.read_predictions` for the forms: ``{horizon: array}``, an
        array (rows, horizons), an array (rows, grid) with `times`, the frames of lifelines and
        pycox, the step functions of scikit-survival. A list of this package's metrics (without
        `y`) becomes a page of them.
    y : pair, structured array or frame
        ``(time, event)``, ``(entry, time, event)``, a structured array of scikit-survival, or a
        frame with the columns time and event (and entry).
    horizons : float or sequence of float
    times : array (m,), optional
        Time grid of a matrix.
    risk_scores : array (n,), optional
        Risk on the log-hazard scale, for the slope and C. Default: :math:`\log(-\log\hat S)` at
        each horizon (for C at the last one).
    survival_at_own_time, survival_at_entry : array (n,), optional
        For O/E at the subjects' own times, where `predictions` are not curves; the second under
        delayed entry.
    cause : int, optional
        Code of the event of interest; other codes above 0 are competing events.
    entry, sample_weight, groups : arrays (n,), optional
        Delayed entry, weights, clusters.

    Returns
    -------
    SurvivalReport
        ``print`` shows a table; ``report["ICI at 5"]`` is one metric; ``to_html`` writes a page.

    Raises
    ------
    CJEError
        Invalid input. A metric that does not support the data (the Brier score under delayed
        entry) is listed in ``omitted`` instead.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> risk = rng.normal(size=400)
    >>> time = rng.exponential(np.exp(-risk))
    >>> result = survival_report(np.exp(-np.exp(risk)), (time, np.ones(400)), horizons=1.0)
    >>> 1.0 in result["O/E at 1"].interval, result["ICI at 1"].interval.low
    (True, 0.0)
    """
    if y is None:
        return metrics_report(predictions, title=title, subtitle=subtitle)
    follow_up = read_follow_up(y)
    begin = follow_up.entry if entry is None else entry
    sample = survival_sample(
        follow_up.time, follow_up.event, sample_weight, cause=cause, entry=begin, groups=groups
    )
    check_level(level)
    if horizons is None:
        raise CJEError("horizons are missing", where="horizons",
                       hint="name at least one, such as "
                       + by_interface("horizons=[1, 3, 5]", "--horizons 1,3,5"))  # fmt: skip
    grid = np.unique(finite_array("horizons", np.atleast_1d(horizons)))
    for t in grid:
        check_horizon(float(t), sample, "horizons")
    read = read_predictions(predictions, sample.time, grid, times)
    options: dict[str, Any] = {
        "sample_weight": sample_weight, "groups": groups, "level": level, "entry": sample.entry,
    }  # fmt: skip
    codes = np.where(sample.event, 1, 0)
    if sample.competing is not None:
        codes[sample.competing] = 2
    judge = _Judge(sample, codes, options, level)
    given = (survival_at_own_time, survival_at_entry)
    judge.overall(_own_survival(read, predictions, sample, grid, times, given), read, risk_scores)
    views = tuple(judge.horizon(float(t), read.at[:, j], risk_scores) for j, t in enumerate(grid))
    rivals = 0 if sample.competing is None else int(sample.competing.sum())
    return SurvivalReport(tuple(judge.metrics), views, judge.omitted, len(sample),
                          sample.n_events, rivals, title, read.findings)  # fmt: skip


def _own_survival(
    read: Predictions, predictions: Any, sample: SurvivalSample, grid: FloatArray, times: Any,
    given: tuple[Any, Any],
) -> tuple[FloatArray, FloatArray | None] | str:  # fmt: skip
    """Survival at each subject's own time and entry, or why they are not known."""
    if given[0] is not None:
        own = check_probabilities("survival_at_own_time", given[0], n=len(sample))
        if sample.entry is None:
            return own, None
        if given[1] is None:
            return "under delayed entry it needs survival at entry too: " + by_interface(
                "survival_at_entry=...", "--own-at-entry COLUMN"
            )
        return own, check_probabilities("survival_at_entry", given[1], n=len(sample))
    if sample.competing is not None:  # one minus an incidence is not exp(-H) of a hazard
        return (
            "with competing events it needs survival at own times from the cause-specific hazard: "
            + _own_time()
        )
    if read.own is None:
        return (
            "it needs predicted curves over all observed times, or survival at each subject's own "
            "time: " + _own_time()
        )
    if sample.entry is None:
        return read.own, None
    begin = read_predictions(predictions, sample.entry, grid, times).own
    if begin is None:
        return "the predicted curves have too few times before the entries"
    return read.own, begin


class _Judge:
    """Computes metrics one by one; what the data do not support is kept with its reason."""

    def __init__(
        self, sample: SurvivalSample, codes: Any, options: dict[str, Any], level: float
    ) -> None:
        self.sample, self.level = sample, level
        self.codes = codes
        self.options = options
        self.competing: dict[str, Any] = {"cause": 1} if sample.competing is not None else {}
        self.metrics: list[MetricEstimate] = []
        self.omitted: dict[str, str] = {}

    def overall(
        self, own: tuple[FloatArray, FloatArray | None] | str, read: Predictions, scores: Any
    ) -> None:
        """O/E at own times and, where scores are given, one slope; C."""
        s = self.sample
        weights = {k: self.options[k] for k in ("sample_weight", "groups", "level")}
        if isinstance(own, str):
            self.omitted["O/E"] = own
        else:
            self._add("O/E", lambda: calibration_in_the_large(
                own[0], s.event, survival_at_entry=own[1], **weights))  # fmt: skip
        if scores is not None:
            self._add(
                "calibration slope",
                lambda: calibration_slope(
                    scores, s.time, self.codes, strict=True, **self.competing, **self.options
                ),
            )
        if s.competing is not None:
            self.omitted["Harrell C"] = "not defined for competing events here: use the AUC"
            return
        risk = -read.at[:, -1] if scores is None else scores
        self._add("Harrell C", lambda: harrell_c(risk, s.time, self.codes, **self.options))

    def horizon(self, t: float, survival: FloatArray, scores: Any) -> HorizonView:
        """Every metric at one horizon."""
        y = (self.sample.time, self.codes, t)
        options = self.competing | self.options
        self._add(f"O/E at {t:g}", lambda: observed_expected_at_horizon(survival, *y, **options))
        if scores is None:
            self._add(f"calibration slope at {t:g}", lambda: self._slope_until(t, survival))
        index = integrated_calibration_index(survival, *y, **options)
        self.metrics += [index, index.e50, index.e90, index.emax]
        self._add(f"Brier score at {t:g}", lambda: brier_score(survival, *y, **options))
        self._add(f"IPA at {t:g}", lambda: index_of_prediction_accuracy(survival, *y, **options))
        self._add(f"AUC at {t:g}", lambda: time_dependent_auc(-survival, *y, **options))
        benefit: tuple[NetBenefit, ...] = ()
        if self.sample.entry is None:
            benefit = net_benefit(survival, *y, **options)
        else:
            self.omitted[f"net benefit at {t:g}"] = "does not support delayed entry"
        edges = np.linspace(0.0, 1.0, 41)
        counts = np.histogram(1.0 - survival, edges, weights=self.sample.mass)[0]
        groups = risk_groups(1.0 - survival, self.sample, t, level=self.level)
        return HorizonView(t, index.curve, groups, edges, counts.astype(float), benefit)

    def _slope_until(self, t: float, survival: FloatArray) -> MetricEstimate:
        """Slope of cloglog risk at a horizon, with follow-up cut there."""
        s = self.sample
        codes = np.where(s.time <= t, self.codes, 0)
        options = dict(self.options)
        keep = np.ones(len(s), dtype=bool)
        if s.entry is not None:  # rows that enter after the horizon are not observed before it
            keep = s.entry < t
            options |= {"entry": s.entry[keep]}
            for name in ("sample_weight", "groups"):
                if options[name] is not None:
                    options[name] = np.asarray(options[name])[keep]
        whole = s.competing is not None and s.entry is None
        kind: Literal["cause_specific", "subdistribution"] = (
            "subdistribution" if whole else "cause_specific"
        )
        slope = calibration_slope(
            from_survival(survival)[keep], np.minimum(s.time, t)[keep], codes[keep],
            hazard=kind, strict=True, **self.competing, **options,
        )  # fmt: skip
        return slope.at_horizon(t)

    def _add(self, name: str, compute: Callable[[], MetricEstimate]) -> None:
        try:
            self.metrics.append(compute())
        except CJEError as error:
            self.omitted[name] = str(error)


def _own_time() -> str:
    return by_interface("survival_at_own_time=...", "--own COLUMN")
