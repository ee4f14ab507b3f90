"""Drift of a judge: its scores of the same rows, its relation to labels, its calibration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cje.analysis.inputs import read_source
from cje.calibration.rewards.reward_model import CrossFittedRewardModel, fit_reward_model
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.hints import option_hint, scale_hint
from cje.inference import Decision, InfluenceEstimate, Interval
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["Drift", "Shift", "drift"]

_LEAST_SHARED = 10
_LEAST_LABELS = 20
_SAME_SCORE = 1e-9  # rounding of a file, on [0, 1]
_MARGIN_SHARE = 0.02  # of the scale, where no margin is given


@dataclass(frozen=True)
class Shift:
    """A shift with its interval, and the decision at the margin."""

    question: str
    shift: float
    interval: Interval
    decision: Decision
    n: int


@dataclass(frozen=True)
class Drift:
    """All shifts; the decision is the worst of theirs.

    Attributes
    ----------
    shifts : tuple of Shift
    changed : float
        Share of the shared rows whose score is not the same.
    n_shared : int
    margin : float
        Largest shift that does not matter, on the scale of the question.
    notes : tuple of str
    """

    shifts: tuple[Shift, ...]
    changed: float
    n_shared: int
    margin: float
    notes: tuple[str, ...]

    @property
    def decision(self) -> Decision:
        """FAIL if a shift is beyond the margin, PASS if all are within it, otherwise UNDECIDED."""
        found = {shift.decision for shift in self.shifts}
        if Decision.FAIL in found:
            return Decision.FAIL
        return Decision.UNDECIDED if Decision.UNDECIDED in found else Decision.PASS

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self) | {"decision": str(self.decision)}

    def summary(self) -> str:
        """The answers, ready to print."""
        words = {
            Decision.PASS: "no drift beyond", Decision.FAIL: "drift beyond",
            Decision.UNDECIDED: "cannot distinguish drift from no drift at",
        }  # fmt: skip
        lines = [
            f"{self.decision}: {words[self.decision]} the margin of {self.margin:g}",
            f"{self.n_shared:,} rows scored in both; {self.changed:.0%} have a different score",
        ]
        for s in self.shifts:
            lines.append(
                f"  {s.question}: {s.shift:+.4f} ({s.interval.level:.0%} interval "
                f"{s.interval.low:+.4f} to {s.interval.high:+.4f}, {s.n:,} rows): {s.decision}"
            )
        return "\n".join([*lines, *self.notes])


def drift(
    old: Any,
    new: Any,
    *,
    on: str = "prompt_id",
    margin: float | None = None,
    level: float = 0.95,
    judge_scale: Any = None,
    oracle_scale: Any = None,
    **reading: Any,
) -> Drift:
    r"""Compare two runs of a judge over the same rows.

    1. *Scores*: the mean of new minus old score over shared rows.
    2. *Reported value*: the mean of :math:`f(S_{new}) - f(S_{old})`, f the calibration of the old
       run (20 labels): the change of every value if the old calibration is kept.
    3. *Relation to people*: the mean of :math:`Y - f(S_{new})` over labelled rows of the new run,
       with f fitted without the row's own fold where both runs share it. The lower and the upper
       half of the scores are also tested alone, for changes that cancel in the mean.

    Each interval is at the level adjusted for their number (Bonferroni). A shift is a FAIL where
    its interval lies beyond the margin on one side, a PASS where it lies within on both.

    Parameters
    ----------
    old, new : path, frame or Dataset
    on : str
        Column that identifies a row in both runs; with several policies, together with the policy.
    reading
        Further options of `cje.data.read`, for both runs.
    margin : float, optional
        On the label's scale (the judge's, for the scores alone); by default 2% of the scale.

    Raises
    ------
    CJEError
        Fewer than ten shared rows, or a margin that is not positive.
    """
    fields = {**(reading.pop("fields", None) or {})}
    if on != "prompt_id":
        fields["prompt_id"] = on
    before, after = (
        read_source(source, fields=fields, judge_scale=judge_scale, oracle_scale=oracle_scale,
                    min_rows=1, labels=None, on=None, **reading)
        for source in (old, new)
    )  # fmt: skip
    if before is None or after is None:
        raise CJEError("drift needs an old and a new run of the judge")
    if (before.judge_scale.low, before.judge_scale.high) != (
        after.judge_scale.low, after.judge_scale.high,
    ):  # fmt: skip
        raise CJEError(
            "the runs are on different scales", value=(before.judge_scale, after.judge_scale),
            hint=f"declare one: {scale_hint('judge_scale')}",
        )  # fmt: skip
    a, b = _shared(before, after)
    labelled = before.n_labelled >= _LEAST_LABELS
    scale = before.oracle_scale if labelled else before.judge_scale
    tolerance = _MARGIN_SHARE * scale.width if margin is None else float(margin)
    if not 0.0 < tolerance < np.inf:
        raise CJEError("the margin must be positive and finite", value=margin)
    tested = [_scores(before, after, a, b)]
    notes = []
    if labelled:
        tested += _against_labels(before, after, a, b)
    else:
        notes.append(
            f"the old run has {before.n_labelled} labels; {_LEAST_LABELS} are needed to check the "
            "calibration and the relation to people"
        )
    each = 1.0 - (1.0 - level) / len(tested)
    # Scores are on the judge's scale: their margin is the same share of it.
    share = tolerance / scale.width
    shifts = tuple(
        _decided(name, rows, clusters, width, share * width, each)
        for name, rows, clusters, width in tested
    )
    moved = np.abs(before.judge_score[a] - after.judge_score[b])
    changed = float(np.mean(moved > _SAME_SCORE))
    return Drift(shifts, changed, len(a), tolerance, tuple(notes))


_Tested = tuple[str, FloatArray, list[str], float]


def _shared(before: Dataset, after: Dataset) -> tuple[IntArray, IntArray]:
    """Positions of the rows that are in both runs."""
    keys = [
        list(zip(d.prompt_id.decode(), d.policy.decode(), d.draw_idx.tolist(), strict=True))
        for d in (before, after)
    ]
    if len(before.policies) == 1 and len(after.policies) == 1:
        # A single policy is named after its file; old.csv and new.csv hold the same responses.
        keys = [[(prompt, "", draw) for prompt, _, draw in part] for part in keys]
    place = {key: row for row, key in enumerate(keys[0])}
    pairs = [(place[key], row) for row, key in enumerate(keys[1]) if key in place]
    if len(pairs) < _LEAST_SHARED:
        raise CJEError(
            f"drift needs at least {_LEAST_SHARED} rows that both runs have", value=len(pairs),
            hint=f"name the column that identifies a row: {option_hint('on', 'your_column')}",
        )  # fmt: skip
    first, second = np.array(pairs).T
    return first, second


def _scores(before: Dataset, after: Dataset, a: IntArray, b: IntArray) -> _Tested:
    change = after.judge_score[b] - before.judge_score[a]
    return "scores on the same rows", change, _names(after, b), before.judge_scale.width


def _against_labels(before: Dataset, after: Dataset, a: IntArray, b: IntArray) -> list[_Tested]:
    width = before.oracle_scale.width
    known = np.flatnonzero(before.is_labelled & np.isfinite(before.judge_score))
    model = fit_reward_model(before.judge_score[known], before.oracle_label[known])
    moved = model.predict(after.judge_score[b]) - model.predict(before.judge_score[a])
    tested: list[_Tested] = [
        ("reported value with the stored calibration", moved, _names(after, b), width)
    ]
    label, rows = _labels_of(before, after, a, b)
    if len(rows) < _LEAST_LABELS:
        return tested
    score = after.judge_score[rows]
    fitted = _held_out(before, known, model, _names(after, rows), score)
    residual = np.asarray(label - fitted)
    names = _names(after, rows)
    middle = float(np.median(score))
    parts = [("label minus calibrated score", np.ones(len(rows), dtype=bool))]
    lower = score <= middle
    if min(lower.sum(), (~lower).sum()) >= _LEAST_LABELS // 2:
        parts += [("the same, lower scores", lower), ("the same, higher scores", ~lower)]
    for name, mask in parts:
        tested.append(
            (name, residual[mask], [n for n, m in zip(names, mask, strict=True) if m], width)
        )
    return tested


def _labels_of(
    before: Dataset, after: Dataset, a: IntArray, b: IntArray
) -> tuple[FloatArray, IntArray]:
    """Labels of the new run's rows: its own, otherwise those of the old run for the same rows."""
    label = after.oracle_label.copy()
    if after.n_labelled and str(after.oracle_scale) != str(before.oracle_scale):
        raise CJEError(
            "the runs' labels are on different scales",
            value=(before.oracle_scale, after.oracle_scale),
            hint=f"declare one: {scale_hint('oracle_scale')}",
        )  # fmt: skip
    missing = np.isnan(label[b])
    label[b[missing]] = before.oracle_label[a[missing]]
    rows = np.flatnonzero(np.isfinite(label) & np.isfinite(after.judge_score))
    return label[rows], rows


