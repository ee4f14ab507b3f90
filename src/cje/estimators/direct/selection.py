"""Selected labels: modelled where the overlap allows, otherwise refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cje.data.dataset import Dataset
from cje.data.field_names import may_be_time
from cje.data.folds import get_folds
from cje.diagnostics.labelling import ChanceGap, chance_gap
from cje.diagnostics.selection import (
    SelectionCheck,
    check_selection,
    place_in_file,
    selection_refits,
)
from cje.findings import Finding
from cje.findings.labels import (
    FIRST_ROWS_LABELLED,
    LABELS_MODELLED,
    LABELS_NOT_RANDOM,
    LABELS_SELECTED,
)
from cje.inference import t_p_value
from cje.inference.components import Component
from cje.kernels.arrays import FloatArray
from cje.results.result import EstimationResult

if TYPE_CHECKING:
    from cje.estimators.direct.estimator import DirectEstimator

__all__ = [
    "check_labelling",
    "order_findings",
    "place_findings",
    "refused_within",
    "selection_findings",
    "with_labelling_model",
]

_FOLDS = 10


def check_labelling(data: Dataset) -> tuple[Dataset, dict[str, SelectionCheck]]:
    """Check each policy's labels; the data with the modelled propensities, where any are.

    Nothing is checked where propensities are recorded.
    """
    if data.label_propensity is not None or not data.is_labelled.any():
        return data, {}
    labelled = data.is_labelled
    checks: dict[str, SelectionCheck] = {}
    chance = np.ones(len(data))
    factors = _factors(data)
    for code, policy in enumerate(data.policy.names):
        mine = np.flatnonzero(data.policy.codes == code)
        if not labelled[mine].any():
            continue
        own = {name: values[mine] for name, values in factors.items()}
        found = check_selection(labelled[mine], own, data.units.codes[mine])
        checks[policy] = found
        share = float(labelled[mine].mean())
        chance[mine] = share if found.propensity is None else found.propensity
    if not any(check.status == "modelled" for check in checks.values()):
        return data, checks
    return data.with_columns(label_propensity=chance), checks


def _factors(data: Dataset) -> dict[str, FloatArray]:
    factors = {"judge score": data.judge_score}
    for name, values in data.covariates.items():
        if np.isfinite(values).any():
            factors[name] = values
    if data.response is not None and not any("length" in name for name in factors):
        factors["response length"] = data.response.lengths().astype(np.float64)
    return factors


def selection_findings(
    checks: Mapping[str, SelectionCheck], findings: Sequence[Finding]
) -> list[Finding]:
    """`findings` with those of the checks in place of the general one on the same policy."""
    own = [finding for policy, check in checks.items() for finding in _findings(policy, check)]
    said = {finding.subject for finding in own}
    others = [
        finding
        for finding in findings
        if finding.code != LABELS_NOT_RANDOM.code or finding.subject not in said
    ]
    return [*others, *own]


def order_findings(data: Dataset, checks: Mapping[str, SelectionCheck]) -> list[Finding]:
    """Policies whose labels lie in one part of the file, where no column of times explains it.

    Policies with recorded propensities have no check. Where labelling was modelled from other
    factors, the place of a row is compared beyond what these explain: a file in the order of the
    score, labelled more often at high scores, is not labelled by its order.
    """
    found: list[Finding] = []
    if any(may_be_time(name) for name in data.covariates):
        return found
    factors = _factors(data)
    for code, policy in enumerate(data.policy.names):
        check = checks.get(policy)
        if check is None or check.status == "refused" or not check.factors:
            continue
        mine = np.flatnonzero(data.policy.codes == code)
        labelled, gap = data.is_labelled[mine], check.position
        if gap is None:
            explained = [factors[name][mine] for name in check.depends_on]
            beyond = _residual(place_in_file(len(mine)), explained)
            gap = chance_gap(beyond, labelled, data.units.codes[mine])
        found += place_findings(policy, gap, float(place_in_file(len(mine))[labelled].mean()))
    return found


def place_findings(policy: str, gap: ChanceGap, position: float) -> list[Finding]:
    """A finding where the places of the labelled rows, on 0-1 with mean `position`, are one end."""
    limits = FIRST_ROWS_LABELLED
    p = float(t_p_value(gap.z, max(gap.n_prompts - 1.0, 1.0)))
    if p >= limits["p_value"] or abs(gap.gap) <= limits["position"]:
        return []
    where = "beginning" if gap.gap < 0 else "end"
    return [limits.finding(policy, where=where, position=position, p_value=p)]


def _residual(values: FloatArray, factors: Sequence[FloatArray]) -> FloatArray:
    """What a line in the factors (at their mean where missing) leaves of the values."""
    if not factors:
        return values
    columns = [np.ones_like(values)]
    for factor in factors:
        known = np.isfinite(factor)
        columns.append(np.where(known, factor, factor[known].mean() if known.any() else 0.0))
    table = np.column_stack(columns)
    return np.asarray(values - table @ np.linalg.lstsq(table, values, rcond=None)[0])


def with_labelling_model(
    result: EstimationResult, checks: Mapping[str, SelectionCheck], estimator: DirectEstimator
) -> EstimationResult:
    """The result with intervals wider for the estimation of the labelling model."""
    modelled = [name for name, check in checks.items() if check.status == "modelled"]
    if not modelled:
        return result
    covariance = _model_covariance(estimator, modelled)
    extra = Component("labelling model", covariance=covariance, df=_FOLDS - 1.0)
    influence = result.influence
    return result.with_(influence=replace(influence, components=(*influence.components, extra)))


def _findings(policy: str, check: SelectionCheck) -> list[Finding]:
    if check.status == "random":
        return []
    factors, details = " and ".join(check.depends_on), check.to_dict()
    if check.status == "modelled":
        return [LABELS_MODELLED.finding(policy, details=details, factors=factors)]
    reason = check.reason
    return [LABELS_SELECTED.finding(policy, details=details, factors=factors, reason=reason)]


def _model_covariance(estimator: DirectEstimator, modelled: list[str]) -> FloatArray:
    """Delete-one-fold jackknife of the labels' correction over refits of the labelling model."""
    data = estimator.dataset
    assert isinstance(data, Dataset)  # a file in parts is refused where labels were selected
    names = data.policy.compact().names
    labels = estimator.pool_.labels[: estimator.pool_.n_own]
    rows = np.flatnonzero(data.is_labelled)
    residual = np.zeros(len(data))
    residual[rows] = labels - estimator.predictor_.at_labels[: len(rows)]
    out = np.zeros((len(names), len(names)))
    for policy in modelled:
        mine = np.flatnonzero(data.policy.mask(policy))
        labelled = data.is_labelled[mine]
        factors = {
            name: values[mine]
            for name, values in _factors(data).items()
            if np.isfinite(values[mine]).all()
        }
        fold = get_folds(data.units, _FOLDS)[mine]
        values = []
        for chance in selection_refits(labelled, factors, fold, _FOLDS):
            weight = labelled / chance
            values.append(float(weight @ residual[mine] / weight.sum()))
        n, each = len(values), np.asarray(values)
        if n > 1:
            k = names.index(policy)
            out[k, k] = (n - 1.0) / n * float(((each - each.mean()) ** 2).sum())
    width = data.oracle_scale.width
    return np.asarray(out * width**2)


def refused_within(part: EstimationResult, checks: Mapping[str, SelectionCheck]) -> list[Finding]:
    """Refusals of the cells of policies whose labels were selected beyond correction."""
    return [
        replace(finding, subject=name)
        for name, cell in zip(part.policies, part.cells or (), strict=True)
        if (check := checks.get(cell["policy"])) is not None and check.status == "refused"
        for finding in _findings(cell["policy"], check)
    ]
