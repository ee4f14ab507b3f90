"""Intervals, influence estimates and diagnostics under the fuzz rule.

These take columns that were checked at the edge, so here the columns are finite and of one length:
few levels, one value, one row, none at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cje import diagnostics as d
from cje import inference as i
from cje.data import Codes, RaterLabels
from tests.robustness.fuzzing import columns, fuzz, holds_rule, masks, sizes, sound_columns

levels = st.sampled_from([0.95, 0.5, 0.0, 1.0, -1.0, float("nan")])


@fuzz()
@given(st.data(), sizes.filter(bool), levels)
def test_influence_estimates_are_finite_or_refused(data: Any, n: int, level: float) -> None:
    rows = np.stack([data.draw(sound_columns(n)) for _ in range(2)], axis=1)
    clusters = data.draw(st.sampled_from([None, [f"c{k // 2}" for k in range(n)], ["c"] * n]))

    def work() -> Any:
        made = i.InfluenceEstimate.from_rows(["a", "b"], rows, clusters=clusters, bounds=(0.0, 1.0))
        pair = made.difference("a", "b")
        limits = [tuple(x) for x in (*made.intervals(level), *pair.intervals(level))]
        assert all(low <= high for low, high in limits)
        joint = [tuple(x) for x in made.simultaneous_intervals(level, n_draws=20)]
        draws = made.multiplier_bootstrap(5)
        return made.values, made.standard_errors(), limits, joint, pair.p_values(), draws

    holds_rule(work)


@fuzz()
@given(st.data(), sizes.filter(bool), st.floats())
def test_components_of_any_size_are_finite_or_refused(data: Any, n: int, df: float) -> None:
    influence, spread = (data.draw(sound_columns(n))[:, None] for _ in range(2))
    extra = data.draw(st.floats(0.0, 1.0))

    def work() -> Any:
        parts = (
            i.Component("labels", influence, df=df, spread=spread),
            i.Component("raters", covariance=[[extra]], df=df),
        )
        made = i.InfluenceEstimate(("a",), [0.0], parts)
        return made.standard_errors(), made.degrees_of_freedom()

    holds_rule(work)


@fuzz()
@given(st.data(), sizes, levels, st.sampled_from(["auto", "t", "logit", "skew", "other"]))
def test_interval_limits_are_finite_or_refused(
    data: Any, n: int, level: float, method: Any
) -> None:
    value, error = data.draw(sound_columns(n)), data.draw(sound_columns(n))
    df = data.draw(st.sampled_from([1.0, 5.0, np.inf]))
    bounds = data.draw(st.sampled_from([None, (0.0, 1.0)]))
    holds_rule(
        lambda: i.interval_limits(value, error, df=df, level=level, bounds=bounds, method=method)
    )
    holds_rule(lambda: i.t_p_value(value, df))


@fuzz()
@given(st.data(), sizes, levels, st.sampled_from(["auto", "t", "logit", "skew", "other"]))
def test_interval_limits_of_anything_are_finite_or_refused(
    data: Any, n: int, level: float, method: Any
) -> None:
    value, error, df, skewness = (data.draw(columns(n)) for _ in range(4))
    bounds = data.draw(st.sampled_from([None, (0.0, 1.0), (1.0, 0.0), 3, (-1e308, 1e308)]))
    holds_rule(
        lambda: i.interval_limits(
            value, error, df=df, skewness=skewness, level=level, bounds=bounds, method=method
        )
    )
    for alternative in ("two-sided", "greater", "less", "other"):
        holds_rule(lambda a=alternative: i.t_p_value(value, df, a))
    holds_rule(lambda: i.fold_jackknife_covariance(value))
    holds_rule(lambda: i.fold_jackknife_covariance([value, error]))
    holds_rule(lambda: i.jackknife_influence([value, error]))


@pytest.mark.parametrize("adjust", [i.holm, i.benjamini_hochberg])
@fuzz()
@given(data=st.data(), n=sizes)
def test_adjusted_p_values_are_finite_or_refused(adjust: Any, data: Any, n: int) -> None:
    p = data.draw(sound_columns(n, low=data.draw(st.sampled_from([0.0, -1.0])), high=1.0))
    made = holds_rule(lambda: adjust(p))
    assert made is None or ((made >= p - 1e-12) & (made <= 1.0)).all()


@fuzz()
@given(st.data(), sizes, st.integers(1, 3))
def test_jackknife_and_bootstrap_are_finite_or_refused(data: Any, n: int, k: int) -> None:
    table = np.stack([data.draw(sound_columns(n)) for _ in range(k)], axis=1)
    holds_rule(lambda: i.fold_jackknife_covariance(table))
    holds_rule(lambda: i.jackknife_influence(table))
    holds_rule(lambda: i.multiplier_draws(table, n_draws=5, seed=0))
    if n:
        counts = np.ones((n, 1))
        holds_rule(lambda: i.cluster_bootstrap(counts, lambda sums: sums, n_draws=3, seed=0))
    covariance = np.cov(table, rowvar=False).reshape(k, k) if n > 1 else np.zeros((k, k))
    holds_rule(lambda: i.max_t_critical_value(covariance, 5.0, level=0.9, n_draws=50, seed=0))


@fuzz()
@given(st.data(), sizes)
def test_weight_diagnostics_and_gates_are_finite_or_refused(data: Any, n: int) -> None:
    w = data.draw(sound_columns(n, high=data.draw(st.sampled_from([1.0, 1e-12, 1e12]))))

    def work() -> Any:
        found = d.weight_diagnostics("p", w)
        assert all(str(finding) for finding in d.weight_findings(found))
        return found.ess, found.ess_fraction

    holds_rule(work)
    holds_rule(lambda: d.effective_sample_size(w))
    log_p = data.draw(sound_columns(n, high=data.draw(st.sampled_from([1.0, -1e3, 1e12]))))
    lengths = data.draw(st.none() | sound_columns(n))
    holds_rule(lambda: d.target_typicality(-log_p, w, lengths).to_dict())
    assert d.hill_tail_index(w) > 0.0  # infinite where there is no tail
    ratios = np.stack([w, w], axis=1)
    holds_rule(lambda: d.check_weights_vary(ratios, ["a", "b"], ["b"]))


@fuzz()
@given(st.data(), sizes, sizes)
def test_transport_and_overlap_are_finite_or_refused(data: Any, n: int, m: int) -> None:
    label, predicted = data.draw(sound_columns(n)), data.draw(sound_columns(n))
    score = data.draw(st.none() | sound_columns(n))
    holds_rule(lambda: d.audit_transport("p", label, predicted, scores=score))
    holds_rule(lambda: d.not_checked("p"))
    labelled, new = data.draw(sound_columns(n)), data.draw(sound_columns(m))

    def work() -> Any:
        found = d.score_overlap("p", new, labelled)
        d.score_overlap_findings(found)
        return found

    holds_rule(work)


@fuzz()
@given(st.data(), sizes)
def test_fit_bias_and_labelling_are_finite_or_refused(data: Any, n: int) -> None:
    score, label, fitted = (data.draw(sound_columns(n)) for _ in range(3))
    holds_rule(lambda: d.calibration_fit(score, label, fitted))
    numbers = {"length": data.draw(sound_columns(n))}
    groups = np.arange(n) % 3
    holds_rule(lambda: d.judge_biases(fitted - label, numbers, {"g": (groups, ("a", "b", "c"))}))

    def chosen() -> Any:
        tests = d.labelling_tests(data.draw(masks(n)), numbers, {"g": groups})
        d.labelling_findings(tests, has_propensity=False)
        return tests

    holds_rule(chosen)
    raters = Codes(np.arange(n) % 2, ["u", "v"])
    holds_rule(lambda: d.rater_agreement(RaterLabels(np.arange(n) // 2, raters, label)))


@fuzz()
@given(st.data(), sizes)
def test_calibration_curves_are_finite_or_refused(data: Any, n: int) -> None:
    parts = [data.draw(sound_columns(n)) for _ in range(4)]
    parts.append(data.draw(columns(n).filter(lambda c: isinstance(c, np.ndarray) and c.ndim == 1
                                             and c.dtype.kind == "f")))  # fmt: skip
    holds_rule(lambda: i.CalibrationCurve(*parts) and None)


@fuzz()
@given(st.data(), sizes.filter(bool))
def test_the_leader_of_several_quantities_is_finite_or_refused(data: Any, n: int) -> None:
    rows = np.stack([data.draw(sound_columns(n)) for _ in range(3)], axis=1)
    covariance = np.cov(rows.T) if n > 1 else np.zeros((3, 3))
    df = data.draw(st.sampled_from([1.0, 5.0, float("inf")]))

    def work() -> float:
        return i.leader_critical_value(covariance, df, level=0.95, n_draws=50, seed=0)

    assert holds_rule(work) >= 0.0


@fuzz()
@given(st.none() | st.floats(), st.none() | st.floats(), st.floats(), st.floats())
def test_the_gate_rule_is_finite_or_refused(
    margin: float | None, gain: float | None, first: float, second: float
) -> None:
    low, high = sorted([first, second]) if first == first and second == second else (first, second)
    rule = holds_rule(lambda: i.GateRule(margin, gain))
    if rule is not None:
        holds_rule(lambda: rule.decide(low, high))


@fuzz()
@given(st.data(), sizes.filter(bool))
def test_identical_weights_are_finite_or_refused(data: Any, n: int) -> None:
    ratios = data.draw(sound_columns(n, low=-20.0, high=20.0))
    holds_rule(lambda: d.weights_vary(ratios, "a", data.draw(st.sampled_from([None, 2 * ratios]))))
