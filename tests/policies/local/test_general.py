"""Models the fast path does not know, through transformers: packed where that is right."""

from __future__ import annotations

import pytest
import torch

from cje.policies.local.engine import ScoringEngine
from cje.policies.local.general import GeneralNet
from cje.policies.local.head import Sampling
from cje.policies.local.model import LocalModel
from tests.policies.local.tiny import items, model, one_by_one, worst

TEMPERATURES = (0.7, 1.0, 1.3)
AT = [Sampling(t) for t in TEMPERATURES]


def saved(tmp_path, family, **changes):
    made = model(family, **changes)
    made.save_pretrained(tmp_path)
    return made


@pytest.mark.parametrize(
    ("family", "changes", "packed"),
    [
        ("gemma2", {"head_dim": 16, "sliding_window": 24, "final_logit_softcapping": 5.0}, True),
        ("granite", {"logits_scaling": 3.0}, True),
        ("gpt2", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 512}, True),
        ("mistral", {"sliding_window": 16}, True),
        ("mamba", {"state_size": 8, "num_hidden_layers": 2}, False),
    ],
)
def test_every_token_agrees_with_the_model_by_itself(tmp_path, family, changes, packed):
    made, rows = saved(tmp_path, family, **changes), items()
    local = LocalModel(tmp_path, device="cpu", batch_tokens=400)
    assert isinstance(local.engine.net, GeneralNet)
    assert local.engine.net.packed is packed
    assert worst(local.engine.score_all(rows, AT), one_by_one(made, rows, TEMPERATURES)) <= 1e-4


def test_alone_a_row_has_the_same_bits_in_any_batch(tmp_path):
    saved(tmp_path, "granite")
    rows = items()
    local = LocalModel(tmp_path, device="cpu", batch_invariant=True)
    base = local.engine.score_all(rows)
    again = local.engine.score_all(rows[5:])
    assert all((a == b).all() for a, b in zip(base[5:], again, strict=True))


def test_texts_that_are_not_kept_apart_are_noticed(tmp_path, monkeypatch):
    made = saved(tmp_path, "llama")
    net = GeneralNet(tmp_path, torch.float32, torch.device("cpu"))
    assert net.packed
    real = net.base.forward
    monkeypatch.setattr(
        net.base, "forward", lambda **k: real(**{**k, "position_ids": None})
    )  # as a release that ignores positions would
    assert not net._keeps_texts_apart()
    net.packed = False
    rows = items()[:4]
    found = ScoringEngine(net).score_all(rows)
    monkeypatch.undo()
    assert worst(found, one_by_one(made, rows, (1.0,))) <= 1e-4
