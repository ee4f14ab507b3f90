"""`judge_report`: how good a judge is, as a judge card from a data set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from cje.checks import check_level
from cje.data.dataset import Dataset
from cje.data.field_names import may_be_length
from cje.data.judges import judge_of
from cje.diagnostics.judge_card import JudgeCards
from cje.diagnostics.judge_identity import JudgeIdentity
from cje.diagnostics.judge_measures import judge_cards
from cje.diagnostics.judge_quality import MIN_LABELS
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["has_card", "judge_report", "position_columns"]

_POSITION = re.compile(r"^(?:judge_|response_|answer_)?(?:position|order|slot|side|place)$")


def position_columns(names: Sequence[str]) -> list[str]:
    """Columns whose names say that they hold the position in which the judge saw a response.

    Examples
    --------
    >>> position_columns(["position", "judge_order", "disposition", "score"])
    ['position', 'judge_order']
    """
    return [name for name in names if _POSITION.match(name.lower())]


def judge_report(
    data: Dataset,
    *,
    also: Sequence[str] = (),
    identity: JudgeIdentity | None = None,
    level: float = 0.95,
    seed: int = 42,
) -> JudgeCards:
    """The judge cards of a data set: of its judge, or of several judges and of all combined.

    The judge's error is tested against the version, lengths, positions and every other column that
    the data set was read with (``groups``, ``covariates``).

    Parameters
    ----------
    data : Dataset
        With labels; with text (``text=True``), the length of the response is a factor as well.
    also : sequence of str
        Covariates that hold the scores of further judges.
    identity : JudgeIdentity, optional
        Model, template and rubric that the card is bound to.

    Examples
    --------
    >>> import cje.simulate as simulate
    >>> cards = judge_report(simulate.policies_on_shared_prompts(300, 2, 60, seed=1).dataset)
    >>> cards.cards[0].n_labels, cards.cards[0]["R2"].value > 0.3
    (120, True)
    """
    level = check_level(level)
    missing = [name for name in also if name not in data.covariates]
    if missing:
        raise CJEError(
            "no such column of numbers", value=missing[0],
            hint=f"columns read: {', '.join(data.covariates) or 'none'}",
        )  # fmt: skip
    judges = _judges(data, also, None if identity is None else identity.judge)
    propensity = data.label_propensity
    main = next(iter(judges))
    spread = data.judge_variance
    repeats = None
    if spread is not None and len(judges) == 1 and np.isfinite(spread).any():
        half = np.sqrt(0.5 * spread) * data.judge_scale.width  # two scores of that mean, variance
        repeats = {main: np.column_stack([judges[main] - half, judges[main] + half])}
    low, high = data.judge_scale.low, data.judge_scale.high
    return judge_cards(
        judges,
        data.oracle_scale.from_unit(data.oracle_label),
        prompts=data.prompt_id if data.cluster is None else data.cluster,  # type: ignore[arg-type]
        policies=data.policy,  # type: ignore[arg-type]
        weights=None if propensity is None else 1.0 / np.where(propensity > 0, propensity, np.nan),
        ratings=_ratings(data),
        repeats=repeats,
        factors=_factors(data, {*also, *_single(data)}),
        threshold=0.5 * (low + high),
        identity=identity,
        level=level,
        seed=seed,
    )


def _single(data: Dataset) -> list[str]:
    return [name for name in data.metadata.get("judges", ()) if name in data.covariates]


def _judges(data: Dataset, also: Sequence[str], name: str | None) -> dict[str, FloatArray]:
    """Scores of each judge, on the scale of the scores."""
    named = {
        judge_of(single): data.judge_scale.from_unit(data.covariates[single])
        for single in _single(data)
    }
    if not named:
        column = (data.metadata.get("columns") or {}).get("judge_score")
        named[name or (column if isinstance(column, str) else "judge")] = (
            data.judge_scale.from_unit(data.judge_score)
        )
    return named | {other: np.asarray(data.covariates[other]) for other in _further(data, also)}


def _further(data: Dataset, also: Sequence[str]) -> list[str]:
    """The columns of `also` that were not read as a judge already."""
    columns = data.metadata.get("columns") or {}
    judges = {
        path for role, path in columns.items() if role == "judge_score" or role.startswith("judge:")
    }
    return [name for name in also if columns.get(f"covariate:{name}") not in judges]


def _ratings(data: Dataset) -> FloatArray | None:
    """One column per rater, on the labels' scale."""
    given = data.rater_labels
    if given is None or not len(given):
        return None
    table = np.full((len(data), given.rater.n_names), np.nan)
    table[given.row, given.rater.codes] = data.oracle_scale.from_unit(given.value)
    return table


def _factors(data: Dataset, judges: set[str]) -> dict[str, Any]:
    """Factors, besides the version, that the judge's error is tested against."""
    found: dict[str, Any] = {}
    for name, values in data.covariates.items():
        if name in judges:
            continue
        if may_be_length(name) and np.nanmin(values) >= 0.0:
            found[f"log {name}"] = np.log1p(values)
        else:
            found[name] = values
    if data.response is not None and not any(may_be_length(name) for name in data.covariates):
        lengths = data.response.lengths().astype(np.float64)
        found["log length of the response"] = np.log1p(lengths)
    for name, codes in data.groups.items():
        found[name] = codes.decode()
    return found


def has_card(data: Dataset) -> bool:
    """Whether the data have the labels that a judge card needs."""
    labels = data.oracle_label[np.isfinite(data.oracle_label) & np.isfinite(data.judge_score)]
    return len(labels) >= MIN_LABELS and float(np.ptp(labels)) > 0.0
