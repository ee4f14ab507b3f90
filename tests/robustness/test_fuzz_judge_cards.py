"""Agreement statistics and judge cards under the fuzz rule."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cje.diagnostics import (
    JudgeCards,
    JudgeIdentity,
    cohen_kappa,
    explained_share,
    judge_cards,
    krippendorff_alpha,
    rank_correlation,
    sensitivity_specificity,
)
from tests.robustness.fuzzing import fuzz, holds_rule

number = st.one_of(st.integers(-3, 9), st.floats(-1.0, 6.0), st.floats(), st.none())
column = st.lists(number, max_size=8)
table = st.lists(st.lists(number, min_size=2, max_size=3), max_size=6)


@fuzz()
@given(
    column, column, st.sampled_from(["none", "linear", "quadratic", "cubic"]), st.none() | column
)
def test_statistics_of_two_columns_are_finite_or_refused(
    a: Any, b: Any, weights: Any, each: Any
) -> None:
    holds_rule(lambda: cohen_kappa(a, b, weights=weights, sample_weight=each))
    holds_rule(lambda: rank_correlation(a, b, sample_weight=each))
    holds_rule(lambda: explained_share(a, b, sample_weight=each))
    holds_rule(lambda: sensitivity_specificity(a, b, sample_weight=each))


@fuzz()
@given(table, st.sampled_from(["nominal", "ordinal", "interval", "ratio"]))
def test_alpha_is_finite_or_refused(ratings: Any, metric: Any) -> None:
    holds_rule(lambda: krippendorff_alpha(ratings, metric=metric))


kinds = st.sampled_from(["whole", "smooth", "constant", "wild", "missing", "two", "huge"])


def _made(kind: str, rng: np.random.Generator, n: int) -> np.ndarray:
    whole = rng.integers(1, 6, n).astype(float)
    return {
        "whole": whole,
        "smooth": rng.normal(size=n),
        "constant": np.full(n, 3.0),
        "wild": np.where(rng.random(n) < 0.05, np.inf, whole),
        "missing": np.where(rng.random(n) < 0.5, np.nan, whole),
        "two": rng.integers(0, 2, n).astype(float),
        "huge": whole * 1e99,
    }[kind]


@fuzz()
@given(kinds, kinds, kinds, st.integers(0, 90), st.integers(1, 40), st.integers(0, 10**6))
def test_cards_are_finite_or_refused(
    score: str, label: str, other: str, n: int, prompts: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)

    def work() -> Any:
        found = judge_cards(
            {"one": _made(score, rng, n), "two": _made(other, rng, n)},
            _made(label, rng, n),
            prompts=rng.integers(0, prompts, n).tolist(),
            policies=rng.integers(0, 3, n).tolist(),
            weights=rng.random(n) if seed % 2 else None,
            ratings=np.column_stack([_made(label, rng, n), _made(other, rng, n)]),
            repeats={"one": np.column_stack([_made(score, rng, n), _made(other, rng, n)])},
            factors={"f": _made(other, rng, n).tolist(), "g": (["a", "b", None] * n)[:n]},
        )
        return found.to_dict()

    holds_rule(work)


@fuzz()
@given(st.text(max_size=40), st.text(max_size=10), st.text(max_size=10))
def test_cards_of_any_text_and_identities_of_any_name_are_sound_or_refused(
    text: str, judge: str, rubric: str
) -> None:
    holds_rule(lambda: JudgeCards.from_json(text).to_dict())
    holds_rule(lambda: JudgeIdentity.of(judge, rubric=rubric).to_dict())
