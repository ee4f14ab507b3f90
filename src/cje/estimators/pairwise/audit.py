"""Findings on the judge, on the order and on the choice of the comparisons that people judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from cje.estimators.pairwise.units import Units, order_is_free
from cje.estimators.pairwise.working_model import WorkingModel
from cje.findings import Finding, Severity
from cje.findings.labels import IDENTICAL_LABELS, LABELS_DEPEND_ON
from cje.findings.pairwise import (
    DIFFERENT_OPPONENTS,
    FEW_HUMAN_VERDICTS,
    NO_HUMAN_VERDICTS,
    POSITION_BIAS,
    POSITION_CONFOUNDED,
)
from cje.inference import InfluenceEstimate, holm
from cje.kernels.arrays import BoolArray, FloatArray
from cje.kernels.clusters import cluster_sums

__all__ = ["audit_comparisons", "cell_findings"]

_LEAST_IN_TEST = 10
_LEAST_SWAPPED = 20  # comparisons in both orders that suffice to estimate the judge's position bias


def cell_findings(
    labels: Mapping[str, tuple[int, int]], identical: Sequence[str], min_labels: int
) -> list[Finding]:
    """Values with human verdicts on too few prompts, and values whose verdicts are all the same.

    `labels` are human verdicts and their prompts.
    """
    if not any(n for n, _ in labels.values()):
        return [NO_HUMAN_VERDICTS.finding()]
    found = []
    enough = FEW_HUMAN_VERDICTS["enough"]
    for name, (n, prompts) in labels.items():
        if prompts < enough:
            severity = Severity.REFUSE if prompts < min_labels else Severity.WARNING
            finding = FEW_HUMAN_VERDICTS.finding(
                name, severity=severity, n_labels=n, n_prompts=prompts, enough=enough
            )
            found.append(finding)
    for name in identical:
        which = f"all {labels[name][0]} human verdicts on its comparisons"
        found.append(IDENTICAL_LABELS.finding(name, which=which))
    return found


def audit_comparisons(
    units: Units, model: WorkingModel, position: bool
) -> tuple[dict[str, Any], list[Finding]]:
    """Position bias, agreement of judge and humans, choice of the labelled comparisons."""
    details: dict[str, Any] = {
        "comparisons": len(units),
        "human_verdicts": len(model.labelled),
        "judge_weight": model.judge_weight if len(model.labelled) else None,
        "agreement": _agreement(units),
        "position": {},
    }
    findings = _opponents(units)
    if position:
        found = {"judge": _judge_bias(units, model), "human": _human_bias(model, units)}
        for who, bias in found.items():
            if bias is None:
                continue
            details["position"][who] = bias
            if bias["p_value"] < POSITION_BIAS["p_value"]:
                said = {"judge": "the judge", "human": "a person"}[who]
                findings.append(POSITION_BIAS.finding(
                    who=said, **{key: bias[key] for key in ("bias", "low", "high", "source")}
                ))  # fmt: skip
        findings += _confounded(units)
    findings += _chosen(units)
    return details, findings


# ---- order ----------------------------------------------------------------------------------


def _judge_bias(units: Units, model: WorkingModel) -> dict[str, Any] | None:
    """From the comparisons judged in both orders, or from the regression term."""
    both = ~np.isnan(units.swing)
    if both.sum() >= _LEAST_SWAPPED:
        swing = units.swing[both]
        value = float(swing.mean())
        found = _bias(value, (swing - value) / len(swing), units.prompt[both], units)
        same = float(np.mean(np.abs(swing) < 0.25))  # a win in one order counts against the other
        return found | {"source": f"{int(both.sum()):,} comparisons in both orders",
                        "same_verdict_in_both": same}  # fmt: skip
    slope = model.judge_slope
    if not slope.influence.any():
        return None
    n = int(np.count_nonzero(slope.influence))
    found = _bias(slope.value, slope.influence, units.prompt, units)
    return found | {"source": f"{n:,} comparisons in one order"}


def _human_bias(model: WorkingModel, units: Units) -> dict[str, Any] | None:
    if model.position is None:
        return None
    value, influence = model.coefficient(model.position)
    found = _bias(value, influence, units.prompt[model.labelled], units)
    return found | {"source": f"{len(model.labelled):,} human verdicts"}


def _bias(value: float, influence: FloatArray, prompt: Any, units: Units) -> dict[str, Any]:
    by_prompt = cluster_sums(influence, prompt, len(units.prompts))
    estimate = InfluenceEstimate.from_influence(("bias",), [value], by_prompt[:, None])
    low, high = estimate.intervals()[0]
    return {"bias": value, "low": low, "high": high, "p_value": float(estimate.p_values()[0])}


def _confounded(units: Units) -> list[Finding]:
    """Where the order of all comparisons follows the policies."""
    found = []
    sides = {"the judge": units.judge_side, "people": units.human_side}
    for who, side in sides.items():
        shown = side != 0.0
        if not shown.any() or order_is_free(units, side):
            continue
        first = np.unique(np.where(side > 0, units.low, units.high)[shown])
        name = units.policies[int(first[0])] if len(first) == 1 else "the same version of a pair"
        found.append(POSITION_CONFOUNDED.finding(first=name, n=int(shown.sum()), who=who))
    return found


# ---- judge and choice -----------------------------------------------------------------------


def _agreement(units: Units) -> dict[str, Any] | None:
    """How often judge and humans prefer the same response, ties and losses included."""
    both = units.labelled & ~np.isnan(units.judge)
    if not both.any():
        return None
    same = np.sign(units.judge[both] - 0.5) == np.sign(units.human[both] - 0.5)
    decided = (units.human[both] != 0.5) & (units.judge[both] != 0.5)
    return {
        "comparisons": int(both.sum()),
        "same_verdict": float(same.mean()),
        "same_verdict_without_ties": float(same[decided].mean()) if decided.any() else None,
    }


def _opponents(units: Units) -> list[Finding]:
    k = len(units.policies)
    seen = len(np.unique(np.column_stack([units.low, units.high]), axis=0))
    pairs = k * (k - 1) // 2
    if seen == pairs:
        return []
    return [DIFFERENT_OPPONENTS.finding(missing=pairs - seen, pairs=pairs)]


def _chosen(units: Units) -> list[Finding]:
    """Whether what people judged differs from the rest in the judge's verdict or in style."""
    if units.propensity is not None or units.labelled.all() or not units.labelled.any():
        return []
    preference = np.where(np.isnan(units.judge), 0.5, units.judge) - 0.5
    factors = {
        "the judge's verdict": preference,
        "how decided the judge is": np.abs(preference),
        "the difference in style": np.abs(units.style).sum(axis=1),
    }
    tests = {name: _gap(values, units.labelled) for name, values in factors.items()}
    adjusted = holm([p for _, p in tests.values()])
    rule = LABELS_DEPEND_ON
    return [
        rule.finding(factor=name, effect=effect, p_adjusted=float(p))
        for (name, (effect, _)), p in zip(tests.items(), adjusted.tolist(), strict=True)
        if p < rule["p_value"] and abs(effect) >= rule["effect"]
    ]


def _gap(values: FloatArray, labelled: BoolArray) -> tuple[float, float]:
    """Correlation of a column with being labelled, and its p-value."""
    own, other = values[labelled], values[~labelled]
    spread = float(values.std())
    if spread == 0.0 or len(own) < _LEAST_IN_TEST or len(other) < _LEAST_IN_TEST:
        return 0.0, 1.0
    error = np.sqrt(own.var(ddof=1) / len(own) + other.var(ddof=1) / len(other))
    gap = float(own.mean() - other.mean())
    effect = gap / spread * float(np.sqrt(labelled.mean() * (1.0 - labelled.mean())))
    return effect, float(2.0 * ndtr(-abs(gap) / error)) if error > 0 else 1.0
