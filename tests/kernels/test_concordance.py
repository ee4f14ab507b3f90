"""Pair counts equal the double loop and the peers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cje.kernels.concordance import concordance_pairs


def _double_loop(t, e, r, w, v):  # type: ignore[no-untyped-def]
    out = np.zeros((6, len(t)))
    for i in np.flatnonzero(e):
        for j in range(len(t)):
            if i != j and (t[i] < t[j] or (t[i] == t[j] and not e[j])):
                lead = w[i] * v[i]
                out[2, i] += w[j]
                out[5, j] += lead
                kind = 0 if r[i] > r[j] else 1 if r[i] == r[j] else None
                if kind is not None:
                    out[kind, i] += w[j]
                    out[3 + kind, j] += lead
    return out


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(1, 12), st.integers(1, 9), st.integers(0, 10_000))
def test_counts_equal_the_double_loop_with_ties_and_weights(
    n: int, n_times: int, n_risks: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    time = rng.integers(1, n_times + 1, n).astype(float)
    event = rng.random(n) < 0.6
    risk = rng.integers(0, n_risks, n).astype(float)
    w, v = rng.random(n), rng.random(n) + 0.1
    mine = np.array(concordance_pairs(time, event, risk, w, v))
    np.testing.assert_allclose(mine, _double_loop(time, event, risk, w, v), atol=1e-9)
    ones = np.ones(n)
    mine = np.array(concordance_pairs(time, event, risk))
    np.testing.assert_allclose(mine, _double_loop(time, event, risk, ones, ones), atol=1e-9)


def test_concordance_equals_lifelines_and_scikit_survival() -> None:
    lifelines = pytest.importorskip("lifelines.utils")
    sksurv = pytest.importorskip("sksurv.metrics")
    rng = np.random.default_rng(0)
    for decimals in (6, 0):
        risk = rng.normal(size=500).round(max(decimals, 1))
        latent = rng.exponential(np.exp(-risk)).round(decimals) + 1.0
        event = rng.random(500) < 0.6
        pairs = concordance_pairs(latent, event, risk)
        top = (pairs.concordant_first + 0.5 * pairs.tied_first).sum()
        mine = top / pairs.comparable_first.sum()
        assert mine == pytest.approx(lifelines.concordance_index(latent, -risk, event), abs=1e-12)
        other = sksurv.concordance_index_censored(event, latent, risk)
        assert mine == pytest.approx(other[0], abs=1e-12)
        assert pairs.concordant_first.sum() == other[1]
        assert pairs.tied_first.sum() == other[3]
