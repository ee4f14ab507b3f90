"""The checks that stand between log-probs and an estimate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cje.errors import CJEError
from cje.findings import Severity
from cje.policies import (
    generated_vs_rescored_canary,
    identical_weights_canary,
    inside_token_canary,
    replicate_noise_canary,
    scoring_noise_canary,
    self_ratio_canary,
)

RNG = np.random.default_rng(0)
LOGGED = -RNG.gamma(5.0, 4.0, 200)


def test_the_logging_policy_against_itself_passes_with_small_noise_and_fails_with_large() -> None:
    assert self_ratio_canary(LOGGED, LOGGED) is None
    assert self_ratio_canary(LOGGED, LOGGED + 0.01 * RNG.normal(size=200)) is None
    found = self_ratio_canary(LOGGED, LOGGED + RNG.normal(size=200))
    assert found is not None
    assert found.severity is Severity.REFUSE
    shifted = self_ratio_canary(LOGGED, LOGGED - 1.0)  # a forgotten EOS: ESS alone would not see it
    assert shifted is not None
    assert shifted.details["ess_share"] == pytest.approx(1.0)


def test_generated_and_rescored_scores_are_compared_per_token() -> None:
    tokens = np.full(200, 50.0)
    assert generated_vs_rescored_canary(LOGGED, LOGGED + 0.5, tokens) is None
    found = generated_vs_rescored_canary(LOGGED, LOGGED + 5.0, tokens)
    assert found is not None
    assert found.severity is Severity.REFUSE
    few = LOGGED.copy()
    few[:20] += 10.0
    partly = generated_vs_rescored_canary(LOGGED, few, tokens)
    assert partly is not None
    assert partly.severity is Severity.WARNING


def test_replicate_noise_is_measured() -> None:
    assert replicate_noise_canary(np.stack([LOGGED, LOGGED], 1)) is None
    noisy = np.stack([LOGGED, LOGGED + RNG.normal(size=200) * 0.8], 1)
    found = replicate_noise_canary(noisy)
    assert found is not None
    assert found.details["sd"] == pytest.approx(0.8 / np.sqrt(2), rel=0.15)


def test_identical_weights_are_the_forgotten_step_unless_it_is_an_aa_check() -> None:
    default = np.full((200, 1), -10.0)
    found = identical_weights_canary(np.full(200, -10.0), default, ["t"], [False])
    assert found[0].severity is Severity.REFUSE
    assert "teacher forcing" in found[0].action
    targets = np.stack([LOGGED, LOGGED + 0.3, LOGGED + RNG.normal(size=200)], 1)
    names = ["aa", "shifted", "real"]
    flagged = identical_weights_canary(LOGGED, targets, names, [True, False, False])
    assert [f.subject for f in flagged] == ["shifted"]


def test_scores_that_start_inside_the_prompt_are_counted() -> None:
    assert inside_token_canary(np.zeros(5)) is None
    found = inside_token_canary([0, 3, 1, 0])
    assert found is not None
    assert "2 of 4 rows" in found.message


def test_values_that_are_not_finite_are_refused_not_averaged() -> None:
    broken = LOGGED.copy()
    broken[3] = np.nan
    with pytest.raises(CJEError, match="must be finite"):
        self_ratio_canary(LOGGED, broken)
    with pytest.raises(CJEError, match="two repeats"):
        replicate_noise_canary(LOGGED[:, None])


@pytest.mark.parametrize(
    "call",
    [
        lambda: self_ratio_canary("text", LOGGED),
        lambda: self_ratio_canary(["x"] * 3, [0.0] * 3),
        lambda: self_ratio_canary(LOGGED, LOGGED[:5]),
        lambda: self_ratio_canary(LOGGED, np.full(200, 1e308)),
        lambda: generated_vs_rescored_canary(LOGGED, LOGGED[:5], np.ones(200)),
        lambda: generated_vs_rescored_canary(LOGGED, LOGGED, np.ones(3)),
        lambda: replicate_noise_canary([["a", "b"]]),
        lambda: inside_token_canary(None),
        lambda: identical_weights_canary(LOGGED, LOGGED[:, None], ["a"], [True, False]),
        lambda: identical_weights_canary(LOGGED, LOGGED[:, None], "a", [True]),
        lambda: identical_weights_canary(LOGGED, LOGGED[:, None], None, None),
    ],
)
def test_canaries_refuse_text_and_columns_of_other_lengths(call: Callable[[], object]) -> None:
    with pytest.raises(CJEError):
        call()


def test_noise_beyond_any_number_is_an_error_that_names_one() -> None:
    found = replicate_noise_canary([[0.0, 1e6], [0.0, -1e6]])
    assert found is not None
    assert "inf" not in found.message


def test_noise_that_is_not_small_against_the_log_ratios_is_reported_with_its_bias():
    rng = np.random.default_rng(0)
    ratios = rng.normal(0.0, 0.3, 4000)
    base = rng.normal(-50.0, 5.0, 4000)
    pairs = base[:, None] + rng.normal(0.0, 0.1, (4000, 2))
    found = scoring_noise_canary(pairs, ratios)
    assert found is not None
    assert found.details["noise"] == pytest.approx(0.1 * 2**0.5, rel=0.05)
    # The factor is the mean weight of policies that do not differ, each scored with this noise.
    noise = rng.normal(0.0, 0.1, (2, 10**6))
    weights = np.exp(noise[0] - noise[1])
    assert found.details["factor"] == pytest.approx(weights.mean(), abs=2e-3)
    assert scoring_noise_canary(pairs * [1, 0] + pairs[:, :1] * [0, 1], ratios) is None
    alike = scoring_noise_canary(pairs, np.zeros(10))
    assert alike is not None
    assert str(alike.severity) == "refuse"
