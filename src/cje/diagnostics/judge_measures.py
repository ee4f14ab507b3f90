"""`judge_cards`: scores and labels in, judge cards out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.calibration.rewards.reward_model import fit_reward_model
from cje.checks import LARGEST, check_level, check_weights, float_array, n_rows, refuse_rows
from cje.data.codes import Codes
from cje.data.folds import get_folds
from cje.diagnostics.clustered import Clustered
from cje.diagnostics.judge_agreement import AgreementRows, agreement_measures, consistency_measure
from cje.diagnostics.judge_card import BiasEffect, JudgeCard, JudgeCards, Measure
from cje.diagnostics.judge_errors import bias_effects
from cje.diagnostics.judge_identity import JudgeIdentity
from cje.diagnostics.judge_quality import (
    FIT_EXCESS,
    MIN_LABELS,
    STACK_EXCESS,
    labels_saved,
    unexplained_share,
)
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["judge_cards"]

_FOLDS = 5
R2, SAVED = "R2", "labels saved"


def judge_cards(
    scores: ArrayLike | Mapping[str, ArrayLike],
    labels: ArrayLike,
    *,
    prompts: Sequence[Any] | None = None,
    policies: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    ratings: ArrayLike | None = None,
    repeats: ArrayLike | Mapping[str, ArrayLike] | None = None,
    factors: Mapping[str, Sequence[Any]] | None = None,
    threshold: float | None = None,
    identity: JudgeIdentity | None = None,
    level: float = 0.95,
    seed: int = 42,
) -> JudgeCards:
    r"""How good are these judges? Agreement, errors and what they save, each with an interval.

    Intervals leave out one prompt at a time (`cje.diagnostics.clustered`). R2 is the share of the
    labels' variance within a version that the calibrated judge explains, out of fold, for the
    calibration that many labels would give; fewer than `MIN_LABELS` labels cannot measure it.

    Parameters
    ----------
    scores : array (n,), or mapping judge -> array (n,)
        Of every judged response; NaN where a judge gave none.
    labels : array (n,)
        NaN where a response has none.
    prompts, policies : sequence of n names, optional
        By default every response has a prompt of its own, and one version wrote all.
    weights : array (n,), optional
        1 / labelling propensity.
    ratings : array (n, raters), optional
        The single labels behind `labels`; NaN where a rater gave none.
    repeats : array (n, k), or mapping judge -> array, optional
        Scores of the same response from repeated calls; NaN where there are fewer.
    factors : mapping name -> n numbers or names, optional
        What the judge's error is tested against, beside the version: a length, a position.
    threshold : float, optional
        With labels of two values: scores at or above it mean the higher one. By default the middle
        of the scores' range.
    identity : JudgeIdentity, optional
        What the card is bound to, where there is one judge.

    Raises
    ------
    CJEError
        Columns of different lengths, fewer than `MIN_LABELS` labels, labels that are all equal.

    Examples
    --------
    >>> import numpy as np
    >>> truth = np.random.default_rng(0).random(300)
    >>> score = truth + 0.1 * np.random.default_rng(1).standard_normal(300)
    >>> card = judge_cards(score, np.where(np.arange(300) < 100, truth, np.nan)).cards[0]
    >>> card[R2].value > 0.7, card[R2].low < card[R2].value < card[R2].high
    (True, True)
    """
    level = check_level(level)
    named = _named(scores, "judge")
    rows = _Rows.of(named, labels, prompts, policies, weights, seed)
    again = {} if repeats is None else _named_tables(repeats, next(iter(named)))
    many = None if ratings is None else _table("ratings", ratings, rows.n)
    causes = dict(factors or {})
    fits = {name: _fit(rows, column) for name, column in named.items()}
    cards = []
    for name, column in named.items():
        fit = fits[name]
        agreement = AgreementRows.of(
            column[fit.rows], rows.labels[fit.rows], rows.weights[fit.rows],
            rows.prompt[fit.rows], None if many is None else many[fit.rows], threshold,
        )  # fmt: skip
        measures, absent = agreement_measures(agreement, level)
        table = None if name not in again else _table("repeats", again[name], rows.n)
        steady = consistency_measure(table, rows.prompt, level)
        if steady is None:
            absent["self-consistency"] = "no response has two scores of this judge"
        else:
            measures.append(steady)
        r2 = fit.r2(level)
        cards.append(
            JudgeCard(
                name,
                len(fit.rows),
                fit.clusters.n_prompts,
                int(np.isfinite(column).sum()),
                rows.n_versions,
                (r2, *measures),
                _biases(rows, fit, causes, level),
                _saved(rows, r2, int(np.isfinite(column).sum())),
                absent,
                identity if len(named) == 1 else None,
                level,
            )
        )
    return JudgeCards(tuple(cards), _stacked(rows, named, cards, level))


# ---- rows -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rows:
    """The responses as arrays; labels on [0, 1] of their own range."""

    labels: FloatArray
    prompt: IntArray
    policy: IntArray
    policy_names: tuple[str, ...]
    folds: IntArray
    weights: FloatArray
    low: float
    width: float

    @property
    def n(self) -> int:
        return len(self.labels)

    @property
    def n_versions(self) -> int:
        return len(np.unique(self.policy))

    @classmethod
    def of(
        cls, named: Mapping[str, FloatArray], labels: ArrayLike, prompts: Any, policies: Any,
        weights: Any, seed: int,
    ) -> _Rows:  # fmt: skip
        n = len(next(iter(named.values())))
        y = _column("labels", labels, n)
        known = np.isfinite(y)
        if int(known.sum()) < MIN_LABELS:
            raise CJEError(
                f"a judge card needs at least {MIN_LABELS} labelled responses",
                value=int(known.sum()), hint="label more responses: cje label",
            )  # fmt: skip
        low, high = float(y[known].min()), float(y[known].max())
        if not high > low:
            raise CJEError("all labels are equal: they do not show how good a judge is", value=low)
        w = check_weights("weights", None if weights is None else _filled(weights, known, n), n)
        prompt = _codes("prompts", range(n) if prompts is None else prompts, n)
        policy = _codes("policies", ["all"] * n if policies is None else policies, n)
        return cls(
            y, prompt.codes, policy.codes, policy.names, get_folds(prompt, _FOLDS, seed),
            np.ones(n) if w is None else w / w.max(), low, high - low,
        )  # fmt: skip


def _filled(weights: ArrayLike, known: Any, n: int) -> FloatArray:
    """Weights of the labelled rows; the other rows' weights are not used."""
    w = float_array("weights", weights)
    if w.shape != (n,):
        raise CJEError("weights must have one value per row", value=w.shape)
    return np.where(known, w, 1.0)


