"""Comparisons under the fuzz rule: any columns, any words."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cje.analysis import analyze_dataset
from cje.data import Comparisons, read_comparisons
from cje.estimators import PairwiseEstimator
from tests.robustness.fuzzing import columns, fuzz, holds_rule, masks, sizes, sound_columns

WORDS = st.sampled_from(
    ["model_a", "model_b", "tie", "both bad", "A", "b", "x", "y", "", None, "error", "1", "0.5",
     "nonsense", 2, 1.5, 0, True, float("nan")]
)  # fmt: skip
NAMES = st.sampled_from(["x", "y", "z", "A", "tie", "<b>", ""])


def _outcome(result: Any) -> Any:
    result.summary()
    result.to_html()
    return result.estimates, result.standard_errors, result.diagnostics["pairwise"]


@st.composite
def comparisons(draw: st.DrawFn) -> Comparisons:
    """Valid comparisons: few policies, perhaps one order, perhaps no judge, perhaps style."""
    n = draw(sizes.filter(bool))
    k = draw(st.sampled_from([2, 3, 5]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    first = rng.integers(0, k, n)
    second = (first + rng.integers(1, k, n)) % k
    if draw(st.booleans()):  # one order throughout
        first, second = np.minimum(first, second), np.maximum(first, second)
    human = draw(sound_columns(n))
    if draw(st.booleans()):
        human = np.round(2.0 * human) / 2.0
    human[~draw(masks(n))] = np.nan
    return Comparisons.from_arrays(
        prompt_id=[f"p{i % draw(st.sampled_from([1, 2, n]))}" for i in range(n)],
        first=[f"m{code}" for code in first],
        second=[f"m{code}" for code in second],
        judge=draw(st.none() | sound_columns(n)),
        human=human,
        shown=draw(st.none() | st.just(np.zeros(n, dtype=bool))),
        item=draw(st.none() | st.just(np.arange(n))),
        label_propensity=draw(st.none() | sound_columns(n, low=0.05)),
        covariates={"length": draw(sound_columns(n, low=-1.0))},
    )


@fuzz()
@given(data=comparisons(), style=st.booleans(), position=st.booleans())
def test_pairwise_estimator_is_finite_or_refused(
    data: Comparisons, style: bool, position: bool
) -> None:
    def work() -> Any:
        made = PairwiseEstimator(data, covariates=["length"] if style else (), position=position)
        return _outcome(made.fit_and_estimate())

    holds_rule(work, missing=("p_adjusted",))


@fuzz()
@given(data=st.data())
def test_comparisons_from_any_columns_are_finite_or_refused(data: st.DataObject) -> None:
    n = data.draw(sizes)
    names = st.lists(NAMES, min_size=n, max_size=n)
    holds_rule(
        lambda: len(
            Comparisons.from_arrays(
                prompt_id=np.arange(n),
                first=data.draw(names),
                second=data.draw(names),
                judge=data.draw(columns(n)),
                human=data.draw(columns(n)),
                label_propensity=data.draw(columns(n)),
                covariates={"c": data.draw(columns(n))},
            )
        )
    )


@fuzz()
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {"model_a": NAMES, "model_b": NAMES, "human_winner": WORDS},
            optional={
                "judge_winner": WORDS, "question_id": st.integers(0, 3) | st.none(),
                "prompt": st.text(max_size=3), "response_a": st.text(max_size=9),
                "response_b": st.text(max_size=9) | st.lists(st.text(max_size=2)),
                "propensity": WORDS, "turn": WORDS, "sides": WORDS, "judge": NAMES,
            },
        ),
        max_size=12,
    ),
    style=st.sampled_from([(), ("length",), ("markdown",), ("none",)]),
    skip=st.booleans(),
)  # fmt: skip
def test_comparisons_from_any_rows_are_read_or_refused(rows: Any, style: Any, skip: bool) -> None:
    def work() -> Any:
        data = read_comparisons(rows, covariates=style, skip_bad_rows=skip)
        return data.covariates, _outcome(analyze_dataset(data, covariates=style))

    holds_rule(work)
