"""Attention of a pack: every segment reads itself, then the segments above it, joined exactly.

softmax over two sets of keys is the average of the two softmaxes, weighted by their normalisers:
``out = out_1 * exp(lse_1 - lse) + out_2 * exp(lse_2 - lse)`` with ``lse = logaddexp(lse_1, lse_2)``
(Milakov and Gimelshein 2018). So a prompt is read once however many responses follow it.

Two kernels compute a call: variable-length flash attention on a GPU in half precision, and
`blockwise`, its equivalent in plain torch for every other device and precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cje.policies.local.packing import IntArray, Pack

__all__ = ["Attention", "StepAttention", "blockwise", "flash_works", "join", "join_filled"]

BLOCK = 32
Tensor = torch.Tensor


def flash_works(device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """Whether torch's variable-length flash attention can be used."""
    if device.type != "cuda" or dtype not in (torch.float16, torch.bfloat16):
        return False
    if torch.version.hip is not None or head_dim > 256 or head_dim % 8:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


@dataclass(frozen=True)
class _Call:
    """One call: documents of queries that read documents of keys."""

    queries: Tensor | None  # None: all tokens
    keys: Tensor | None
    causal: bool
    cu_q: Tensor | None = None  # flash
    cu_k: Tensor | None = None
    longest_q: int = 0
    longest_k: int = 0
    blocks: Any = None  # twin


class Attention:
    """The attention of one pack, prepared once and used by every layer.

    Parameters
    ----------
    pack : Pack
    device : torch.device
    flash : bool
        Whether to use flash attention.
    scale : float
        Factor of the scores.
    joining : callable
        `join`, or a compiled form of it.
    """

    def __init__(
        self,
        pack: Pack,
        device: torch.device,
        *,
        flash: bool,
        scale: float,
        joining: Callable[..., Any],
    ) -> None:
        self._run, self._join = _Runner(flash, scale), joining
        self._calls = [_call(None, pack.cu, None, pack.cu, True, device, flash)]
        for level in pack.levels:
            self._calls.append(
                _call(level.queries, level.cu_q, level.keys, level.cu_k, False, device, flash)
            )

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q (T, heads, d), k and v (T, kv heads, d) -> (T, heads, d)."""
        out, lse = self._run(self._calls[0], q, k, v)
        for call in self._calls[1:]:
            at = call.queries
            above, lse_above = self._run(call, q[at], k[call.keys], v[call.keys])
            joined, lse_joined = self._join(out[at], lse[at], above, lse_above)
            out[at] = joined
            lse[at] = lse_joined
        return out


class _Runner:
    """Runs one call on the available kernel."""

    def __init__(self, flash: bool, scale: float) -> None:
        self._flash, self._scale = flash, scale

    def __call__(self, call: _Call, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Output (n, heads, d) and log normaliser (n, heads)."""
        if not self._flash:
            return blockwise(q, k, v, call.blocks, self._scale)
        out, lse = torch.ops.aten._flash_attention_forward(
            q, k, v, call.cu_q, call.cu_k, call.longest_q, call.longest_k, 0.0, call.causal, False,
            scale=self._scale,
        )[:2]  # fmt: skip
        return out, lse.t()


class StepAttention:
    """Attention of one query per text: over the text's own tokens so far, then over its prompt.

    Computed as `Attention` computes the same row when the text is scored.

    Parameters
    ----------
    own : array (B,)
        Tokens of each text so far, this one included.
    group_cu, prompt_cu : array
        Where the texts of each prompt begin, and where the prompts begin among the kept keys.
    """

    def __init__(
        self,
        own: IntArray,
        group_cu: IntArray,
        prompt_cu: IntArray,
        device: torch.device,
        *,
        flash: bool,
        scale: float,
        joining: Callable[..., Any],
    ) -> None:
        one_each = np.arange(len(own) + 1)
        own_cu = np.concatenate([[0], np.cumsum(own)])
        self._own = _call(None, one_each, None, own_cu, False, device, flash)
        self._above = _call(None, group_cu, None, prompt_cu, False, device, flash)
        self._run, self._join = _Runner(flash, scale), joining

    def __call__(self, q: Tensor, own: tuple[Tensor, Tensor], above: tuple[Tensor, Tensor]) -> Any:
        """q (B, heads, d); keys and values of the texts, and of their prompts."""
        mine, lse = self._run(self._own, q, *own)
        theirs, lse_above = self._run(self._above, q, *above)
        return self._join(mine, lse, theirs, lse_above)[0]