def _codes(name: str, values: Any, n: int) -> Codes:
    codes = values if isinstance(values, Codes) else Codes.encode([str(value) for value in values])
    if len(codes) != n:
        raise CJEError(f"{name} must have one value per row", value=len(codes))
    return codes


def _column(name: str, values: ArrayLike, n: int | None) -> FloatArray:
    """Numbers, NaN where there is none; infinity is an error."""
    column = float_array(name, values)
    if column.ndim != 1 or (n is not None and len(column) != n):
        raise CJEError(f"{name} must have one value per row", value=column.shape)
    refuse_rows(
        column, np.isinf(column) | (np.abs(column) > LARGEST), f"{name} must be finite", "rescale"
    )
    return column


def _table(name: str, values: ArrayLike, n: int) -> FloatArray:
    table = float_array(name, values)
    if table.ndim != 2 or len(table) != n:
        raise CJEError(f"{name} must be a table with one row per response", value=table.shape)
    refuse_rows(
        table, np.isinf(table) | (np.abs(table) > LARGEST), f"{name} must be finite", "rescale"
    )
    return table


def _named(scores: Any, default: str) -> dict[str, FloatArray]:
    given = scores if isinstance(scores, Mapping) else {default: scores}
    if not given:
        raise CJEError("a judge card needs the scores of a judge")
    n = n_rows("scores", next(iter(given.values())))
    return {str(name): _column(f"scores of {name}", column, n) for name, column in given.items()}


