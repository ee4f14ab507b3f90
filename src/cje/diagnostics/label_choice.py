"""Were the labelled rows chosen as stated: at random, or with the recorded probabilities?"""

from __future__ import annotations

import numpy as np

from cje.data.dataset import Dataset
from cje.diagnostics.labelling import ChanceGap, chance_gap
from cje.findings import Finding
from cje.findings.labels import LABELS_NOT_RANDOM
from cje.inference.intervals import t_p_value
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.clusters import cluster_sums, count_distinct, renumbered

__all__ = ["label_choice_findings", "random_gap", "score_gap_findings", "weighted_balance"]


def label_choice_findings(data: Dataset, *, by_policy: bool = True) -> list[Finding]:
    r"""Findings where the judge scores of labelled rows do not fit the stated way of choosing them.

    Without `label_propensity` the mean score of the labelled rows is compared with what drawing
    rows, or whole prompts, at random would give (`chance_gap`). With propensities :math:`\pi` the
    sum of :math:`(L_i/\pi_i - 1)(S_i - \bar S)`, clustered by prompt, has mean zero. Both are
    taken as t with as many degrees of freedom as there are labelled prompts, less one.

    Parameters
    ----------
    data : Dataset
    by_policy : bool
        Test each policy by itself (fresh draws); otherwise all rows at once (a log).
    """
    codes = data.policy.codes if by_policy else np.zeros(len(data), dtype=np.int64)
    found = []
    for code in np.flatnonzero(np.bincount(codes)):
        mine = np.flatnonzero(codes == code)
        tested = _gap(data, mine)
        if tested is None:
            continue
        known = data.label_propensity is not None
        found += score_gap_findings(
            data.policy.names[code] if by_policy else None,
            data.judge_scale.width * tested[0],
            tested[1],
            n_rows=len(mine),
            how="with the recorded probabilities" if known else "at random",
        )
    return found


def score_gap_findings(
    policy: str | None, gap: float, p_value: float, *, n_rows: int, how: str
) -> list[Finding]:
    """A finding where the scores of labelled rows are further from the others' than chance."""
    if p_value >= LABELS_NOT_RANDOM["p_value"]:
        return []
    return [LABELS_NOT_RANDOM.finding(policy, gap=gap, n_rows=n_rows, p_value=p_value, how=how)]


def random_gap(found: ChanceGap) -> tuple[float, float]:
    """The gap of labels drawn at random, and its p-value."""
    return found.gap, float(t_p_value(found.z, max(found.n_prompts - 1.0, 1.0)))


def _gap(data: Dataset, mine: IntArray) -> tuple[float, float] | None:
    """Difference between the labelled rows' scores and those of all rows, and its p-value."""
    score, labelled = data.judge_score[mine], data.is_labelled[mine]
    n = int(labelled.sum())
    if n < LABELS_NOT_RANDOM["labels_needed"] or float(np.ptp(score)) == 0.0:
        return None
    prompts = data.units.codes[mine]
    if data.label_propensity is not None:
        # Where a row is not labelled its propensity may be unknown (an active design), and is
        # not needed.
        excess = np.where(labelled, 1.0 / data.label_propensity[mine], 0.0) - 1.0
        centred = (score - score.mean()) / len(score)
        return weighted_balance(excess, centred, prompts, labelled)
    if n == len(score):
        return None
    return random_gap(chance_gap(score, labelled, prompts))


def weighted_balance(
    excess: FloatArray, h: FloatArray, clusters: IntArray, labelled: BoolArray
) -> tuple[float, float]:
    """The sum of (L / pi - 1) h, and its two-sided p-value, clustered."""
    code, n_clusters = renumbered(clusters)
    by_prompt = cluster_sums(excess * h, code, n_clusters)
    gap, error = float(by_prompt.sum()), float(np.sqrt(by_prompt @ by_prompt))
    prompts = count_distinct(code[labelled])
    if error <= 1e-12 or prompts < 2:
        return gap, 1.0
    return gap, float(t_p_value(gap / error, prompts - 1.0))
