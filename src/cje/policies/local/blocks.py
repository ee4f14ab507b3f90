"""The fast path: Llama-like blocks with half-precision products and a float32 residual stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from cje.policies.local.attention import Attention, flash_works, join, join_filled
from cje.policies.local.packing import Pack
from cje.policies.local.shape import Shape

__all__ = ["Block", "BlockNet", "Weights"]

Tensor = torch.Tensor


@dataclass
class Block:
    """Weights of one block; the projections that read one input are joined."""

    norm_1: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    norm_2: Tensor
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None

    def to(self, dtype: torch.dtype) -> Block:
        """The block with its matrices in another precision (norms stay in float32)."""
        made = {}
        for name, value in vars(self).items():
            keep = value is None or "norm" in name
            made[name] = value if keep else value.to(dtype)
        return Block(**made)


@dataclass
class Weights:
    """A whole model. Norms in float32, matrices in the precision of the products."""

    embedding: Tensor
    blocks: list[Block]
    norm: Tensor
    head: Tensor


def rms(x: Tensor, weight: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * weight, computed in float32."""
    x = x.float()
    return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight).to(dtype)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions; cos and sin are (T, 1, d / 2)."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def before_attention(
    x: Tensor,
    norm: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    heads: int,
    dim: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v of (T, hidden), and which tokens are finite (an infinite key could hide silently)."""
    dtype, t = weight.dtype, x.shape[0]
    kv_heads = (weight.shape[0] // dim - heads) // 2
    y = F.linear(rms(x, norm, epsilon, dtype), weight, bias)
    q, k, v = torch.split(y, [heads * dim, kv_heads * dim, kv_heads * dim], -1)
    q, k = q.view(t, heads, dim), k.view(t, kv_heads, dim)
    if q_norm is not None and k_norm is not None:
        q = rms(q, q_norm, epsilon, torch.float32)
        k = rms(k, k_norm, epsilon, torch.float32)
    q, k = _turned(q, cos, sin).to(dtype), _turned(k, cos, sin).to(dtype)
    return q, k, v.reshape(t, kv_heads, dim).contiguous(), torch.isfinite(y).all(-1)


def after_attention(
    x: Tensor,
    a: Tensor,
    out: Tensor,
    out_bias: Tensor | None,
    norm: Tensor,
    gate_up: Tensor,
    gate_up_bias: Tensor | None,
    down: Tensor,
    down_bias: Tensor | None,
    epsilon: float,
) -> Tensor:
    """Output projection and gated perceptron, added to the residual stream."""
    x = x + F.linear(a, out, out_bias).float()
    y = F.linear(rms(x, norm, epsilon, out.dtype), gate_up, gate_up_bias)
    gate, up = y.chunk(2, -1)
    inner = (F.silu(gate.float()) * up.float()).to(out.dtype)
    return x + F.linear(inner, down, down_bias).float()


class BlockNet:
    """Hidden states of packs, and logits of hidden states.

    Parameters
    ----------
    shape : Shape
    weights : Weights
    rows : int or None
        Compute token-wise parts in pieces of exactly this many tokens: one shape, one kernel, so
        that a token's bits do not depend on what it is packed with. Packs must be aligned to it.
    compiled : bool
        Fuse what lies between the products with torch.compile.
    """

    def __init__(
        self, shape: Shape, weights: Weights, *, rows: int | None = None, compiled: bool = False
    ) -> None:
        self.shape, self.weights, self.rows = shape, weights, rows
        self.device, self.dtype = weights.embedding.device, weights.blocks[0].qkv.dtype
        self.flash = flash_works(self.device, self.dtype, shape.head_dim)
        self.shares = True
        self._before: Callable[..., Any] = before_attention
        self._after: Callable[..., Any] = after_attention
        self._join: Callable[..., Any] = join if self.device.type == "cuda" else join_filled
        if compiled:
            self._before, self._after, self._join = (
                torch.compile(f) for f in (before_attention, after_attention, join)
            )
        self._angles = torch.empty((0, shape.head_dim // 2), dtype=torch.float64)

    def hidden(self, pack: Pack, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """Normed hidden states of ``pack.head`` and, per token of the pack, whether all is finite.

        With `dtype` the blocks are computed in that precision instead (their weights are converted
        one block at a time).
        """
        dtype = dtype or self.dtype
        flash = self.flash and dtype == self.dtype
        attend = Attention(
            pack,
            self.device,
            flash=flash,
            scale=self.shape.head_dim**-0.5,
            joining=self._join,
        )
        tokens = torch.from_numpy(pack.tokens).to(self.device)
        cos, sin = self._turns(torch.from_numpy(pack.positions))
        x = F.embedding(tokens, self.weights.embedding).float()
        finite = torch.ones(len(tokens), dtype=torch.bool, device=self.device)
        for block in self._blocks(dtype):
            x, fine = self._block(x, block, cos, sin, attend)
            finite &= fine
        x = x[torch.from_numpy(pack.head).to(self.device)]
        return rms(x, self.weights.norm, self.shape.epsilon, dtype), finite

    def _blocks(self, dtype: torch.dtype) -> Iterator[Block]:
        for block in self.weights.blocks:
            yield block if dtype == self.dtype else block.to(dtype)

    def _block(
        self, x: Tensor, block: Block, cos: Tensor, sin: Tensor, attend: Attention
    ) -> tuple[Tensor, Tensor]:
        t, shape = x.shape[0], self.shape
        step = self.rows or t
        pieces = [slice(at, at + step) for at in range(0, t, step)]
        first = (block.norm_1, block.qkv, block.qkv_bias, block.q_norm, block.k_norm)
        sizes = (shape.heads, shape.head_dim, shape.epsilon)
        parts = [self._before(x[s], *first, cos[s], sin[s], *sizes) for s in pieces]
        q, k, v, finite = (
            column[0] if len(column) == 1 else torch.cat(column)
            for column in zip(*parts, strict=True)
        )
        del parts
        a = attend(q, k, v).reshape(t, -1)
        del q, k, v
        second = (
            block.out, block.out_bias, block.norm_2, block.gate_up, block.gate_up_bias,
            block.down, block.down_bias, shape.epsilon,
        )  # fmt: skip
        if len(pieces) == 1:
            return self._after(x, a, *second), finite
        for s in pieces:
            x[s] = self._after(x[s], a[s], *second)
        return x, finite

    def _turns(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin of every token: angles in float64, so that long texts lose nothing."""
        last = int(positions.max()) + 1
        if len(self._angles) < last:
            rope = torch.tensor(self.shape.rope, dtype=torch.float64)
            self._angles = torch.arange(last, dtype=torch.float64)[:, None] * rope
            table = self._angles[:, None]
            self._cos = table.cos().float().to(self.device)
            self._sin = table.sin().float().to(self.device)
        positions = positions.to(self.device)
        return self._cos[positions], self._sin[positions]

    def head_weight(self) -> Tensor:
        """(vocabulary, hidden)."""
        return self.weights.head

    def finish(self, logits: Tensor) -> Tensor:
        """What the model does to its logits after the product: nothing, in these families."""
        return logits
