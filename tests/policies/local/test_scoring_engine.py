"""The engine beside transformers: each row alone, full logits, float32."""

from __future__ import annotations

import numpy as np
import pytest

from cje.errors import CJEError
from cje.policies.local.blocks import BlockNet
from cje.policies.local.engine import ScoringEngine
from cje.policies.local.head import Sampling, distribution
from cje.policies.local.packing import Item, plan_packs
from cje.policies.local.shape import read_shape
from cje.policies.local.weights import weights_from_state
from tests.policies.local.tiny import items, model, one_by_one, torch, worst

TEMPERATURES = (0.7, 1.0, 1.3)
AT = [Sampling(t) for t in TEMPERATURES]
CPU = torch.device("cpu")
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64, "rope_theta": 500.0,
}  # fmt: skip


def net(made, dtype=torch.float32, device=CPU, **more):
    shape = read_shape(made.config.to_dict())
    assert not isinstance(shape, str), shape
    return BlockNet(shape, weights_from_state(made.state_dict(), shape, dtype, device), **more)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True, "head_dim": 24, "attention_bias": True}),
        ("llama", {"rope_parameters": LLAMA3, "mlp_bias": True}),
        ("mistral", {"sliding_window": None}),
        ("qwen2", {}),
        ("qwen3", {"head_dim": 32}),
    ],
)
def test_every_token_agrees_with_transformers_at_three_temperatures(family, changes):
    made, rows = model(family, **changes), items()
    engine = ScoringEngine(net(made), batch_tokens=500)
    found = engine.score_all(rows, AT)
    assert len(engine.plan(rows)) > 1
    assert worst(found, one_by_one(made, rows, TEMPERATURES)) <= 1e-4
    assert engine.counts.rescored == 0


def test_shared_prompts_change_no_log_prob_and_save_tokens():
    made, rows = model("llama"), items()
    shared, alone = (
        ScoringEngine(net(made), batch_tokens=2000, share_prefixes=share) for share in (True, False)
    )
    assert worst(shared.score_all(rows), alone.score_all(rows)) <= 1e-5
    assert shared.counts.tokens < 0.8 * alone.counts.tokens


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_in_batch_invariant_mode_a_row_has_the_same_bits_in_any_batch(family):
    made, rows = model(family), items()
    base = ScoringEngine(net(made, rows=128), batch_tokens=400).score_all(rows, AT)
    one = ScoringEngine(net(made, rows=128), batch_tokens=400).score_all(rows, AT[1:2])
    assert all((a[0] == b[1]).all() for a, b in zip(one, base, strict=True))
    rng = np.random.default_rng(1)
    for size in (300, 700, 4000):
        order = rng.permutation(len(rows))[:9]
        engine = ScoringEngine(net(made, rows=128), batch_tokens=size)
        for i, values in zip(order, engine.score_all([rows[i] for i in order], AT), strict=True):
            np.testing.assert_array_equal(values, base[i])


def test_rows_that_overflow_half_precision_are_rescored_and_counted():
    made, rows = model("llama"), items()
    with torch.no_grad():
        made.model.layers[1].mlp.up_proj.weight.mul_(1e5)
    engine = ScoringEngine(net(made, torch.float16), batch_tokens=500)
    found = engine.score_all(rows)
    exact = ScoringEngine(net(_in_half(made)), batch_tokens=500).score_all(rows)
    assert 0 < engine.counts.rescored <= len(rows)
    assert worst(found, exact) <= 0.05
    quiet = ScoringEngine(net(model("llama"), torch.float16), batch_tokens=500)
    quiet.score_all(rows)
    assert quiet.counts.rescored == 0


def _in_half(made):
    """The same model with its weights rounded to float16."""
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim > 1:
                weight.copy_(weight.half().float())
    return made


def test_an_infinite_key_that_masks_itself_is_noticed():
    made, rows = model("qwen2", num_hidden_layers=1), [Item((3, 4, 5), (6, 7))]
    state = net(made, torch.float16)
    state.weights.blocks[0].qkv_bias[64] = float("inf")  # the first number of every key
    engine = ScoringEngine(state)
    engine.score_all(rows)
    assert engine.counts.rescored == 1


def test_top_p_and_temperature_zero_give_the_distribution_that_is_sampled():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
    kept = distribution(logits, Sampling(1.0, 0.7)).exp()[0]
    np.testing.assert_allclose(kept, [0.625, 0.375, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(distribution(logits, Sampling(0.0)).exp()[0], [1, 0, 0, 0])
    made, rows = model("llama"), items()[:3]
    found = ScoringEngine(net(made)).score_all(rows, [Sampling(1.0, 0.8), Sampling(1.0, 1.0)])
    for cut, whole in found:
        inside = np.isfinite(cut)
        assert (cut[inside] >= whole[inside] - 1e-6).all()
        assert not inside.all()


def test_a_pack_holds_every_row_once_and_stays_within_its_budget():
    rows = items(3) * 3
    for budget in (120, 500, 5000):
        for always in (False, True):
            packs = plan_packs(rows, batch_tokens=budget, align=64, split_always=always)
            assert sorted(i for pack in packs for i in pack.rows) == list(range(len(rows)))
            for pack in packs:
                assert len(pack.tokens) % 64 == 0
                longest = max(len(rows[i].prompt) + len(rows[i].response) for i in pack.rows)
                assert pack.used <= max(budget, longest)
                for number, index in enumerate(pack.rows):
                    part = slice(pack.row_cu[number], pack.row_cu[number + 1])
                    assert tuple(pack.targets[part]) == rows[index].response
                    text = [*rows[index].prompt, *rows[index].response]
                    at = pack.positions[pack.head[part]]
                    assert [text[i] for i in at] == list(pack.tokens[pack.head[part]])
                    assert at[0] == len(rows[index].prompt) - 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "gemma2"}, "model_type"),
        ({"hidden_act": "gelu"}, "activation"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rotary"),
    ],
)
def test_what_the_fast_path_does_not_know_is_sent_elsewhere(changes, reason):
    config = model("llama").config.to_dict() | {"rope_parameters": None} | changes
    assert reason in str(read_shape(config))


def test_an_item_without_a_prompt_is_refused():
    with pytest.raises(CJEError, match="item 1"):
        ScoringEngine(net(model("llama"))).score_all([Item((1,), (2,)), Item((), (2,))])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_the_flash_kernel_agrees_with_its_twin():
    made, rows = _in_half(model("llama", num_attention_heads=2, num_key_value_heads=1)), items()
    fast = ScoringEngine(net(made, torch.float16, torch.device("cuda")), batch_tokens=500)
    assert worst(fast.score_all(rows, AT), one_by_one(made, rows, TEMPERATURES)) <= 0.05
