"""The one registry of findings: code, severity, thresholds, wording and meaning of each.

The computations behind them live in `cje.diagnostics`, in the estimators and in the pipeline; each
asks its rule here for the threshold and has it write the finding.
"""

from __future__ import annotations

from cje.findings import labels, metrics, pairwise, running, weights
from cje.findings.finding import Finding, Rule, Severity

__all__ = ["RULES", "Finding", "Rule", "Severity", "describe"]

_GROUPS = (
    ("Labels, judge and calibration", labels.RULES),
    ("Side-by-side comparisons", pairwise.RULES),
    ("Logged data and importance weights", weights.RULES),
    ("The pipeline and its log-probs", running.RULES),
    ("Classification and survival metrics", metrics.RULES),
)
RULES: dict[str, Rule] = {rule.code: rule for _, rules in _GROUPS for rule in rules}
"""Every rule by its code."""


def describe(*, markdown: bool = False) -> str:
    """The registry as text: what each finding means, when it appears, and what to do."""
    lines: list[str] = []
    for title, rules in _GROUPS:
        lines += [f"## {title}" if markdown else title.upper(), ""]
        for rule in sorted(rules, key=lambda rule: rule.code):
            lines += [*(rule.markdown() if markdown else rule.plain()), ""]
    return "\n".join(lines).rstrip() + "\n"