def join(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """Two attentions of the same queries over disjoint keys as one over all of them."""
    lse = torch.logaddexp(lse_a, lse_b)
    share_a, share_b = (lse_a - lse).exp()[..., None], (lse_b - lse).exp()[..., None]
    return (a.float() * share_a + b.float() * share_b).to(a.dtype), lse


def join_filled(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """`join` on a whole number of vector registers.

    A CPU computes the remaining elements at the end with another exponential function, so the last
    bit of a query would depend on the number of queries.
    """
    n = len(a)
    short = -n % BLOCK
    a, b = (torch.nn.functional.pad(x, (0, 0, 0, 0, 0, short)) for x in (a, b))
    lse_a, lse_b = (torch.nn.functional.pad(x, (0, 0, 0, short)) for x in (lse_a, lse_b))
    out, lse = join(a, lse_a, b, lse_b)
    return out[:n], lse[:n]


def _call(
    queries: IntArray | None,
    cu_q: IntArray,
    keys: IntArray | None,
    cu_k: IntArray,
    causal: bool,
    device: torch.device,
    flash: bool,
) -> _Call:
    def index(values: IntArray | None) -> Tensor | None:
        return None if values is None else torch.from_numpy(values).to(device)

    if not flash:
        blocks = _Blocks(cu_q, cu_k, causal, device)
        return _Call(index(queries), index(keys), causal, blocks=blocks)
    return _Call(
        index(queries), index(keys), causal,
        torch.from_numpy(cu_q).to(device, torch.int32),
        torch.from_numpy(cu_k).to(device, torch.int32),
        # For 1 the kernel swaps heads and queries, and sums in another order.
        max(2, int(np.diff(cu_q).max())), int(np.diff(cu_k).max()),
    )  # fmt: skip


class _Blocks:
    """The pairs of query blocks and key blocks, and their order.

    Blocks have one fixed size, filled with a document's first token and masked: the arithmetic of
    a query then depends on its own document only.
    """

    def __init__(self, cu_q: IntArray, cu_k: IntArray, causal: bool, device: torch.device) -> None:
        q_index, q_doc, q_number, _ = _cut(cu_q)
        k_index, _, _, k_first = _cut(cu_k)
        offsets = np.arange(BLOCK)
        lengths_k = np.diff(cu_k)
        self.q = torch.from_numpy(q_index).to(device)
        self.k = torch.from_numpy(k_index).to(device)
        counts = q_number + 1 if causal else -(-lengths_k[q_doc] // BLOCK)
        self.steps = []
        for step in range(int(counts.max(initial=0))):
            active = np.flatnonzero(counts > step)
            docs = q_doc[active]
            seen = (step * BLOCK + offsets)[None, None] < lengths_k[docs][:, None, None]
            seen = np.broadcast_to(seen, (len(active), BLOCK, BLOCK))
            if causal:
                diagonal = (q_number[active] == step)[:, None, None]
                seen = seen & (~diagonal | (offsets[None, :, None] >= offsets[None, None]))
            self.steps.append(
                tuple(
                    torch.from_numpy(np.ascontiguousarray(part)).to(device)
                    for part in (active, k_first[docs] + step, ~seen)
                )
            )
        # Row of a token's output among the rows of the blocks.
        place = np.empty(int(cu_q[-1]), dtype=np.int64)
        number = q_number[:, None] * BLOCK + offsets
        real = number < np.diff(cu_q)[q_doc][:, None]
        place[q_index[real]] = np.flatnonzero(real.reshape(-1))
        self.place = torch.from_numpy(place).to(device)


def _cut(cu: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Token indices of each block, its document, its number there; each document's first block."""
    lengths = np.diff(cu)
    per_doc = -(-lengths // BLOCK)
    first = np.concatenate([[0], np.cumsum(per_doc)[:-1]])
    doc = np.repeat(np.arange(len(lengths)), per_doc)
    number = np.arange(len(doc)) - first[doc]
    inside = number[:, None] * BLOCK + np.arange(BLOCK)
    index = cu[doc][:, None] + np.where(inside < lengths[doc][:, None], inside, 0)
    return index, doc, number, first


def blockwise(
    q: Tensor, k: Tensor, v: Tensor, blocks: _Blocks, scale: float
) -> tuple[Tensor, Tensor]:
    """Equivalent of the flash kernel: running maximum and sum over key blocks, in float32."""
    heads, dim = q.shape[1:]
    kv = k.shape[1]
    n, group = len(blocks.q), heads // kv
    # (blocks, kv heads, group * BLOCK, dim) and (blocks, kv heads, BLOCK, dim)
    qb = q[blocks.q].float().view(n, BLOCK, kv, group, dim).permute(0, 2, 3, 1, 4)
    qb = qb.reshape(n, kv, group * BLOCK, dim) * scale
    kb, vb = (x[blocks.k].float().permute(0, 2, 1, 3).contiguous() for x in (k, v))
    top = qb.new_full((n, kv, group, BLOCK, 1), -math.inf)
    total, out = torch.zeros_like(top), qb.new_zeros((n, kv, group, BLOCK, dim))
    for active, keys, hidden in blocks.steps:
        shape = (len(active), kv, group, BLOCK, BLOCK)
        scores = (qb[active] @ kb[keys].transpose(-1, -2)).view(shape)
        scores.masked_fill_(hidden[:, None, None], -math.inf)
        before = top[active]
        now = torch.maximum(before, scores.amax(-1, keepdim=True))
        fade = (before - now).exp()
        scores = (scores - now).exp_()
        part = (scores.view(len(active), kv, group * BLOCK, BLOCK) @ vb[keys]).view(*shape[:4], dim)
        top[active] = now
        total[active] = total[active] * fade + scores.sum(-1, keepdim=True)
        out[active] = out[active] * fade + part
    out = out / total
    lse = (top + total.log())[..., 0]
    flat = out.permute(0, 3, 1, 2, 4).reshape(n * BLOCK, heads, dim)
    flat_lse = lse.permute(0, 3, 1, 2).reshape(n * BLOCK, heads)
    return flat[blocks.place].to(q.dtype), flat_lse[blocks.place]
