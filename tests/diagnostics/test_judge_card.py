"""Promises of the judge card: intervals that cover, labels saved, identity, hostile input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cje.diagnostics import JudgeCards, JudgeIdentity, judge_cards
from cje.diagnostics.judge_quality import labels_saved
from cje.errors import CJEError
from studies.judge_cards import card_of, coverage, statistics_of


@pytest.fixture(scope="module")
def cards() -> JudgeCards:
    return card_of("ratings", 300, 100, 1)


def test_a_card_has_every_statistic_with_an_interval(cards: JudgeCards) -> None:
    card = cards["one"]
    names = {measure.name for measure in card.measures}
    assert names == {
        "R2", "rank correlation", "kappa", "weighted kappa (linear)",
        "weighted kappa (quadratic)", "agreement of the raters (alpha)", "self-consistency",
    }  # fmt: skip
    for measure in (*card.measures, card.labels_saved, *cards.stacked):
        assert measure.low is not None
        assert measure.low < measure.value < measure.high, measure.name
    assert set(card.absent) == {"sensitivity", "specificity"}
    assert {b.factor for b in card.biases} == {"version", "length", "position"}
    with pytest.raises(CJEError, match="more than two values"):
        card["sensitivity"]


def test_a_judge_that_overrates_long_responses_is_reported(cards: JudgeCards) -> None:
    bias = {(b.factor, b.level): b for b in card_of("smooth", 600, 400, 2).cards[0].biases}
    assert bias["length", ""].p_adjusted < 0.01
    assert bias["length", ""].effect > 0.05
    assert bias["position", "A"].p_adjusted > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ratings", "two labels", "smooth"])
def test_the_intervals_of_a_card_cover(kind: str) -> None:
    """120 cards of 50 labelled prompts; the 0.1% binomial bound of 93% coverage is 103."""
    truth = {name: value for name, (value, _, _) in statistics_of(_truth(kind)).items()}
    for name, held in coverage(kind, 50, 120, truth).items():
        assert held * 120 >= 103, name


def _truth(kind: str) -> JudgeCards:
    return card_of(kind, 20_000, 20_000, 10**9)


def test_more_labels_without_a_judge_are_as_precise_as_the_card_says() -> None:
    """Variance of the label mean with the labels saved, against the efficiency bound."""
    r2, n, judged = 0.6, 100.0, 1000.0
    more = labels_saved(r2, n, judged)
    assert 1 / (n + more) == pytest.approx((1 - r2) / n * 1.02 + r2 / judged)
    assert labels_saved(0.0, n, judged) < 0.0  # fitting a judge that knows nothing costs labels


def test_a_second_judge_that_adds_nothing_gains_nothing() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=400)
    score = truth + 0.5 * rng.normal(size=400)
    made = judge_cards({"one": score, "noise": rng.normal(size=400)}, truth)
    stacked = {m.name: m for m in made.stacked}
    assert stacked["gain over the best judge"].low < 0.02  # type: ignore[operator]
    better = judge_cards({"one": score, "two": truth + 0.5 * rng.normal(size=400)}, truth)
    assert {m.name: m for m in better.stacked}["gain over the best judge"].low > 0.02  # type: ignore[operator]


def test_perfect_agreement_on_few_prompts_is_not_certain() -> None:
    labels = np.tile([1.0, 2.0, 3.0], 10)
    card = judge_cards(labels, labels).cards[0]
    for name in ("kappa", "rank correlation"):
        assert card[name].value == pytest.approx(1.0)
        assert 0.8 < card[name].low < 0.95  # type: ignore[operator]


def test_row_order_moves_nothing() -> None:
    rng = np.random.default_rng(3)
    label = rng.integers(1, 6, 200).astype(float)
    score = np.clip(label + rng.integers(-1, 2, 200), 1, 5).astype(float)
    names = [f"p{i // 2}" for i in range(200)]
    order = rng.permutation(200)
    one = judge_cards(score, label, prompts=names).cards[0]
    two = judge_cards(score[order], label[order], prompts=[names[i] for i in order]).cards[0]
    for a, b in zip(one.measures, two.measures, strict=True):
        assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), abs=1e-10)


def test_the_scale_of_scores_and_labels_does_not_matter() -> None:
    rng = np.random.default_rng(4)
    label = rng.normal(size=150)
    score = label + rng.normal(size=150)
    one, two = judge_cards(score, label).cards[0], judge_cards(3 + 50 * score, 7 * label).cards[0]
    assert one["R2"].value == pytest.approx(two["R2"].value, abs=1e-9)
    assert one["rank correlation"].low == pytest.approx(two["rank correlation"].low, abs=1e-9)


def test_a_card_survives_json_and_a_damaged_one_is_refused(cards: JudgeCards) -> None:
    text = json.dumps(cards.to_dict(), allow_nan=False)
    again = JudgeCards.from_json(text)
    assert json.dumps(again.to_dict(), allow_nan=False) == text
    for broken in ("", "[]", '{"version": 99}', '{"version": 1, "cards": [{}], "stacked": []}'):
        with pytest.raises(CJEError):
            JudgeCards.from_json(broken)


def test_a_card_of_another_judge_template_or_rubric_is_stale() -> None:
    base: dict[str, Any] = {"template": "Rate {{ response }}", "rubric": "Be strict."}
    card = JudgeIdentity.of("model-1", **base)
    assert card.stale(JudgeIdentity.of("model-1", **base)) == []
    for changed, other in {
        "judge": JudgeIdentity.of("model-2", **base),
        "template": JudgeIdentity.of("model-1", **base | {"template": "Rate it"}),
        "rubric": JudgeIdentity.of("model-1", **base | {"rubric": "Be kind."}),
    }.items():
        assert card.fingerprint != other.fingerprint
        (finding,) = card.stale(other)
        assert finding.code == "judge-card-stale"
        assert f"the {changed} differs" in finding.message
    assert JudgeIdentity.from_dict(card.to_dict()) == card


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.full(60, np.nan)}, "at least 20 labelled"),
        ({"labels": np.ones(60)}, "all labels are equal"),
        ({"labels": np.arange(59.0)}, "one value per row"),
        ({"scores": np.full(60, np.nan)}, "at least 20 labelled"),
        ({"scores": np.full(60, np.inf)}, "must be finite"),
        ({"scores": {}}, "needs the scores"),
        ({"prompts": ["a"]}, "one value per row"),
        ({"weights": np.zeros(60)}, "zero in every row"),
        ({"ratings": np.ones(60)}, "one row per response"),
        ({"factors": {"length": [1.0]}}, "one value per row"),
        ({"level": 2.0}, "confidence level"),
    ],
)
def test_wrong_input_is_an_error_that_says_why(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"scores": np.arange(60.0), "labels": np.arange(60.0) % 7} | change
    with pytest.raises(CJEError, match=message):
        judge_cards(given.pop("scores"), given.pop("labels"), **given)