def _held_out(
    before: Dataset,
    known: IntArray,
    model: CrossFittedRewardModel,
    names: list[str],
    score: FloatArray,
) -> FloatArray:
    """The old calibration at the new scores, fitted without a row's own label in five folds."""
    own = _names(before, known)
    fold_of = {name: k % 5 for k, name in enumerate(sorted(set(own)))}
    fold = np.array([fold_of[name] for name in own])
    where = np.array([fold_of.get(name, -1) for name in names])
    out = model.predict(score)
    for k in range(5):
        mine = where == k
        if mine.any() and (fold != k).sum() >= 2:
            kept = known[fold != k]
            part = fit_reward_model(before.judge_score[kept], before.oracle_label[kept])
            out[mine] = part.predict(score[mine])
    return np.asarray(out)


def _names(data: Dataset, rows: IntArray) -> list[str]:
    names = data.prompt_id.decode()
    return [names[row] for row in rows]


def _decided(
    name: str, values: FloatArray, clusters: list[str], width: float, margin: float, level: float
) -> Shift:
    _, code = np.unique(clusters, return_inverse=True)
    weight = np.bincount(code, minlength=int(code.max()) + 1)
    mean = float(values.mean())
    psi = np.bincount(code, values - mean, len(weight)) / len(values)
    estimate = InfluenceEstimate.from_influence((name,), [mean], psi[:, None]).rescaled(width)
    (interval,) = estimate.intervals(level)
    if interval.low > margin or interval.high < -margin:
        decision = Decision.FAIL
    elif -margin <= interval.low and interval.high <= margin:
        decision = Decision.PASS
    else:
        decision = Decision.UNDECIDED
    return Shift(name, float(estimate.values[0]), interval, decision, len(values))
