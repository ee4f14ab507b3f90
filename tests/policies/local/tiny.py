"""Tiny models and a slow, obvious scorer to compare with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

SIZES = {
    "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300,
    "max_position_embeddings": 512, "eos_token_id": 0, "bos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip


def model(family: str, *, seed: int = 0, **changes: Any) -> Any:
    """A random model whose distribution is far from flat."""
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(family, **(SIZES | changes))
    made = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim > 1:
                weight.mul_(4.0)
            elif family == "qwen2":
                weight.add_(0.1 * torch.randn_like(weight))  # biases that matter
    return made


def items(seed: int = 0) -> list[Any]:
    """Prompts with a common beginning, with several responses, and alone."""
    from cje.policies.local.packing import Item

    rng = np.random.default_rng(seed)

    def words(n: int) -> tuple[int, ...]:
        return tuple(rng.integers(0, SIZES["vocab_size"], n).tolist())

    system = words(40)
    made = []
    for number in range(8):
        prompt = (system if number % 2 else ()) + words(int(rng.integers(1, 80)))
        count = 1 + number % 3
        made += [Item(prompt, words(int(rng.integers(1, 60)))) for _ in range(count)]
    return made


def one_by_one(made: Any, rows: list[Any], temperatures: tuple[float, ...]) -> list[Any]:
    """Token log-probs by transformers itself: each row alone, full logits, float32."""
    found = []
    with torch.inference_mode():
        for row in rows:
            ids = torch.tensor([[*row.prompt, *row.response]])
            logits = made(ids).logits[0, len(row.prompt) - 1 : -1].float()
            targets = torch.tensor(row.response)[:, None]
            found.append(
                np.stack(
                    [
                        torch.log_softmax(logits / t, -1).gather(1, targets)[:, 0].numpy()
                        for t in temperatures
                    ]
                )
            )
    return found


def worst(a: list[Any], b: list[Any]) -> float:
    """The largest difference of any token."""
    return max(float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True))


def trained_folders(root: Path, steps: int = 20) -> tuple[Path, Path]:
    """Two models trained for a moment on the embedded dialogues, saved with their tokeniser."""
    from scripts.servers.train_tiny import corpus, make_tokenizer, train

    lines = corpus()
    tokeniser = make_tokenizer(lines)
    made = []
    for seed in (1, 2):
        folder = root / f"model{seed}"
        train(lines, tokeniser, seed, steps).save_pretrained(folder)
        tokeniser.save_pretrained(folder)
        made.append(folder)
    return made[0], made[1]
