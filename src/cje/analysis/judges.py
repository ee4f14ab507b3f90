"""Several judges of the same responses: all enter the calibration; each is also assessed alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cje.analysis.judge_report import has_card, judge_report
from cje.data.dataset import Dataset
from cje.data.judges import judge_of
from cje.diagnostics.judge_card import JudgeCard

__all__ = ["TOGETHER", "assess_judges", "judge_covariates"]

TOGETHER = "all together"


def judge_covariates(parts: Sequence[Dataset | None]) -> tuple[str, ...]:
    """Covariates with the scores of all judges but the last; empty if a data set lacks them.

    The score is the judges' mean, so with all but one of them the calibration can form every
    weighted mean of the judges.
    """
    given = [part for part in parts if part is not None]
    judges = tuple(given[0].metadata.get("judges", ())) if given else ()
    if not all(set(judges) <= set(part.covariates) for part in given):
        return ()
    return judges[:-1]


def assess_judges(data: Dataset, seed: int = 42) -> dict[str, dict[str, Any]]:
    """R2 and rank correlation of each of several judges, and the R2 of all together.

    The numbers are those of the judge card (`judge_report`); None if there are too few labels for
    one. A data set with one judge has no entry.
    """
    judges = tuple(data.metadata.get("judges", ()))
    if not judges:
        return {}
    names = [judge_of(name) for name in judges]
    if not has_card(data):
        n_labels = int(data.is_labelled.sum())
        return {name: _entry(n_labels, None, None) for name in (*names, TOGETHER)}
    cards = judge_report(data, seed=seed)
    found = {name: _measured(cards[name]) for name in names}
    stacked = {measure.name: measure.value for measure in cards.stacked}
    found[TOGETHER] = _entry(cards.cards[0].n_labels, stacked.get("stacked R2"), None)
    return found


def _measured(card: JudgeCard) -> dict[str, Any]:
    value = {measure.name: measure.value for measure in card.measures}
    return _entry(card.n_labels, value.get("R2"), value.get("rank correlation"))


def _entry(n_labels: int, r2: float | None, rank: float | None) -> dict[str, Any]:
    return {"labels": n_labels, "r2": r2, "rank_correlation": rank}
