"""Read a model's configuration: its shape, and whether the fast path can compute it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.errors import CJEError

__all__ = ["Shape", "read_config", "read_shape"]

#: Additions of each family to the plain block: biases of q, k and v; norms of q and k per head.
_FAMILIES: Mapping[str, tuple[bool, bool]] = {
    "llama": (False, False),
    "mistral": (False, False),
    "qwen2": (True, False),
    "qwen3": (False, True),
}


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama-like model: RMS norms, rotary positions, gated SiLU, grouped heads."""

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    epsilon: float
    longest: int
    tied: bool
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    head_norms: bool
    rope: tuple[float, ...]  # inverse frequencies
    window: int | None = None  # positions that a token attends to, if fewer than `longest`

    @property
    def flops_per_token(self) -> int:
        """Of the matrix products of all blocks (without attention and head)."""
        qkv = self.hidden * (self.heads + 2 * self.kv_heads) * self.head_dim
        out = self.heads * self.head_dim * self.hidden
        return 2 * self.layers * (qkv + out + 3 * self.hidden * self.inner)


def read_config(folder: Path) -> dict[str, Any]:
    """The model's ``config.json``."""
    file = folder / "config.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CJEError(
            "the folder holds no readable model configuration", where=str(file),
            hint="give the folder that save_pretrained wrote (config.json, *.safetensors, the "
            "tokeniser's files), or a model's name on the Hugging Face hub",
        ) from error  # fmt: skip
    if not isinstance(found, dict):
        raise CJEError("the model configuration is not a JSON object", where=str(file))
    return found


def read_shape(config: Mapping[str, Any]) -> Shape | str:
    """The shape, or the reason why the fast path cannot compute this model.

    Only known settings are accepted. Any other setting that changes the arithmetic leads to the
    general path, which transformers computes.
    """
    family = str(config.get("model_type"))
    if family not in _FAMILIES:
        return f"model_type {family!r} is not one of {', '.join(_FAMILIES)}"
    if config.get("quantization_config"):
        return "its weights are quantised"
    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        return f"its activation is {config['hidden_act']!r}"
    heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
    head_dim = int(config.get("head_dim") or hidden // heads)
    longest = int(config.get("max_position_embeddings") or 2048)
    rope = _inverse_frequencies(config, head_dim)
    if isinstance(rope, str):
        return rope
    if config.get("pretraining_tp", 1) not in (None, 1):
        return "its products are cut (pretraining_tp)"
    qkv_bias, head_norms = _FAMILIES[family]
    attention_bias = bool(config.get("attention_bias", False))
    return Shape(
        family=family,
        layers=int(config["num_hidden_layers"]),
        hidden=hidden,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=head_dim,
        inner=int(config["intermediate_size"]),
        vocabulary=int(config["vocab_size"]),
        epsilon=float(config.get("rms_norm_eps", 1e-6)),
        longest=longest,
        tied=bool(config.get("tie_word_embeddings", False)),
        qkv_bias=qkv_bias or (family in ("llama", "qwen3") and attention_bias),
        out_bias=family in ("llama", "qwen3") and attention_bias,
        mlp_bias=family == "llama" and bool(config.get("mlp_bias", False)),
        head_norms=head_norms,
        rope=rope,
        window=_window(config, longest),
    )


def _window(config: Mapping[str, Any], longest: int) -> int | None:
    """The sliding window, if one is in use and texts can be longer."""
    window = config.get("sliding_window")
    if window is None or config.get("use_sliding_window") is False or int(window) >= longest:
        return None
    return int(window)


def _inverse_frequencies(config: Mapping[str, Any], head_dim: int) -> tuple[float, ...] | str:
    """Rotary frequencies, from the field names of transformers 5 or of earlier releases."""
    rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    kind = rope.get("rope_type", rope.get("type", "default"))
    theta = float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0)
    if float(rope.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0) != 1:
        return "it turns only a part of each head (partial_rotary_factor)"
    frequencies = theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    if kind == "linear":
        frequencies = frequencies / float(rope["factor"])
    elif kind == "llama3":
        frequencies = _llama3(frequencies, rope)
    elif kind != "default":
        return f"its rotary positions are of type {kind!r}"
    return tuple(frequencies.tolist())


def _llama3(frequencies: NDArray[np.float64], rope: Mapping[str, Any]) -> NDArray[np.float64]:
    """Low frequencies divided by `factor`, high ones kept, linear in between (Llama 3.1)."""
    factor, old = float(rope["factor"]), float(rope["original_max_position_embeddings"])
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    turns = old * frequencies / (2.0 * math.pi)
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    mixed: NDArray[np.float64] = frequencies * ((1.0 - smooth) / factor + smooth)
    return mixed
