"""Read a checkpoint's tensors one at a time, directly to their device and precision."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from cje.errors import CJEError, require_extra
from cje.policies.local.blocks import Block, Weights
from cje.policies.local.shape import Shape

__all__ = ["find_model", "load_weights", "model_digest", "random_weights"]

Tensor = torch.Tensor
Read = Callable[[str, torch.dtype], Tensor]

_SAMPLES = 64  # parts of each weight file that the digest reads
_PIECE = 1 << 16


def find_model(name: str, revision: str | None = None) -> Path:
    """The folder of a model: the given path, or a snapshot from the hub."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise CJEError(
            "no such model folder", value=name,
            hint="give a folder that holds config.json, or a name on the Hugging Face hub",
        )  # fmt: skip
    hub = require_extra("huggingface_hub", "local", "a model from the Hugging Face hub")
    patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.tiktoken"]
    try:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=patterns))
    except Exception as error:  # its exceptions have no common base
        raise CJEError(
            "the model is not a folder and cannot be downloaded from the hub", value=name,
            hint=f"{type(error).__name__}: check the name, or download it first and give the "
            "folder",
        ) from error  # fmt: skip


def model_digest(folder: Path) -> str:
    """A digest that distinguishes models, for a key of the store.

    It reads small files (configuration, tokeniser) completely, and the size and 64 parts of each
    weight file, which is fast for any size and changes with any training.
    """
    digest = sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix not in (".json", ".safetensors", ".bin", ".model", ".txt", ".jinja"):
            continue
        size = file.stat().st_size
        digest.update(f"{file.name}:{size}:".encode())
        with file.open("rb") as stream:
            if size <= _SAMPLES * _PIECE:
                digest.update(stream.read())
                continue
            for number in range(_SAMPLES):
                stream.seek(number * (size - _PIECE) // (_SAMPLES - 1))
                digest.update(stream.read(_PIECE))
    return digest.hexdigest()[:32]


def _tensor_files(folder: Path) -> dict[str, Path]:
    """The file of each tensor."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        return {name: folder / file for name, file in listed.items()}
    single = folder / "model.safetensors"
    if not single.is_file():
        raise CJEError(
            "the folder holds no weights in safetensors", where=str(folder),
            hint="save the model with save_pretrained, which writes model.safetensors",
        )  # fmt: skip
    safetensors = require_extra("safetensors", "local", "provider: transformers")
    with safetensors.safe_open(single, framework="pt") as tensors:
        return dict.fromkeys(tensors.keys(), single)


def load_weights(folder: Path, shape: Shape, dtype: torch.dtype, device: torch.device) -> Weights:
    """A Llama-like checkpoint, with its projections joined.

    Raises
    ------
    CJEError
        If a tensor is missing, has another shape than the configuration says, or overflows
        `dtype`.
    """
    safetensors = require_extra("safetensors", "local", "provider: transformers")
    files = _tensor_files(folder)
    opened: dict[Path, Any] = {}

    def read(name: str, kind: torch.dtype) -> Tensor:
        if name not in files:
            raise CJEError(
                f"the weights hold no tensor {name!r}", where=str(folder),
                hint="the checkpoint does not match its config.json",
            )  # fmt: skip
        file = files[name]
        if file not in opened:
            opened[file] = safetensors.safe_open(file, framework="pt")
        return _converted(opened[file].get_tensor(name), name, kind, device, folder)

    return _assemble(read, shape, dtype, "lm_head.weight" in files)


def _converted(
    value: Tensor, name: str, dtype: torch.dtype, device: torch.device, folder: Path
) -> Tensor:
    moved = value.to(device)
    made = moved.to(dtype)
    if dtype == torch.float16 and not bool(torch.isfinite(made).all()):
        raise CJEError(
            f"the tensor {name!r} holds values beyond the range of float16", where=str(folder),
            hint="use dtype: bfloat16 or float32",
        )  # fmt: skip
    return made


def _assemble(read: Read, shape: Shape, dtype: torch.dtype, own_head: bool) -> Weights:
    single = torch.float32
    embedding = read("model.embed_tokens.weight", dtype)
    blocks = [_block(read, shape, dtype, f"model.layers.{i}.") for i in range(shape.layers)]
    head = read("lm_head.weight", dtype) if own_head and not shape.tied else embedding
    if not own_head and not shape.tied:
        raise CJEError("the weights hold no lm_head, and the embeddings are not tied to it")
    made = Weights(embedding, blocks, read("model.norm.weight", single), head)
    expected = (shape.vocabulary, shape.hidden)
    if tuple(embedding.shape) != expected or tuple(made.head.shape) != expected:
        raise CJEError(
            f"the embeddings have the shape {tuple(embedding.shape)}, the configuration says "
            f"{expected}"
        )
    return made


def _block(read: Read, shape: Shape, dtype: torch.dtype, at: str) -> Block:
    single = torch.float32

    def joined(parts: tuple[str, ...], end: str) -> Tensor:
        return torch.cat([read(f"{at}{part}.{end}", dtype) for part in parts])

    qkv = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    gate_up = ("mlp.gate_proj", "mlp.up_proj")
    return Block(
        norm_1=read(f"{at}input_layernorm.weight", single),
        qkv=joined(qkv, "weight"),
        qkv_bias=joined(qkv, "bias") if shape.qkv_bias else None,
        q_norm=read(f"{at}self_attn.q_norm.weight", single) if shape.head_norms else None,
        k_norm=read(f"{at}self_attn.k_norm.weight", single) if shape.head_norms else None,
        out=read(f"{at}self_attn.o_proj.weight", dtype),
        out_bias=read(f"{at}self_attn.o_proj.bias", dtype) if shape.out_bias else None,
        norm_2=read(f"{at}post_attention_layernorm.weight", single),
        gate_up=joined(gate_up, "weight"),
        gate_up_bias=joined(gate_up, "bias") if shape.mlp_bias else None,
        down=read(f"{at}mlp.down_proj.weight", dtype),
        down_bias=read(f"{at}mlp.down_proj.bias", dtype) if shape.mlp_bias else None,
    )


def weights_from_state(
    state: Mapping[str, Tensor], shape: Shape, dtype: torch.dtype, device: torch.device
) -> Weights:
    """The weights of a model in memory, from its `state_dict`."""

    def read(name: str, kind: torch.dtype) -> Tensor:
        return _converted(state[name], name, kind, device, Path("state_dict"))

    return _assemble(read, shape, dtype, "lm_head.weight" in state)


def random_weights(
    shape: Shape, dtype: torch.dtype, device: torch.device, *, seed: int = 0, scale: float = 0.02
) -> Weights:
    """Random weights, for measurements of speed only."""
    generator = torch.Generator(device=device).manual_seed(seed)

    def matrix(*size: int) -> Tensor:
        drawn = torch.randn(size, generator=generator, device=device, dtype=dtype)
        return drawn.mul_(scale)

    def ones(size: int) -> Tensor:
        return torch.ones(size, device=device)

    width = shape.heads * shape.head_dim
    blocks = [
        Block(
            norm_1=ones(shape.hidden),
            qkv=matrix(width + 2 * shape.kv_heads * shape.head_dim, shape.hidden),
            qkv_bias=None,
            q_norm=ones(shape.head_dim) if shape.head_norms else None,
            k_norm=ones(shape.head_dim) if shape.head_norms else None,
            out=matrix(shape.hidden, width),
            out_bias=None,
            norm_2=ones(shape.hidden),
            gate_up=matrix(2 * shape.inner, shape.hidden),
            gate_up_bias=None,
            down=matrix(shape.hidden, shape.inner),
            down_bias=None,
        )
        for _ in range(shape.layers)
    ]
    embedding = matrix(shape.vocabulary, shape.hidden)
    head = embedding if shape.tied else matrix(shape.vocabulary, shape.hidden)
    return Weights(embedding, blocks, ones(shape.hidden), head)