def _named_tables(repeats: Any, first: str) -> dict[str, Any]:
    return dict(repeats) if isinstance(repeats, Mapping) else {first: repeats}


# ---- R2, and what it saves ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Fit:
    """Out-of-fold errors of a calibrated judge on its labelled rows (`rows` of the whole)."""

    rows: IntArray
    error: FloatArray  # calibrated score minus label, on [0, 1]
    columns: FloatArray
    n_policies: int
    clusters: Clustered
    excess: float = FIT_EXCESS
    stacked: bool = False

    @property
    def wider(self) -> float:
        """Widening of the interval of a stack's R2: the jackknife does not repeat the stacking."""
        return float(np.sqrt(1.0 + 2.0 * self.excess / len(self.rows))) if self.stacked else 1.0

    def share(self, totals: FloatArray) -> FloatArray:
        """R2 from totals: weights, labels and squares by policy, then errors and their number."""
        missed, n = totals[..., -2], totals[..., -1]
        return _r2_of(totals[..., :-2], missed, n, self.n_policies, self.excess)

    def r2(self, level: float) -> Measure:
        """The share explained, at most 1 and at least 0."""
        found = self.clusters.function(self.columns, self.share)
        limits = found.interval("unexplained", level, wider=self.wider)
        low, high = (None, None) if limits is None else (_unit(limits[0]), _unit(limits[1]))
        return Measure(
            R2, _unit(found.value), low, high, len(self.rows),
            "share of the labels' variance that the calibrated judge explains",
        )  # fmt: skip


def _r2_of(
    by_policy: FloatArray, missed: FloatArray, n: FloatArray, k: int, excess: float
) -> FloatArray:
    w, y, square = (by_policy[..., i * k : (i + 1) * k] for i in range(3))
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(w > 0.0, square - y**2 / w, 0.0)
        free = np.maximum(n - (w > 0.0).sum(axis=-1), 1.0)
        spread = np.maximum(own, 0.0).sum(axis=-1) / free
        found = 1.0 - unexplained_share(missed / n, spread, n, excess)
        return np.asarray(np.where(spread > 0.0, found, np.nan))


def _fit(rows: _Rows, score: FloatArray) -> _Fit:
    """Calibrate on the rows with score and label, and keep the out-of-fold errors."""
    whole = np.isfinite(score) & np.isfinite(rows.labels)
    at = np.flatnonzero(whole)
    if len(at) < MIN_LABELS:
        raise CJEError(
            f"a judge card needs at least {MIN_LABELS} labelled responses with a score",
            value=len(at),
        )
    y = (rows.labels[at] - rows.low) / rows.width
    w = rows.weights[at]
    model = fit_reward_model(score[at], y, folds=rows.folds[at], n_folds=_FOLDS, weights=w)
    assert model.label_oof is not None  # cross-fitted
    error = model.label_oof - y
    share, k = w * len(w) / w.sum(), len(rows.policy_names)
    mine = np.zeros((len(at), k))
    mine[np.arange(len(at)), rows.policy[at]] = share
    columns = np.column_stack(
        [mine, mine * y[:, None], mine * y[:, None] ** 2, share * error**2, np.ones(len(at))]
    )
    return _Fit(at, error, columns, k, Clustered.of(rows.prompt[at]))


def _saved(rows: _Rows, r2: Measure, n_judged: int, name: str = SAVED) -> Measure:
    """Labels per version that give the same interval without the judge, less those there are."""
    k = rows.n_versions
    labels, judged = r2.n / k, max(n_judged, r2.n) / k

    def saved(share: float | None) -> float | None:
        return None if share is None else labels_saved(share, labels, judged)

    value = saved(r2.value)
    assert value is not None
    says = f"labels per version that the judge saves beside {labels:,.0f} labels"
    return Measure(name, value, saved(r2.low), saved(r2.high), r2.n, says)


