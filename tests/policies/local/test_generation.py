"""Writing: a seed per row, and log-probs that scoring the same text gives again."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from cje.policies import make_runner
from cje.policies.local.head import Sampling, distribution
from cje.policies.local.planned import answer_calls
from tests.policies.local.tiny import model

CONTEXTS = ["Tell me about the river.", "Can you help me?", "Tell me about the river."]


def policy(folder, **more):
    settings = {"name": "p", "provider": "transformers", "model": str(folder), "template": "auto",
                "max_tokens": 30, "device": "cpu"}  # fmt: skip
    return make_runner(settings | more)


def written(runner, seeds, contexts=CONTEXTS):
    calls = [runner.generate_call(c, seed=s) for c in contexts for s in seeds]
    found = {i: answer for part in answer_calls(calls) for i, answer in part}
    return calls, [found[i] for i in range(len(calls))]


def rescored(runner, calls, answers):
    again = [
        runner.score_call(call.context, a.text, token_ids=a.token_ids, ending=a.ending,
                          end_text=a.end_text)
        for call, a in zip(calls, answers, strict=True)
    ]  # fmt: skip
    found = {i: answer for part in answer_calls(again) for i, answer in part}
    return [found[i].value for i in range(len(again))]


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.7}, {"top_p": 0.8}])
def test_rescoring_what_was_written_gives_the_recorded_log_prob(folders, sampling):
    runner = policy(folders[0], **sampling)
    calls, answers = written(runner, range(6))
    assert {a.ending for a in answers} <= {"eos", "open"}
    assert len({a.text for a in answers}) > 6
    np.testing.assert_allclose(
        rescored(runner, calls, answers), [a.logprob for a in answers], atol=1e-4
    )


def test_in_batch_invariant_mode_the_self_ratio_is_exactly_one(folders):
    runner = policy(folders[0], batch_invariant=True)
    calls, answers = written(runner, range(4))
    assert rescored(runner, calls, answers) == [a.logprob for a in answers]


def test_a_response_depends_on_its_own_seed_only(folders):
    runner = policy(folders[0])
    _, together = written(runner, (3, 4, 5))
    _, alone = written(runner, (4,))
    assert [a.token_ids for a in together[1::3]] == [a.token_ids for a in alone]


def test_tokens_are_drawn_with_the_models_probabilities(folders):
    runner = policy(folders[0], max_tokens=1)
    _, answers = written(runner, range(600), CONTEXTS[:1])
    counts = Counter(a.token_ids[0] for a in answers)
    best, n = counts.most_common(1)[0]
    one = next(a for a in answers if a.token_ids[0] == best)
    p = np.exp(one.logprob)
    assert abs(n / 600 - p) < 4 * np.sqrt(p * (1 - p) / 600)


def test_a_cut_token_is_never_drawn():
    from cje.policies.local.generation import _inverse

    scores = distribution(torch.randn(1, 50), Sampling(1.0, 0.5))
    for uniform in (0.0, 0.3, 1.0 - 1e-16, 1.0):
        token = _inverse(scores, torch.tensor([uniform], dtype=torch.float64))
        assert torch.isfinite(scores[0, token]).all()


def test_models_of_the_general_path_write_too(folders, tmp_path):
    made = model("granite", vocab_size=600, eos_token_id=1)
    made.save_pretrained(tmp_path)
    for file in folders[0].glob("token*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    runner = policy(tmp_path, template="raw", max_tokens=8, batch_invariant=True)
    calls, answers = written(runner, range(2))
    assert rescored(runner, calls, answers) == [a.logprob for a in answers]
    assert len({a.token_ids for a in answers}) == 4  # two prompts, two seeds
