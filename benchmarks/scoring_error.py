"""Rounding noise in log-ratios: a model trained on this machine, scored against float64.

Two checkpoints of one model, a few steps apart, play logging and target policy. Both are rounded
to bfloat16, as checkpoints are published: that is the model. The truth is its forward pass in
float64 on the CPU, written out below and sharing no code with the engine.
"""

from __future__ import annotations

import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["log_ratio_error"]

CONFIG = {
    "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12,
    "num_key_value_heads": 12, "intermediate_size": 2048, "vocab_size": 16384,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 1024,
    "tie_word_embeddings": False,
}  # fmt: skip
LENGTH = 512


def log_ratio_error(quick: bool = False) -> list[dict[str, Any]]:
    """Train, score held-out text under both checkpoints, compare."""
    from benchmarks.scoring import bar

    model, held_out, loss = _train(20 if quick else 90)
    first = _state(model)
    moved = _continue(model, held_out)
    second = _state(moved)
    rows = _rows(held_out, 24 if quick else 96)
    truth = _exact(second, rows) - _exact(first, rows)
    spread = float(truth.std())
    made = []
    lengths = [len(row) // 2 for row in rows]
    about = (
        f"true log-ratios have sd {spread:.3f}; {len(rows)} held-out texts, responses of "
        f"{min(lengths)} to {max(lengths)} tokens; training loss {loss:.2f} nats per token"
    )
    for name, limit, score in (
        ("float16 products, float32 residual", 0.02, _engine_float16),
        ("float32", "reported", _engine_float32),
        ("bfloat16 throughout (transformers)", "reported", _transformers_bfloat16),
    ):
        error = score(second, rows) - score(first, rows) - truth
        rms = float(np.sqrt(np.mean(error**2)))
        made.append(bar(f"log-ratio error, {name} (nats, rms)", rms, limit, about))
    made += _noise(first, rows, spread)
    return made


def _noise(state: Any, rows: Sequence[Any], spread: float) -> list[dict[str, Any]]:
    """The same rows in another batch: how far a log-prob moves."""
    import torch

    from benchmarks.scoring import bar

    engine = _engine(state, torch.float16)
    whole = _sums(engine, rows)
    order = np.random.default_rng(4).permutation(len(rows))
    again = np.empty_like(whole)
    for part in np.array_split(order, 7):
        again[part] = _sums(engine, [rows[i] for i in part])
    noise = float(np.sqrt(np.mean((whole - again) ** 2) / 2))
    return [
        bar("replicate noise in another batch (nats, sd)", noise, "reported",
            f"{noise / max(spread, 1e-12):.4f} of the log-ratios' sd; plain importance weights "
            f"are biased by a factor of {np.exp(noise**2):.6f}"),
    ]  # fmt: skip


# Data --------------------------------------------------------------------------------------------


def _sources() -> tuple[list[str], list[str]]:
    """Texts of Python files: for training, and held out (every 37th file)."""
    roots = {Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib", "platlib")}
    train, held = [], []
    size = 0
    for root in sorted(roots):
        for number, file in enumerate(sorted(root.rglob("*.py"))):
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if 2000 < len(text) < 200_000:
                (held if number % 37 == 0 else train).append(text)
                size += len(text)
            if size > 150e6:
                return train, held
    return train, held


def _train(seconds: float) -> tuple[Any, Any, float]:
    """A Llama of 110 million parameters, trained for `seconds`; the tokens held out; its loss."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM

    train, held = _sources()
    tokeniser = Tokenizer(models.BPE())
    tokeniser.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"], special_tokens=["<|end|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokeniser.train_from_iterator(train[::12], trainer)

    def joined(texts: Sequence[str]) -> torch.Tensor:
        coded = tokeniser.encode_batch(list(texts))
        return torch.tensor([i for text in coded for i in (*text.ids, 0)], dtype=torch.int64)

    tokens, kept = joined(train), joined(held)
    print(f"{len(tokens) / 1e6:.0f} million tokens, {len(kept) / 1e6:.1f} held out", flush=True)
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**CONFIG)).cuda()
    count = sum(p.numel() for p in model.parameters()) / 1e6
    optimiser = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=True)
    loss, step, began = torch.tensor(0.0), 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        elapsed = (time.perf_counter() - began) / seconds
        for group in optimiser.param_groups:
            group["lr"] = 6e-4 * min(1.0, (step + 1) / 50, 0.05 + 1.5 * (1 - elapsed))
        loss = _step(model, optimiser, tokens, 64)
        step += 1
    print(f"{count:.0f} million parameters, {step} steps, loss {float(loss):.3f}", flush=True)
    return model, kept, float(loss)


def _step(model: Any, optimiser: Any, tokens: Any, batch: int) -> Any:
    import torch

    starts = torch.randint(0, len(tokens) - LENGTH - 1, (batch,))
    ids = torch.stack([tokens[s : s + LENGTH] for s in starts.tolist()]).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return loss.detach()


def _continue(model: Any, tokens: Any) -> Any:
    """A few small steps further, on the first half of the held-out text: the target policy."""
    import torch

    optimiser = torch.optim.SGD(model.parameters(), lr=2e-2)
    for _ in range(4):
        _step(model, optimiser, tokens[: len(tokens) // 2], 16)
    return model


def _state(model: Any) -> dict[str, Any]:
    """The weights as a bfloat16 checkpoint holds them, on the CPU."""
    import torch

    return {k: v.detach().to("cpu", torch.bfloat16) for k, v in model.state_dict().items()}


def _rows(tokens: Any, count: int) -> list[tuple[int, ...]]:
    """Texts of 64 to 512 tokens from the second half; the later half of each is the response."""
    rng = np.random.default_rng(7)
    half = len(tokens) // 2
    rows = []
    for _ in range(count):
        length = int(rng.integers(64, LENGTH + 1))
        start = half + int(rng.integers(0, half - length))
        rows.append(tuple(tokens[start : start + length].tolist()))
    return rows


# Scorers -----------------------------------------------------------------------------------------


def _engine(state: Any, dtype: Any) -> Any:
    import torch

    from cje.policies.local.blocks import BlockNet
    from cje.policies.local.engine import ScoringEngine
    from cje.policies.local.shape import read_shape
    from cje.policies.local.weights import weights_from_state

    shape = read_shape(CONFIG | {"model_type": "llama"})
    assert not isinstance(shape, str)
    weights = weights_from_state(state, shape, dtype, torch.device("cuda"))
    return ScoringEngine(BlockNet(shape, weights, compiled=dtype == torch.float16))


def _sums(engine: Any, rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    from cje.policies.local.packing import Item

    items = [Item(row[: len(row) // 2], row[len(row) // 2 :]) for row in rows]
    return np.array([values.astype(np.float64).sum() for values in engine.score_all(items)])


def _engine_float16(state: Any, rows: Sequence[Any]) -> np.ndarray:
    import torch

    return _sums(_engine(state, torch.float16), rows)


def _engine_float32(state: Any, rows: Sequence[Any]) -> np.ndarray:
    import torch

    return _sums(_engine(state, torch.float32), rows)


def _transformers_bfloat16(state: Any, rows: Sequence[Any]) -> np.ndarray:
    """The usual recipe: everything in bfloat16, log-softmax in float32 of its logits."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**CONFIG)).to("cuda", torch.bfloat16).eval()
    model.load_state_dict(state)
    sums = []
    with torch.inference_mode():
        for row in rows:
            ids = torch.tensor([row], device="cuda")
            scores = torch.log_softmax(model(ids).logits[0, :-1].float(), -1)
            picked = scores.gather(1, ids[0, 1:, None])[:, 0]
            sums.append(float(picked[len(row) // 2 - 1 :].double().sum()))
    return np.array(sums)


def _exact(state: Any, rows: Sequence[Any]) -> np.ndarray:
    """Sums of log-probs in float64 on the CPU, text by text."""
    import torch

    weights = {name: value.double() for name, value in state.items()}
    with torch.inference_mode():
        return np.array([_exact_one(weights, row) for row in rows])


def _exact_one(weights: Any, row: Sequence[int]) -> float:
    import torch

    heads, dim = CONFIG["num_attention_heads"], CONFIG["hidden_size"] // 12
    n, eps = len(row) - 1, CONFIG["rms_norm_eps"]
    ids = torch.tensor(row)
    frequency = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * frequency
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]

    def norm(x: Any, weight: Any) -> Any:
        return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight

    def turn(x: Any) -> Any:
        a, b = x.view(n, heads, dim).chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).transpose(0, 1)

    x = weights["model.embed_tokens.weight"][ids[:-1]]
    causal = torch.ones(n, n, dtype=torch.bool).triu(1)
    for layer in range(CONFIG["num_hidden_layers"]):
        w = {k: weights[f"model.layers.{layer}.{k}.weight"] for k in _NAMES}
        h = norm(x, w["input_layernorm"])
        q, k = turn(h @ w["self_attn.q_proj"].t()), turn(h @ w["self_attn.k_proj"].t())
        v = (h @ w["self_attn.v_proj"].t()).view(n, heads, dim).transpose(0, 1)
        scores = (q @ k.transpose(1, 2) / dim**0.5).masked_fill(causal, -torch.inf)
        a = (torch.softmax(scores, -1) @ v).transpose(0, 1).reshape(n, -1)
        x = x + a @ w["self_attn.o_proj"].t()
        h = norm(x, w["post_attention_layernorm"])
        gate = torch.nn.functional.silu(h @ w["mlp.gate_proj"].t())
        x = x + (gate * (h @ w["mlp.up_proj"].t())) @ w["mlp.down_proj"].t()
    h = norm(x, weights["model.norm.weight"])[len(row) // 2 - 1 :]
    scores = torch.log_softmax(h @ weights["lm_head.weight"].t(), -1)
    return float(scores.gather(1, ids[len(row) // 2 :, None]).sum())


_NAMES = (
    "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
    "self_attn.o_proj", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj",
    "mlp.down_proj",
)  # fmt: skip
