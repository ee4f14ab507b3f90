r"""Do the weights turn the log into the target? Compare it with the target's own draws.

Right weights give :math:`E_{\pi_0}[W h] = E_{\pi}[h]` for every feature h of a response. Fresh draws show the right
side, so the judge's score, the calibrated reward, the calibration's covariates and the length of a response, where
both files have it, test the weights. Log-probs that are wrong by length, truncated or of another template fail here even where the mean
weight is one.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cje.data import Dataset
from cje.data.field_names import may_be_length
from cje.findings import Finding, Severity
from cje.findings.weights import WEIGHTS_MISS_DRAWS
from cje.inference import InfluenceEstimate, holm
from cje.kernels.arrays import FloatArray
from cje.kernels.clusters import cluster_sums

if TYPE_CHECKING:
    from cje.estimators.offpolicy.problem import Problem

__all__ = ["weight_check_findings"]


@dataclass(frozen=True)
class _Gap:
    """Weighted log minus fresh draws, in standard deviations of the draws, and its p-value."""

    policy: int
    feature: str
    size: float
    p: float


def weight_check_findings(
    problem: Problem,
    logged: Dataset,
    fresh: Dataset,
    standard_errors: FloatArray,
    *,
    covariates: Sequence[str],
    weighs_labels: bool,
) -> list[Finding]:
    """The worst feature of every policy whose weighted log differs from its draws.

    `standard_errors` are the values', labels on [0, 1]. What the judge misses can follow a feature
    with a slope of at most its standard deviation, sigma, per standard deviation of the feature: a
    gap of g moves labels weighted by W by up to g sigma. Where labels are weighted by m(S) (not
    `weighs_labels`) wrong weights alone cause no bias, and the finding is a warning.
    """
    columns = _shared(logged, fresh, covariates)
    gaps = [gap for gap in _gaps(problem, logged, fresh, columns) if gap is not None]
    if not gaps:
        return []
    adjusted = dict(zip(gaps, holm([gap.p for gap in gaps]), strict=True))
    sigma = _missed(problem)
    found = []
    for k, name in enumerate(problem.logged.policies):
        mine = [gap for gap in gaps if gap.policy == k]
        worst = min(mine, key=lambda gap: adjusted[gap], default=None)
        if worst is None or adjusted[worst] >= WEIGHTS_MISS_DRAWS["p_value"]:
            continue
        material = WEIGHTS_MISS_DRAWS["standard_errors"] * standard_errors[k]
        refuse = (
            weighs_labels
            and adjusted[worst] < WEIGHTS_MISS_DRAWS["refuse_p_value"]
            and abs(worst.size) * sigma > material
        )
        found.append(
            WEIGHTS_MISS_DRAWS.finding(
                name,
                severity=Severity.REFUSE if refuse else Severity.WARNING,
                feature=worst.feature,
                gap=worst.size,
                p_adjusted=float(adjusted[worst]),
            )
        )
    return found


def _missed(problem: Problem) -> float:
    """Standard deviation of the labels around the calibration."""
    term = problem.term(problem.logged.weights)
    return float(np.sqrt(term.design @ term.residual[:, 0] ** 2))


def _shared(logged: Dataset, fresh: Dataset, covariates: Sequence[str]) -> list[str]:
    """Columns of both files that describe a response: lengths, and covariates."""
    return [
        name
        for name in logged.covariates
        if (name in covariates or may_be_length(name))
        and name in fresh.covariates
        and np.isfinite(logged.covariates[name]).all()
        and np.isfinite(fresh.covariates[name]).all()
    ]


def _gaps(
    problem: Problem, logged: Dataset, fresh: Dataset, columns: Sequence[str]
) -> Iterator[_Gap | None]:
    rows, reward = problem.logged, problem.pooled
    predict = problem.rewards.model.predict
    for k, (name, draws) in enumerate(zip(rows.policies, problem.fresh, strict=True)):
        yield _gap(problem, k, "judge score", rows.scores, draws.scores)
        own = predict(draws.scores, draws.covariates)
        yield _gap(problem, k, "calibrated reward", reward, own)
        mine = fresh.policy.mask(name)
        for column in columns:
            yield _gap(
                problem, k, column, logged.covariates[column], fresh.covariates[column][mine]
            )


def _gap(
    problem: Problem, k: int, feature: str, logged: FloatArray, fresh: FloatArray
) -> _Gap | None:
    """One feature of one policy; None where it does not vary among the draws."""
    rows, draws = problem.logged, problem.fresh[k]
    mean = float(draws.weight @ fresh)
    sd = float(np.sqrt(draws.weight @ (fresh - mean) ** 2))
    if sd <= 1e-9 * max(abs(mean), 1e-300):
        return None
    x, y = (logged - mean) / sd, (fresh - mean) / sd
    weight = rows.weights[:, k] / len(rows)
    gap = float(weight @ x)
    by_prompt = cluster_sums(weight * (x - gap), rows.clusters, problem.n_clusters)
    by_prompt -= draws.cluster_influence(y, problem.n_clusters)
    contrast = InfluenceEstimate.from_influence((feature,), [gap], by_prompt[:, None])
    return _Gap(k, feature, gap, float(contrast.p_values()[0]))
