"""Skipped rows as non-response: how far they could move each value, and whether rates differ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import chdtrc

from cje.findings.labels import LABEL_SKIPS
from cje.inference import Finding, Severity
from cje.results.result import EstimationResult

__all__ = ["skip_findings"]


def skip_findings(
    result: EstimationResult, skips: Mapping[str, int], labels: Mapping[str, int]
) -> tuple[Finding, ...]:
    r"""Findings on the effect of raters' skips on each value.

    With the share s of a policy's rows skipped and V its value from the others, the value of all
    its rows lies between :math:`(1-s)V + s\,low` and :math:`(1-s)V + s\,high`. Where the policies'
    shares differ (chi-squared test, p < 0.05), the difference is in doubt and this is a warning.

    Parameters
    ----------
    result : EstimationResult
    skips, labels : mapping policy -> count
    """
    if not any(skips.values()):
        return ()
    low, high = result.metadata.get("scale", (0.0, 1.0))
    values = dict(zip(result.policies, result.estimates.tolist(), strict=True))
    bounds, parts = {}, []
    for name, value in values.items():
        asked = skips.get(name, 0) + labels.get(name, 0)
        share = skips.get(name, 0) / asked if asked else 0.0
        kept = (1.0 - share) * value
        bounds[name] = [kept + share * low, kept + share * high]
        parts.append(
            f"{name} {skips.get(name, 0)} of {asked} "
            f"({bounds[name][0]:.3g} to {bounds[name][1]:.3g})"
        )
    p = _p_equal([(skips.get(n, 0), labels.get(n, 0)) for n in values])
    differ = p is not None and p < LABEL_SKIPS["differ"]
    message = "raters skipped rows; the value of all rows lies within: " + ", ".join(parts)
    if differ:
        message += f"; policies are skipped at different rates (p = {p:.2g})"
    return (
        LABEL_SKIPS.finding(
            severity=Severity.WARNING if differ else Severity.INFO,
            message=message,
            details={"skips": dict(skips), "labels": dict(labels), "bounds": bounds, "p_equal": p},
        ),
    )


def _p_equal(counts: list[tuple[int, int]]) -> float | None:
    """P-value of equal skipping rates of all policies; None if there is nothing to compare."""
    table = np.array([pair for pair in counts if sum(pair) > 0], dtype=float)
    if len(table) < 2 or (table.sum(axis=0) == 0).any():
        return None
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return float(chdtrc(len(table) - 1, statistic))
