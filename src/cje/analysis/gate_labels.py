"""What would decide an undecided gate: an approximate number of further labels."""

from __future__ import annotations

import math

from cje.analysis.label_plan import Goal, plan_study
from cje.analysis.pilot import MIN_PILOT_LABELS, measure_pilot
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.inference import GateRule, Severity
from cje.results.comparison import Comparison
from cje.results.result import EstimationResult

__all__ = ["more_labels", "what_would_decide"]

POWER = 0.8
_MOST_FACTOR = 25.0


def what_would_decide(
    result: EstimationResult, pair: Comparison, rule: GateRule, groups: str = ""
) -> str:
    """One sentence on what would turn UNDECIDED into a decision.

    The number of labels is that of `cje plan` for detecting, with 80% power, that the difference
    seen now lies on its side of the threshold. `groups` are the undecided levels if all rows
    together are decided.
    """
    if pair.refused is not None:
        steps = [
            finding.action
            for finding in result.findings
            if finding.severity is Severity.REFUSE and finding.subject in (None, pair.a, pair.b)
        ]
        return f"What would decide it: {steps[0].rstrip('.')}." if steps else "Nothing can, as is."
    if groups:
        return f"What would decide it: more labels where {groups}."
    gap = abs(pair.difference - rule.threshold)
    evidence = result.evidence
    if gap == 0.0:
        return "The difference seen lies exactly at the threshold: no number of labels is enough."
    if evidence is None or result.metadata.get("off_policy"):
        half = 0.5 * pair.interval.width
        return f"What would decide it: about {_times(half, gap)} the prompts and labels."
    return more_labels(evidence.dataset, pair, gap, result.level)


def more_labels(data: Dataset, pair: Comparison, gap: float, level: float) -> str:
    """Approximate number of further labels (and prompts) to detect `gap` with 80% power."""
    rows = data.policy.mask(pair.a) | data.policy.mask(pair.b)
    two = data.select(rows)
    have = two.n_labelled
    if have < MIN_PILOT_LABELS:
        return (
            f"What would decide it is unknown: label at least {MIN_PILOT_LABELS} responses first."
        )
    quality = measure_pilot(two, n_draws=0).quality
    goal = Goal("power", gap, level, POWER)
    n_prompts = len(set(two.prompt_id.codes.tolist()))
    half = 0.5 * pair.interval.width
    condition = "if the true difference is the one seen now (80% power)"
    if (half / gap) ** 2 > _MOST_FACTOR:
        return (
            "The difference seen is too close to the threshold: to decide, more than "
            f"{_MOST_FACTOR:.0f} times the prompts and labels would be needed."
        )
    missing = have * ((half / gap) ** 2 - 1.0)  # to shrink the interval just found
    try:
        design = plan_study(quality, goal, n_policies=2, max_prompts=n_prompts)
        missing = max(design.total_labels - have, missing, 1.0)
    except CJEError:  # not on these prompts, however many of them are labelled
        missing = math.inf
    if missing <= len(two) - have:
        return f"What would decide it: about {_about(missing)} more labels, {condition}."
    design = plan_study(quality, goal, n_policies=2)
    prompts = _about(max(design.n_prompts - n_prompts, n_prompts * ((half / gap) ** 2 - 1.0), 1.0))
    labels = _about(max(design.total_labels - have, have * ((half / gap) ** 2 - 1.0), 1.0))
    return (
        f"What would decide it: about {prompts} more prompts and {labels} more labels, {condition}."
    )


def _times(half: float, gap: float) -> str:
    factor = (half / gap) ** 2
    if factor > _MOST_FACTOR:
        return f"more than {_MOST_FACTOR:.0f} times"
    return f"{max(factor, 1.1):.2g} times"


def _about(count: float) -> str:
    """Two significant digits: a plan is no more precise than that.

    Examples
    --------
    >>> _about(57.2), _about(1234)
    ('58', '1,300')
    """
    step = 10 ** max(math.floor(math.log10(max(count, 1.0))) - 1, 0)
    return f"{math.ceil(count / step) * step:,}"
