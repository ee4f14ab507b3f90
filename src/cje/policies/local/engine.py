"""`ScoringEngine`: log-probs of given responses, pack by pack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cje.errors import CJEError
from cje.policies.local.blocks import BATCH_TOKENS
from cje.policies.local.head import Head, Sampling
from cje.policies.local.packing import Item, Pack, plan_packs

__all__ = ["Counts", "Net", "Scored", "ScoringEngine"]

_SMALL_BATCH = 4_096
#: Tokens of one product in batch-invariant mode.
INVARIANT_ROWS = {"cuda": 2_048, "cpu": 128}


class Net(Protocol):
    """A model without its head."""

    device: torch.device
    dtype: torch.dtype
    rows: int | None
    align: int
    shares: bool  # whether responses can share their prompt

    def hidden(
        self, pack: Pack, dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]: ...

    def head_weight(self) -> torch.Tensor: ...

    def project(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class Scored:
    """One item's token log-probs under each distribution: (samplings, tokens)."""

    index: int
    values: NDArray[np.float32]
    rescored: bool = False


@dataclass
class Counts:
    """Counts of an engine's work so far."""

    rows: int = 0
    tokens: int = 0  # tokens read, without padding
    scored_tokens: int = 0
    packs: int = 0
    rescored: int = 0  # rows computed again in float32 because half precision overflowed


@dataclass
class _Pending:
    pack: Pack
    values: torch.Tensor
    finite: torch.Tensor
    items: list[int] = field(default_factory=list)


@contextmanager
def one_thread(wanted: bool) -> Iterator[None]:
    """Compute on one thread: splitting a row between threads can change its last bit."""
    if not wanted:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class ScoringEngine:
    """Scores token sequences under one model.

    Parameters
    ----------
    net : Net
        Hidden states of packs.
    batch_tokens : int, optional
        Maximum number of tokens per forward pass.
    share_prefixes : bool
        Read a prompt once for all its responses.
    compiled : bool
        Compile the head as well.

    Notes
    -----
    A row whose arithmetic overflows half precision is computed again in float32 and counted in
    `counts.rescored`. A row that is still not finite does not raise here: its values are NaN, which
    `sum_span` refuses.
    """

    def __init__(
        self,
        net: Net,
        *,
        batch_tokens: int | None = None,
        share_prefixes: bool = True,
        compiled: bool = False,
    ) -> None:
        self.net = net
        self.batch_tokens = batch_tokens or BATCH_TOKENS.get(net.device.type, _SMALL_BATCH)
        if self.batch_tokens < 1:
            raise CJEError("batch_tokens must be at least 1", value=batch_tokens)
        self.share = share_prefixes and net.shares
        self.head = Head(net.head_weight(), net.project, compiled=compiled)
        self.counts = Counts()

    @property
    def batch_invariant(self) -> bool:
        """Whether a row's bits depend only on the row."""
        return self.net.rows is not None

    def plan(self, items: Sequence[Item]) -> list[Pack]:
        """The packs that `score` would compute."""
        for number, item in enumerate(items):
            if not item.prompt or not item.response:
                raise CJEError("an item needs a prompt and a response", where=f"item {number}")
        rows = self.net.rows
        return plan_packs(
            items, batch_tokens=self.batch_tokens, align=self.net.align, share=self.share,
            split_always=rows is not None and self.share,
        )  # fmt: skip

    def score(
        self, items: Sequence[Item], samplings: Sequence[Sampling] = (Sampling(),)
    ) -> Iterator[list[Scored]]:
        """Token log-probs of every item, as packs finish (not in the order of the items)."""
        pending: _Pending | None = None
        for pack in self.plan(items):
            # The next pack is sent to the device before the last one is awaited.
            started = self._start(pack, samplings)
            if pending is not None:
                yield self._collect(pending, items, samplings)
            pending = started
        if pending is not None:
            yield self._collect(pending, items, samplings)

    def score_all(
        self, items: Sequence[Item], samplings: Sequence[Sampling] = (Sampling(),)
    ) -> list[NDArray[np.float32]]:
        """`score` in the items' order."""
        found: list[Any] = [None] * len(items)
        for part in self.score(items, samplings):
            for scored in part:
                found[scored.index] = scored.values
        return found

    @torch.inference_mode()
    def _start(
        self, pack: Pack, samplings: Sequence[Sampling], dtype: torch.dtype | None = None
    ) -> _Pending:
        try:
            with one_thread(self.batch_invariant and self.net.device.type == "cpu"):
                hidden, finite = self.net.hidden(pack, dtype)
                targets = torch.from_numpy(pack.targets).to(self.net.device)
                return _Pending(pack, self.head(hidden, targets, samplings), finite)
        except torch.OutOfMemoryError as error:
            raise CJEError(
                f"a pass of {len(pack.tokens)} tokens does not fit the memory of "
                f"{self.net.device}", hint=f"set batch_tokens below {self.batch_tokens}",
            ) from error  # fmt: skip

    def _collect(
        self, pending: _Pending, items: Sequence[Item], samplings: Sequence[Sampling]
    ) -> list[Scored]:
        pack = pending.pack
        values, finite = pending.values.cpu().numpy(), pending.finite.cpu().numpy()
        self.counts.packs += 1
        self.counts.tokens += pack.used
        self.counts.scored_tokens += len(pack.head)
        whole = np.logical_and.reduceat(finite, pack.cu[:-1])
        done, again = [], []
        for number, index in enumerate(pack.rows):
            part = values[:, pack.row_cu[number] : pack.row_cu[number + 1]]
            fine = whole[list(pack.paths[number])].all() and not np.isnan(part).any()
            if fine or self.net.dtype == torch.float32:
                done.append(Scored(index, part.copy()))
            else:
                again.append(index)
        self.counts.rows += len(pack.rows)
        return done + self._rescore(again, items, samplings)

    def _rescore(
        self, rows: Sequence[int], items: Sequence[Item], samplings: Sequence[Sampling]
    ) -> list[Scored]:
        """Rows that overflowed, in float32, in small packs."""
        self.counts.rescored += len(rows)
        chosen = [items[i] for i in rows]
        done = []
        packs = plan_packs(
            chosen, batch_tokens=min(self.batch_tokens, _SMALL_BATCH), align=self.net.align,
            share=self.share, split_always=self.batch_invariant and self.share,
        )  # fmt: skip
        for pack in packs:
            pending = self._start(pack, samplings, torch.float32)
            values = pending.values.cpu().numpy()
            for number, index in enumerate(pack.rows):
                part = values[:, pack.row_cu[number] : pack.row_cu[number + 1]]
                done.append(Scored(rows[index], part.copy(), rescored=True))
        return done
