"""The founding document's usage example, as written, against a local OpenAI-compatible server."""

from __future__ import annotations

import numpy as np
import pytest

from cje.errors import CJEError
from cje.uncertainty import JudgeScore, UncertaintyAPIJudge, UncertaintyJudgeConfig
from tests.server import Faults, TestServer
from tests.server.judging import quality

WORDS = [" please", " help", " reset", " not", " problem", " open", " no", " the", " page"]

EXAMPLE = """
from cje.uncertainty import (
    UncertaintyAPIJudge,
    UncertaintyAwareDRCPO,
    UncertaintyJudgeConfig,
    UncertaintyEstimatorConfig,
)

# 1. Configure uncertainty-aware judge
judge_config = UncertaintyJudgeConfig(
    provider="openai",
    model_name="gpt-4",
    template="comprehensive_judge",
)
judge = UncertaintyAPIJudge(judge_config)

# 2. Score with uncertainty
judge_scores = judge.score_batch(samples)  # Returns List[JudgeScore]

# 3. Configure estimator
estimator_config = UncertaintyEstimatorConfig(
    k_folds=5,
    use_variance_shrinkage=True,
    shrinkage_method="adaptive",
)
estimator = UncertaintyAwareDRCPO(estimator_config)

# 4. Get results with uncertainty
result = estimator.fit(
    judge_scores=judge_scores,
    oracle_rewards=oracle_rewards,
    importance_weights=weights,
    policy_names=policy_names,
)

# 5. Analyze results
print(result.summary())
for policy in result.policies:
    print(f"{policy.name}: {policy.estimate.summary()}")
"""


def test_the_founding_documents_example_runs_as_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    responses = ["".join(rng.choice(WORDS, 6)) for _ in range(40)]
    truth = np.array([quality(text) for text in responses])
    scope = {
        "samples": [{"context": "How do I reset it?", "response": text} for text in responses],
        "oracle_rewards": np.where(rng.random(40) < 0.5, truth, np.nan),
        "weights": np.stack([np.ones(40), 2 * truth, 2 - 2 * truth], axis=1),
        "policy_names": ["GPT-3.5", "GPT-4", "Claude-3"],
    }
    # The server fails now and then, as servers do: the judge tries again by itself.
    with TestServer(faults=Faults({"429-retry-after": 0.03, "non-score": 0.03})) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "local")
        exec(EXAMPLE, scope)  # the document's own text
        assert sum(server.app.answered.values()) == 40 * 5
    result = scope["result"]
    assert [p.name for p in result.rank_policies()] == ["GPT-4", "GPT-3.5", "Claude-3"]  # type: ignore[attr-defined]
    comparison = result.pairwise_comparison("GPT-4", "GPT-3.5")  # type: ignore[attr-defined]
    assert comparison["difference"] > 0.0
    assert comparison["p_value"] < 0.01
    assert "GPT-4: " in capsys.readouterr().out


def test_the_result_says_where_its_variance_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "local")
    sample = {"context": "How?", "response": " please open the page"}
    with TestServer() as server:
        for method, template, count in (
            ("samples", "comprehensive_judge", 5),
            ("logprobs", "rubric_score", 1),
            ("interval", "rubric_score", 1),
        ):
            config = UncertaintyJudgeConfig(
                provider="openai", model_name="gpt-4", base_url=server.base_url,
                template=template, variance=method,
            )  # fmt: skip
            judge = UncertaintyAPIJudge(config)
            score = judge.score(sample["context"], sample["response"])
            assert isinstance(score, JudgeScore)
            assert (score.method, score.n_verdicts) == (method, count)
            batch = judge.score_batch([sample, sample])
            assert (batch.method, batch.n_verdicts, len(batch)) == (method, count, 2)
            assert all(isinstance(item, JudgeScore) for item in batch)
            assert {item.method for item in (batch[0], batch[:1], *batch)} == {method}


def test_a_wrong_judge_configuration_is_one_clear_error() -> None:
    with pytest.raises(CJEError, match="n_repeats"):
        UncertaintyJudgeConfig(provider="openai", model_name="gpt-4", n_repeats=1)
    with pytest.raises(CJEError, match="modle_name"):
        UncertaintyJudgeConfig(provider="openai", modle_name="gpt-4")
    with pytest.raises(CJEError, match="needs model"):
        UncertaintyJudgeConfig(provider="openai")
    with pytest.raises(CJEError, match="not both"):
        UncertaintyJudgeConfig(provider="openai", model_name="gpt-4", model="gpt-5")