def _stacked(
    rows: _Rows,
    named: Mapping[str, FloatArray],
    cards: Sequence[JudgeCard],
    level: float,
) -> tuple[Measure, ...]:
    """All judges in one prediction, and its gain over the best one on the same rows.

    Stacking (Wolpert 1992): least squares of the labels on the judges' out-of-fold calibrated
    scores, itself cross-fitted.
    """
    if len(named) < 2:
        return ()
    scored = np.isfinite(np.column_stack(list(named.values()))).all(axis=1)
    if int((scored & np.isfinite(rows.labels)).sum()) < MIN_LABELS:
        return ()
    fits = {name: _fit(rows, np.where(scored, column, np.nan)) for name, column in named.items()}
    best = max(cards, key=lambda card: card[R2].value).judge
    single = fits[best]
    y = (rows.labels[single.rows] - rows.low) / rows.width
    calibrated = np.column_stack([np.ones(len(y)), *(fit.error + y for fit in fits.values())])
    weight = rows.weights[single.rows]
    error = _stack(calibrated, y, weight, rows.folds[single.rows]) - y
    columns = single.columns.copy()
    columns[:, -2] = weight * len(weight) / weight.sum() * error**2
    excess = STACK_EXCESS * len(named)
    together = replace(single, error=error, columns=columns, excess=excess, stacked=True)
    r2, k = together.r2(level), together.n_policies
    both = np.column_stack([together.columns, single.columns[:, -2]])

    def gain(totals: FloatArray) -> FloatArray:
        spread, n = totals[..., : 3 * k], totals[..., -2]
        return np.asarray(
            _r2_of(spread, totals[..., -3], n, k, excess)
            - _r2_of(spread, totals[..., -1], n, k, FIT_EXCESS)
        )

    found = together.clusters.function(both, gain)
    low, high = found.interval("plain", level, wider=together.wider) or (None, None)
    says = f"more of the labels' variance explained than by {best} alone"
    return (
        Measure("stacked R2", r2.value, r2.low, r2.high, r2.n, r2.says),
        Measure("gain over the best judge", found.value, low, high, r2.n, says),
        _saved(rows, r2, int(scored.sum()), "stacked labels saved"),
    )


def _stack(x: FloatArray, y: FloatArray, weight: FloatArray, folds: IntArray) -> FloatArray:
    """Least-squares predictions of each fold's labels by the fit on the others."""
    out = np.full(len(y), float(np.average(y, weights=weight)))
    root = np.sqrt(weight)
    for fold in np.unique(folds):
        inside = folds == fold
        if not inside.all():
            a, b = (x * root[:, None])[~inside], (y * root)[~inside]
            out[inside] = x[inside] @ np.linalg.lstsq(a, b, rcond=1e-10)[0]
    return np.asarray(np.clip(out, 0.0, 1.0))


def _unit(value: float) -> float:
    return min(max(value, 0.0), 1.0)


# ---- bias -----------------------------------------------------------------------------------


def _biases(
    rows: _Rows, fit: _Fit, factors: Mapping[str, Sequence[Any]], level: float
) -> tuple[BiasEffect, ...]:
    causes: dict[str, Any] = {}
    if len(rows.policy_names) > 1:
        causes["version"] = [rows.policy_names[code] for code in rows.policy[fit.rows].tolist()]
    for name, values in factors.items():
        if len(values) != rows.n:
            raise CJEError(f"the factor {name} must have one value per row", value=len(values))
        causes[name] = [values[i] for i in fit.rows.tolist()]
    error = fit.error * rows.width
    return bias_effects(error, rows.weights[fit.rows], causes, rows.prompt[fit.rows], level)
