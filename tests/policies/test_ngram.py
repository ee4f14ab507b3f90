"""The n-gram policy is exact: its probabilities, its samples and its enumeration agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from cje.errors import CJEError
from cje.models import BadOutputError
from cje.policies import NgramModel, NgramPolicy, make_runner
from cje.policies.ngram_model import split_words

ASK = "How do I change my password?"


@pytest.fixture(scope="module")
def small() -> NgramPolicy:
    model = NgramModel(["why?\tyes, yes.", "why?\tno.", "how?\tso."], order=2, boost={"yes": 0.5})
    return NgramPolicy(model, temperature=0.8, max_tokens=4)


@pytest.mark.parametrize("text", ["", " a", "a  b\n\tc", "é—ok?! it's 3.14", "</s><s>"])
def test_tokens_joined_give_the_text_back(text: str) -> None:
    assert "".join(split_words(text)) == text
    assert "".join(split_words(text, specials=True)) == text


@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_all_responses_have_total_probability_one(small: NgramPolicy, top_p: float) -> None:
    policy = NgramPolicy(small.model, temperature=0.8, top_p=top_p, max_tokens=4)
    texts, log_probs = policy.distribution("why?")
    assert len(set(texts)) == len(texts)
    assert np.exp(log_probs).sum() == pytest.approx(1.0, abs=1e-12)
    scored = [policy.log_prob("why?", text) for text in texts]
    np.testing.assert_allclose(scored, log_probs, atol=1e-12)


def test_samples_follow_the_enumerated_distribution(small: NgramPolicy) -> None:
    texts, log_probs = small.distribution("why?")
    n = 40_000
    for drawn in (
        small.sample("why?", n, seed=3),
        [small.generate("why?", seed=s).text for s in range(n // 10)],
    ):
        counts = Counter(drawn)
        expected = np.exp(log_probs) * len(drawn)
        big = expected > 20
        observed = np.array([counts[t] for t in texts])
        chi2 = ((observed - expected)[big] ** 2 / expected[big]).sum()
        assert chi2 < big.sum() + 5 * np.sqrt(2 * big.sum())
        assert set(counts) <= set(texts)


def test_next_word_probabilities_match_a_hand_computation() -> None:
    # Corpus "a" and "b": histories of length 1 after BOS: " a" once, " b" once; EOS after each.
    model = NgramModel(["a", "b"], order=2, smoothing=1.0)
    size = len(model.vocabulary)  # EOS, BOS, UNK, " a", " b"
    assert size == 5
    unigram = {"eos": (2 + 1 / size) / 5, "a": (1 + 1 / size) / 5}
    bigram_a = (1 + unigram["a"]) / 3
    # BOS and UNK are never produced: their share is spread over the others.
    bos_unk = 2 * (0 + (1 / size) / 5) / 3
    got = np.exp(model.next_log_probs(model.history([])))
    assert got[model.vocabulary.index(" a")] == pytest.approx(bigram_a / (1 - bos_unk))
    assert got[model.vocabulary.index("<unk>")] == 0.0


def test_generated_and_rescored_log_probs_are_the_same_number() -> None:
    policy = NgramPolicy(max_tokens=8, temperature=1.3, top_p=0.9)
    for seed in range(50):
        made = policy.generate(ASK, seed=seed)
        assert made.logprob == policy.log_prob(ASK, made.text)
        assert made.complete == (made.n_tokens <= 8 and made.logprob_has_eos)


def test_importance_weights_between_exact_policies_average_to_one() -> None:
    base = NgramPolicy(max_tokens=8)
    target = NgramPolicy(NgramModel(boost={"help": 1.0}), max_tokens=8)
    texts = base.sample(ASK, 4000, seed=1)
    memo = {t: target.log_prob(ASK, t) - base.log_prob(ASK, t) for t in set(texts)}
    w = np.exp([memo[t] for t in texts])
    assert w.std() > 0.1
    assert w.mean() == pytest.approx(1.0, abs=4 * w.std() / np.sqrt(len(w)))


def test_brute_force_value_agrees_with_enumeration(small: NgramPolicy) -> None:
    def reward(context: str, response: str) -> float:
        return float("yes" in response) * 0.7 + 0.1

    exact = small.exact_value(["why?", "how?"], reward)
    mean, error = small.monte_carlo_value(["why?", "how?"], reward, draws=20_000, seed=5)
    assert error < 0.005
    assert mean == pytest.approx(exact, abs=4 * error)


def test_a_boost_raises_the_words_it_names_and_temperature_zero_is_greedy() -> None:
    plain, boosted = NgramModel(), NgramModel(boost={"help": 2.0})
    history = plain.history(plain.encode("I am happy to"))
    word = plain.vocabulary.index(" help")
    raised = boosted.next_log_probs(history)[word]
    assert raised > plain.next_log_probs(history)[word]
    greedy = NgramPolicy(plain, temperature=0.0, max_tokens=8)
    assert len(set(greedy.sample(ASK, 20, seed=0))) == 1


@pytest.mark.parametrize(
    ("response", "reason"),
    [(" Zanzibar.", "out_of_vocabulary"), (" I" * 20, "too_long")],
)
def test_responses_the_policy_cannot_write_are_refused_with_a_reason(
    response: str, reason: str
) -> None:
    with pytest.raises(BadOutputError) as caught:
        NgramPolicy(max_tokens=8).log_prob(ASK, response)
    assert caught.value.reason == reason


def test_a_word_cut_by_top_p_has_probability_zero_and_is_refused() -> None:
    with pytest.raises(BadOutputError) as caught:
        NgramPolicy(max_tokens=8, top_p=0.05).log_prob(ASK, " card card.")
    assert caught.value.reason == "zero_probability"


def test_a_corpus_file_trains_a_policy_and_a_missing_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "corpus.txt"
    file.write_text("hello there\nhello you\n", encoding="utf-8")
    config = {"name": "p", "provider": "ngram", "corpus": str(file), "max_tokens": 4}
    assert make_runner(config).log_prob("", " hello you") < 0.0
    with pytest.raises(CJEError, match="cannot read the corpus"):
        make_runner(config | {"corpus": str(tmp_path / "none.txt")})
    with pytest.raises(CJEError, match="boost names a word"):
        make_runner(config | {"boost": {"absent": 1.0}})


def test_identity_distinguishes_policies_and_is_stable() -> None:
    a, b = NgramPolicy(), NgramPolicy(temperature=0.9)
    assert a.identity() == NgramPolicy().identity()
    assert a.identity() != b.identity()
    assert a.identity() != NgramPolicy(NgramModel(boost={"help": 0.1})).identity()
