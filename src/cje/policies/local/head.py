"""From hidden states to log-probs, in chunks: the full tokens x vocabulary matrix never exists."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cje.policies.local.compiling import compiled_copy

__all__ = ["Head", "Sampling", "distribution", "product"]

Tensor = torch.Tensor
#: Rows of one product with the vocabulary: 4,096 x 128,256 float32 logits are 2 GiB.
CHUNK = {"cuda": 4096}
_SMALL_CHUNK = 128
_SORTED_ROWS = 512  # top-p sorts the whole vocabulary


@dataclass(frozen=True, order=True)
class Sampling:
    """A distribution over the next token: the model's logits at a temperature, cut at top-p."""

    temperature: float = 1.0
    top_p: float = 1.0

    @property
    def plain(self) -> bool:
        """Whether a log-sum-exp is sufficient (nothing is cut)."""
        return self.top_p >= 1.0 and self.temperature > 0.0


def chunk_rows(device: torch.device) -> int:
    """Number of hidden states of one product."""
    return CHUNK.get(device.type, _SMALL_CHUNK)


def product(hidden: Tensor, weight: Tensor) -> Tensor:
    """Float32 logits, summed in float32 for any precision of the factors."""
    if hidden.dtype == torch.float32 or hidden.device.type != "cuda":
        return hidden.float() @ weight.float().t()
    return torch.mm(hidden, weight.t(), out_dtype=torch.float32)


def reduced(logits: Tensor, targets: Tensor, inverse: Tensor) -> Tensor:
    """(n,): log softmax(logits * inverse temperature) at the targets.

    One temperature at a time, so that its bits do not depend on the other temperatures.
    """
    picked = logits.gather(1, targets[:, None])[:, 0]
    return picked * inverse - torch.logsumexp(logits * inverse, -1)


def distribution(logits: Tensor, sampling: Sampling) -> Tensor:
    """Log-probs of every token, ``-inf`` where cut; the same for scoring and for sampling."""
    if sampling.temperature == 0.0:
        greedy = torch.full_like(logits, -math.inf)
        return greedy.scatter_(1, logits.argmax(-1, keepdim=True), 0.0)
    scores = torch.log_softmax(logits * (1.0 / sampling.temperature), -1)
    if sampling.top_p >= 1.0:
        return scores
    ranked = scores.sort(-1, descending=True).values
    mass = ranked.exp().cumsum(-1)
    # The likeliest tokens up to a total of top_p; the one that reaches it is kept.
    last = (mass < sampling.top_p).sum(-1, keepdim=True).clamp_max(scores.shape[-1] - 1)
    kept = scores >= ranked.gather(1, last)
    scores = scores.masked_fill(~kept, -math.inf)
    return scores - scores.logsumexp(-1, keepdim=True)


class Head:
    """Response-only log-probs of one net, for several sampling distributions at once."""

    def __init__(
        self,
        weight: Tensor,
        project: Callable[[Tensor, Tensor], Tensor] = product,
        *,
        compiled: bool = False,
    ) -> None:
        self._weight, self._project = weight, project
        self.rows = chunk_rows(weight.device)
        self._reduced: Callable[..., Any] = compiled_copy(reduced) if compiled else reduced

    def __call__(self, hidden: Tensor, targets: Tensor, samplings: Sequence[Sampling]) -> Tensor:
        """(samplings, n) log-probs of `targets`; every product has the same shape."""
        n, weight = len(hidden), self._weight
        out = hidden.new_empty((len(samplings), n), dtype=torch.float32)
        plain = [i for i, s in enumerate(samplings) if s.plain]
        inverse = [
            torch.tensor(1.0 / samplings[i].temperature, device=hidden.device) for i in plain
        ]
        for at in range(0, n, self.rows):
            h, t = hidden[at : at + self.rows], targets[at : at + self.rows]
            short = self.rows - len(h)
            if short:
                h = torch.nn.functional.pad(h, (0, 0, 0, short))
                t = torch.nn.functional.pad(t, (0, short))
            logits = self._project(h, weight) if plain else None
            for i, factor in zip(plain, inverse, strict=True):
                values = self._reduced(logits, t, factor)
                out[i, at : at + self.rows] = values[: self.rows - short]
            del logits
            for i, sampling in enumerate(samplings):
                if not sampling.plain:
                    values = self._cut(h, weight, t, sampling)
                    out[i, at : at + self.rows] = values[: self.rows - short]
        return out

    def _cut(self, h: Tensor, weight: Tensor, t: Tensor, sampling: Sampling) -> Tensor:
        parts = []
        for at in range(0, len(h), _SORTED_ROWS):
            logits = self._project(h[at : at + _SORTED_ROWS], weight)
            scores = distribution(logits, sampling)
            parts.append(scores.gather(1, t[at : at + _SORTED_ROWS, None])[:, 0])
        return torch.cat(parts)

    def logits(self, hidden: Tensor, *, fixed: bool = False) -> Tensor:
        """Float32 logits of a few hidden states.

        With `fixed`, in products of the same shape as in scoring, and so with the same bits.
        """
        if not fixed:
            return self._project(hidden, self._weight)
        parts = []
        for at in range(0, len(hidden), self.rows):
            h = hidden[at : at + self.rows]
            short = self.rows - len(h)
            padded = torch.nn.functional.pad(h, (0, 0, 0, short)) if short else h
            parts.append(self._project(padded, self._weight)[: len(h)])
        return torch.cat(parts)
