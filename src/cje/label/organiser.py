"""The organiser's page: the current answer with its anytime interval, and the labels left."""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from cje.data.label_store import StoredLabels, attach_labels, read_label_store
from cje.data.stored_comparisons import stored_comparisons
from cje.errors import CJEError
from cje.estimators.registry import find_estimator
from cje.inference import Decision, GateRule, InfluenceEstimate
from cje.inference.sequential import AnytimeRule, Look, anytime_intervals, labels_to_decision
from cje.label.study import Study
from cje.results.result import EstimationResult

__all__ = ["Organiser"]

_LEAST_FOR_ESTIMATE = 10  # the estimators need as many labels


class Organiser:
    """Computes the page from the store, again only after a new answer.

    Parameters
    ----------
    study : Study
    path : Path
        The labels file.
    gate : GateRule
        The rule that the candidate must meet against the baseline.
    rule : AnytimeRule
    label_cost : float
        Cost of one label, in any currency; 0 hides the cost.
    """

    def __init__(
        self, study: Study, path: Path, gate: GateRule, rule: AnytimeRule, label_cost: float = 0.0
    ) -> None:
        self.study, self.path, self.gate, self.rule = study, path, gate, rule
        self.label_cost = label_cost
        self._lock = threading.Lock()
        self._last = -1
        self._shown: dict[str, Any] = {}

    def view(self) -> dict[str, Any]:
        """Everything on the organiser's page, as JSON types."""
        with self._lock:
            (row,) = self.study.store.read("SELECT coalesce(max(id), 0) FROM answer")
            if self._last != row[0]:
                self._shown, self._last = self._compute(), row[0]
            return self._shown

    def _compute(self) -> dict[str, Any]:
        stored = read_label_store(self.path)
        meta = stored.meta
        n_labels = _labelled_items(stored)
        (paid,) = self.study.store.read("SELECT count(*) FROM latest WHERE kind = 'label'")[0]
        found: dict[str, Any] = {
            "labels": n_labels, "goal": int(meta["count"]), "skips": _skips(stored),
            "pace_seconds": self.study.store.pace(), "cost": self.label_cost * paid,
            "design": meta["design"], "raters": self._raters(), "agreement": agreement(stored),
            "level": self.rule.level, "first_look": self.rule.first_look,
            "claim": self._claim(), "finished": self.study.finished, "problem": None,
            "looks": [], "decision": None,
        }  # fmt: skip
        if meta["design"] == "active":
            found["informative"] = self.study.informative
        try:
            estimate = self._estimate(stored)
        except CJEError as error:
            return found | {"problem": str(error)}
        if estimate is None:
            return found
        looks = anytime_intervals(estimate, n_labels, self._rule_for(n_labels))
        found["looks"] = [_look(look) for look in looks]
        if self.study.policies:
            found["decision"] = self._decision(estimate, looks[-1], n_labels, stored)
        return found

    def _claim(self) -> str:
        """The claim that a PASS would make, if there is a baseline."""
        chosen = self.study.policies
        return self.gate.claim(chosen[1]) if chosen else ""

    def _rule_for(self, n_labels: int) -> AnytimeRule:
        if self.rule.method == "spending" and n_labels > self.rule.tuned_at:
            raise CJEError("the planned number of labels is reached: later intervals are not valid")
        return self.rule

    def _estimate(self, stored: StoredLabels) -> InfluenceEstimate | None:
        """Candidate, baseline and their difference; every policy where none is named."""
        if max(len(stored.rows), len(stored.pairs)) < _LEAST_FOR_ESTIMATE:
            return None
        if stored.pairs:
            return _wins(self.study, stored, self.rule.level)
        data = attach_labels(self.study.data, stored, "the labels file")
        direct = find_estimator("direct").build(data, level=self.rule.level)
        result: EstimationResult = direct.fit_and_estimate()
        chosen = self.study.policies
        if not chosen:
            return result.influence
        both = result.influence.select(chosen)
        return InfluenceEstimate.join([both, result.influence.difference(*chosen)])

    def _decision(
        self, estimate: InfluenceEstimate, look: Look, n_labels: int, stored: StoredLabels
    ) -> dict[str, Any]:
        verdict = self.gate.decide(*look.interval) if look.open else Decision.UNDECIDED
        more = None
        if verdict is Decision.UNDECIDED and look.standard_error > 0.0:
            labelled = {r["prompt_id"] for r in stored.rows + stored.pairs}
            fixed = _fixed_variance(estimate, labelled)
            whole = labels_to_decision(
                look.value - self.gate.threshold, max(look.standard_error**2 - fixed, 0.0), fixed,
                n_labels, self.rule,
            )  # fmt: skip
            more = None if whole is None else max(whole - n_labels, 1)
        return {"verdict": str(verdict), "threshold": self.gate.threshold, "more_labels": more}

    def _raters(self) -> list[dict[str, Any]]:
        rows = self.study.store.read(
            """SELECT rater, sum(kind = 'label') AS labels, sum(kind = 'skip') AS skips
               FROM latest GROUP BY rater ORDER BY rater"""
        )
        return [dict(r) for r in rows]


def _labelled_items(stored: StoredLabels) -> int:
    """Number of items with a label; two raters of one item count once."""
    rows = {(r["prompt_id"], r["policy"], r["draw_idx"]) for r in stored.rows}
    return len(rows) + len({p["prompt_id"] for p in stored.pairs})


def _look(look: Look) -> dict[str, Any]:
    low, high = look.interval
    return {
        "name": look.name, "value": look.value, "low": low, "high": high, "open": look.open,
        "fixed_low": look.fixed.low, "fixed_high": look.fixed.high,
    }  # fmt: skip


def _skips(stored: StoredLabels) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for skip in stored.skips:
        counts[skip["policy"]] += 1
    return dict(counts)


def _wins(study: Study, stored: StoredLabels, level: float) -> InfluenceEstimate:
    """Wins minus losses of the candidate: the judge's preferences, rectified by the answers."""
    candidate, baseline = study.policies
    comparisons = stored_comparisons(study.data, stored)
    result = find_estimator("pairwise").build(comparisons, level=level).fit_and_estimate()
    gap: InfluenceEstimate = result.influence.difference(candidate, baseline)
    return gap.renamed([f"wins minus losses of {candidate} against {baseline}"])


def _fixed_variance(estimate: InfluenceEstimate, labelled: set[str]) -> float:
    """The part of the last quantity's variance that further labels do not reduce.

    Prompts without labels contribute their prediction only; that part is common to all prompts.
    """
    if estimate.clusters is None or estimate.n_clusters <= len(labelled):
        return 0.0
    without = np.array([name not in labelled for name in estimate.clusters])
    if not without.any():
        return 0.0
    squares = estimate.influence[without, -1] ** 2
    return float(squares.mean() * estimate.n_clusters)


def agreement(stored: StoredLabels) -> dict[str, Any] | None:
    """Share of items on which two raters agree; None without items that two raters answered."""
    grouped: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in stored.rows:
        grouped[(row["prompt_id"], row["policy"], row["draw_idx"])].append(row["oracle_label"])
    for pair in stored.pairs:
        grouped[(pair["prompt_id"], pair["policy_a"], pair["draw_a"])].append(pair["value"])
    twice = [values[:2] for values in grouped.values() if len(values) > 1]
    if not twice:
        return None
    same = sum(a == b for a, b in twice)
    gap = float(np.mean([abs(a - b) for a, b in twice]))
    return {"items": len(twice), "same": same / len(twice), "mean_gap": gap}
