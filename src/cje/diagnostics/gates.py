"""Gates: from diagnostics to findings that warn, or refuse a number, and say what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cje.diagnostics.overlap import ScoreOverlap, WeightDiagnostics
from cje.errors import CJEError
from cje.inference import Finding, Severity
from cje.kernels.arrays import FloatArray

__all__ = [
    "GateThresholds",
    "check_weights_vary",
    "score_overlap_findings",
    "weight_findings",
]


_FRESH = (
    "draw fresh responses from this policy and use the direct method, or log more data from a "
    "policy closer to it"
)


@dataclass(frozen=True)
class GateThresholds:
    """Where a gate warns and where it refuses.

    The refusal levels are where the intervals of the simulation study (`benchmarks/coverage.py`)
    stop covering; the warning levels are where their width grows quickly.
    """

    ess_fraction_refuse: float = 0.10
    ess_fraction_warn: float = 0.30
    ess_refuse: float = 50.0
    tail_index_refuse: float = 1.5
    tail_index_warn: float = 2.0
    mean_weight_z: float = 5.0
    labels_ess_refuse: float = 15.0
    thin_scores_warn: float = 0.05
    outside_scores_refuse: float = 0.30


def check_weights_vary(
    log_ratios: FloatArray,
    policies: Sequence[str],
    same_as_logging: Sequence[str] = (),
    *,
    unclipped: FloatArray | None = None,
) -> None:
    """Refuse to go on where a policy's weights are all identical.

    Two different policies never give every response the same likelihood ratio; that all ratios are
    equal means the logged responses were never scored under the target (a default stood in).
    `same_as_logging` names policies configured exactly like the logging one (an A/A check).
    `unclipped` ratios tell weights that all sit at the clip from weights that never varied.
    """
    for k, name in enumerate(policies):
        column = log_ratios[:, k]
        if name in same_as_logging or len(column) < 2:
            continue
        if float(np.ptp(column)) > 1e-9:
            continue
        if unclipped is not None and float(np.ptp(unclipped[:, k])) > 1e-9:
            raise CJEError(
                f"every log-ratio of '{name}' lies beyond the clip (they run from "
                f"{float(unclipped[:, k].min()):.6g} to {float(unclipped[:, k].max()):.6g}, the "
                f"clip is at {abs(float(column[0])):g}), so no weight says anything",
                where=f"target policy {name}",
                hint="check that both log-probs are of the same response, template and tokens, and "
                "that both are sums over tokens in natural logarithms",
            )
        raise CJEError(
            f"all importance weights of '{name}' are identical "
            f"(log-ratio {float(column[0]):.6g} on all {len(column)} rows), so the estimate "
            "would be the logging policy's own value under another name",
            where=f"target policy {name}",
            hint="score the logged responses under the target policy (teacher forcing: the "
            "log-probability of the logged response, not of a new one) and put the result in "
            "target_policy_logprobs; for an A/A check say "
            f"same_as_logging=['{name}']",
        )


def weight_findings(
    diagnostics: WeightDiagnostics, thresholds: GateThresholds | None = None
) -> list[Finding]:
    """Findings from one policy's raw weights."""
    t = thresholds or GateThresholds()
    d = diagnostics
    found = []
    reach = f"effective sample size {d.ess:.0f} of {d.n} logged rows ({d.ess_fraction:.1%})"
    if d.ess_fraction < t.ess_fraction_refuse or d.ess < t.ess_refuse:
        found.append(_finding("low-ess", reach, Severity.REFUSE, _FRESH, d))
    elif d.ess_fraction < t.ess_fraction_warn:
        found.append(_finding("low-ess", reach, Severity.WARNING, _FRESH, d))
    tail = (
        f"the heaviest weights have tail index {d.tail_index:.2f} (below 2 the variance is not "
        f"finite); the top 5% of rows carry {d.top5_share:.0%} of the weight"
    )
    if d.tail_index < t.tail_index_refuse:
        found.append(_finding("heavy-tail", tail, Severity.REFUSE, _FRESH, d))
    elif d.tail_index < t.tail_index_warn:
        found.append(_finding("heavy-tail", tail, Severity.WARNING, _FRESH, d))
    if d.mean_weight_se > 0 and abs(d.mean_weight - 1.0) > t.mean_weight_z * d.mean_weight_se:
        found.append(
            _finding(
                "mean-weight",
                f"unnormalised weights average {d.mean_weight:.3g}, not 1 "
                f"(standard error {d.mean_weight_se:.2g})",
                Severity.WARNING,
                "check that logging and target log-probs were scored by the same engine, template "
                "and tokens; self-normalised estimates cancel a constant factor, ips does not",
                d,
            )
        )
    if d.n_above:
        found.append(
            _finding(
                "clipped-ratios",
                f"{d.n_above} of {d.n} log-ratios were cut at the hard clip, so that the largest "
                "weights no longer compare with the others",
                Severity.REFUSE,
                "check that both log-probs are of the same response, template and tokens: a ratio "
                "of that size is next to impossible",
                d,
            )
        )
    elif d.n_clipped:
        found.append(
            _finding(
                "clipped-ratios",
                f"{d.n_clipped} of {d.n} log-ratios were beyond the hard clip",
                Severity.WARNING,
                "look at those rows: such ratios usually mean truncated or mismatched responses",
                d,
            )
        )
    return found


def _finding(
    code: str, message: str, severity: Severity, action: str, d: WeightDiagnostics
) -> Finding:
    return Finding(code, message, severity, action, d.policy, d.to_dict())


def score_overlap_findings(
    overlap: ScoreOverlap, thresholds: GateThresholds | None = None
) -> list[Finding]:
    """Findings on scores that the labels do not reach: the calibration extrapolates there."""
    t = thresholds or GateThresholds()
    next_step = "label responses of this policy, choosing rows from the scores that lack labels"
    if overlap.outside >= t.outside_scores_refuse:
        message = (
            f"{overlap.outside:.0%} of its judge scores lie outside the range of the labelled "
            "scores; the calibration is extrapolated there"
        )
        return [Finding("scores-outside-labels", message, Severity.REFUSE, next_step,
                        overlap.policy, overlap.to_dict())]  # fmt: skip
    if overlap.thin > t.thin_scores_warn:
        message = (
            f"{overlap.thin:.0%} of its judge scores fall where fewer than {overlap.min_labels} "
            "labels were taken"
        )
        return [Finding("scores-thinly-labelled", message, Severity.WARNING, next_step,
                        overlap.policy, overlap.to_dict())]  # fmt: skip
    return []
