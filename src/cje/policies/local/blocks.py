"""The fast path: Llama-like blocks with half-precision products and a float32 residual stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from cje.policies.local.attention import Attention, flash_works, join, join_filled
from cje.policies.local.compiling import compiled_copy
from cje.policies.local.head import product
from cje.policies.local.packing import Pack
from cje.policies.local.shape import Shape

__all__ = ["Block", "BlockNet", "Weights"]

Tensor = torch.Tensor
Keep = Callable[[int, Tensor, Tensor], None]
#: Tokens of one full forward pass, and of the pieces of a smaller pass.
BATCH_TOKENS = {"cuda": 65_536}
PIECE = 4_096


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
    cos: Tensor,
    sin: Tensor,
    norm: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    heads: int,
    dim: int,
    epsilon: float,
    check: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """q, k, v of (T, hidden) and, if asked for, which tokens are finite."""
    dtype, t = weight.dtype, x.shape[0]
    kv_heads = (weight.shape[0] // dim - heads) // 2
    y = F.linear(rms(x, norm, epsilon, dtype), weight, bias)
    q, k, v = torch.split(y, [heads * dim, kv_heads * dim, kv_heads * dim], -1)
    q, k = q.view(t, heads, dim), k.view(t, kv_heads, dim)
    if q_norm is not None and k_norm is not None:
        q = rms(q, q_norm, epsilon, torch.float32)
        k = rms(k, k_norm, epsilon, torch.float32)
    q, k = _turned(q, cos, sin).to(dtype), _turned(k, cos, sin).to(dtype)
    fine = torch.isfinite(y).all(-1) if check else None
    return q, k, v.view(t, kv_heads, dim), fine


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


def between_attentions(
    x: Tensor,
    a: Tensor,
    cos: Tensor,
    sin: Tensor,
    out: Tensor,
    out_bias: Tensor | None,
    norm_2: Tensor,
    gate_up: Tensor,
    gate_up_bias: Tensor | None,
    down: Tensor,
    down_bias: Tensor | None,
    norm: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    heads: int,
    dim: int,
    epsilon: float,
    check: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """The end of one block and the start of the next, reading the residual stream once."""
    x = after_attention(
        x, a, out, out_bias, norm_2, gate_up, gate_up_bias, down, down_bias, epsilon
    )
    parts = before_attention(
        x, cos, sin, norm, weight, bias, q_norm, k_norm, heads, dim, epsilon, check
    )
    return x, *parts


_PARTS: tuple[Callable[..., Any], ...] = (before_attention, between_attentions, after_attention)


def _second(block: Block) -> tuple[Tensor | None, ...]:
    """The arguments of `after_attention` from a block."""
    return (
        block.out, block.out_bias, block.norm_2, block.gate_up, block.gate_up_bias, block.down,
        block.down_bias,
    )  # fmt: skip


def _joined(column: Sequence[Tensor]) -> Tensor:
    return column[0] if len(column) == 1 else torch.cat(tuple(column))


def _attended(
    parts: list[tuple[Any, ...]],
    layer: int,
    attend: Callable[[int, Tensor, Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor | None]:
    """The attention of (q, k, v, finite) in pieces, which are freed when used."""
    q, k, v = (_joined([part[i] for part in parts]) for i in range(3))
    fine = None if parts[0][3] is None else _joined([part[3] for part in parts])
    parts.clear()
    return attend(layer, q, k, v).flatten(1), fine


def can_overflow(block: Block) -> bool:
    """Whether a query, key or value can exceed the range of the products' precision.

    A normed input has at most the length sqrt(hidden), so an output is at most that times the
    length of its weights (Cauchy-Schwarz). An overflow elsewhere becomes NaN in the residual stream
    and is visible in the result; only an infinite key can mask itself out.
    """
    if block.qkv.dtype not in (torch.float16, torch.bfloat16):
        return False
    most = (block.qkv.float() * block.norm_1).norm(dim=1).max() * block.qkv.shape[1] ** 0.5
    if block.qkv_bias is not None:
        most = most + block.qkv_bias.float().abs().max()
    return not bool(most < 0.99 * torch.finfo(block.qkv.dtype).max)


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
        Fuse the operations between the products with torch.compile. Packs must then be aligned to
        `align`: a pack of `whole` tokens is computed at once, any other in pieces of `align`, so
        that only two shapes are compiled.
    """

    def __init__(
        self,
        shape: Shape,
        weights: Weights,
        *,
        rows: int | None = None,
        compiled: bool = False,
        whole: int = BATCH_TOKENS["cuda"],
    ) -> None:
        self.shape, self.weights, self.rows, self._whole = shape, weights, rows, whole
        self.align = rows or (PIECE if compiled else 1)
        self._check = [can_overflow(block) for block in weights.blocks]
        self.device, self.dtype = weights.embedding.device, weights.blocks[0].qkv.dtype
        self.flash = flash_works(self.device, self.dtype, shape.head_dim)
        self.shares = True
        self._parts = tuple(map(compiled_copy, _PARTS)) if compiled else _PARTS
        self.joining: Callable[..., Any] = join if self.device.type == "cuda" else join_filled
        if compiled:
            self.joining = torch.compile(join)
        self._angles = torch.empty((0, shape.head_dim // 2), dtype=torch.float64)

    def hidden(
        self, pack: Pack, dtype: torch.dtype | None = None, keep: Keep | None = None
    ) -> tuple[Tensor, Tensor]:
        """Normed hidden states of ``pack.head``, and which tokens had finite q, k and v.

        With `dtype` the blocks are computed in that precision instead (their weights are converted
        one block at a time). `keep` receives the keys and values of every layer.
        """
        dtype = dtype or self.dtype
        flash = self.flash and dtype == self.dtype
        attend = Attention(
            pack,
            self.device,
            flash=flash,
            scale=self.shape.head_dim**-0.5,
            joining=self.joining,
        )
        tokens = torch.from_numpy(pack.tokens).to(self.device)
        cos, sin = self._turns(torch.from_numpy(pack.positions))
        x = F.embedding(tokens, self.weights.embedding).float()

        def attend_and_keep(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if keep is not None:
                keep(layer, k, v)
            return attend(q, k, v)

        x, finite = self._through(x, cos, sin, attend_and_keep, dtype)
        return self._last(x[torch.from_numpy(pack.head).to(self.device)], dtype), finite

    def step(self, tokens: Tensor, positions: Tensor, attend: Callable[..., Tensor]) -> Tensor:
        """Normed hidden states of one further token per text.

        Parameters
        ----------
        tokens, positions : tensor (B,)
        attend : callable
            ``attend(layer, q, k, v)`` keeps the new keys and values and returns the attention.
        """
        n = len(tokens)
        short = -n % (self.rows or 1)
        tokens, positions = (F.pad(x, (0, short)) for x in (tokens, positions))
        cos, sin = self._turns(positions)
        x = F.embedding(tokens, self.weights.embedding).float()

        def filled(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.pad(attend(layer, q[:n], k[:n], v[:n]), (0, 0, 0, 0, 0, short))

        x, _ = self._through(x, cos, sin, filled, self.dtype, few=True)
        return self._last(x[:n], self.dtype)

    def _last(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The final norm, in pieces of one shape where bits must not depend on the batch."""
        weight, epsilon = self.weights.norm, self.shape.epsilon
        if self.rows is None:
            return rms(x, weight, epsilon, dtype)
        n = len(x)
        x = F.pad(x, (0, 0, 0, -n % self.rows))
        return torch.cat([rms(part, weight, epsilon, dtype) for part in torch.split(x, self.rows)])[
            :n
        ]

    def _through(
        self,
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        attend: Callable[[int, Tensor, Tensor, Tensor], Tensor],
        dtype: torch.dtype,
        few: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """All blocks, the end of each computed together with the beginning of the next."""
        t, last = len(x), len(self.weights.blocks) - 1
        plain = few and self.rows is None  # a step of writing: as many tokens as texts
        step = self.rows or (t if plain or self.align == 1 or t == self._whole else self.align)
        pieces = [slice(at, at + step) for at in range(0, t, step)]
        before, between, after = _PARTS if plain else self._parts
        converted = (b if dtype == self.dtype else b.to(dtype) for b in self.weights.blocks)
        finite = torch.ones(t, dtype=torch.bool, device=self.device)
        block = next(converted)
        first = self._first(block, 0, dtype)
        parts = [before(x[s], cos[s], sin[s], *first) for s in pieces]
        for layer in range(last):
            a, fine = _attended(parts, layer, attend)
            if fine is not None:
                finite &= fine
            ending, block = _second(block), next(converted)
            first = self._first(block, layer + 1, dtype)
            parts = []
            for s in pieces:
                moved, *part = between(x[s], a[s], cos[s], sin[s], *ending, *first)
                parts.append(tuple(part))
                if len(pieces) == 1:
                    x = moved
                else:
                    x[s] = moved
        a, fine = _attended(parts, last, attend)
        if fine is not None:
            finite &= fine
        epsilon = self.shape.epsilon
        return _joined([after(x[s], a[s], *_second(block), epsilon) for s in pieces]), finite

    def _first(self, block: Block, layer: int, dtype: torch.dtype) -> tuple[Any, ...]:
        """The arguments of `before_attention` from a block."""
        check = self._check[layer] and dtype == self.dtype
        sizes = (self.shape.heads, self.shape.head_dim, self.shape.epsilon, check)
        return block.norm_1, block.qkv, block.qkv_bias, block.q_norm, block.k_norm, *sizes

    def _turns(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin of every token, with angles in float64 for the precision of long texts."""
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

    def project(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Float32 logits, which these model families do not change after the product."""
        return product(hidden, weight)
