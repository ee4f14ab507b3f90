"""Plan which rows are read together, in packs of whole sequences without padding in between.

A pack is a forest of segments in depth-first order. A segment is a run of tokens that continues its
parent, so responses to one prompt, and prompts with a common beginning, share what precedes them.
Pure Python and NumPy, without torch.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Item", "Level", "Pack", "plan_packs"]

IntArray = NDArray[np.int64]

#: Prompts share a common beginning of at least this length: shorter ones cost more in extra
#: attention calls than they save.
SHARED_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Item:
    """One row to score: the tokens given, and the tokens whose log-probs are wanted."""

    prompt: tuple[int, ...]
    response: tuple[int, ...]


@dataclass(frozen=True)
class Level:
    """Queries that read the segments above their own, at one depth of the forest.

    Attributes
    ----------
    queries, keys : array
        Token indices; document d holds ``queries[cu_q[d]:cu_q[d+1]]``, which read all of
        ``keys[cu_k[d]:cu_k[d+1]]``.
    """

    queries: IntArray
    cu_q: IntArray
    keys: IntArray
    cu_k: IntArray


@dataclass(frozen=True)
class Pack:
    """One forward pass.

    Attributes
    ----------
    tokens, positions : array (T,)
        Token ids and their positions in their own sequences.
    cu : array (S + 1,)
        Starts of the segments; each reads itself causally.
    levels : tuple of Level
        The keys that segments read beyond themselves.
    rows : tuple of int
        The items, in the order of `head`.
    head, targets : array
        Hidden states that the head reads, and the token that each predicts, item by item.
    row_cu : array (rows + 1,)
        Starts of the items' tokens in `head`.
    paths : tuple of tuple of int
        The segments that each item consists of.
    used : int
        Number of tokens that are not padding.
    """

    tokens: IntArray
    positions: IntArray
    cu: IntArray
    levels: tuple[Level, ...]
    rows: tuple[int, ...]
    head: IntArray
    targets: IntArray
    row_cu: IntArray
    paths: tuple[tuple[int, ...], ...]
    used: int

    @property
    def longest(self) -> int:
        """Tokens of the longest segment."""
        return int(np.diff(self.cu).max())


@dataclass
class _Group:
    """Rows with the same prompt."""

    prompt: tuple[int, ...]
    rows: list[int]
    size: int  # tokens of the responses that are read


@dataclass
class _Bundle:
    """Groups that share the first `shared` tokens of their prompts and travel together."""

    shared: int
    groups: list[_Group]

    @property
    def size(self) -> int:
        own = sum(len(group.prompt) - self.shared + group.size for group in self.groups)
        return self.shared + own


def plan_packs(
    items: Sequence[Item],
    *,
    batch_tokens: int,
    align: int = 1,
    share: bool = True,
    split_always: bool = False,
) -> list[Pack]:
    """Packs of at most `batch_tokens` tokens (a longer row gets a pack of its own).

    Parameters
    ----------
    align : int
        The number of tokens of a pack is a multiple of this; padding goes to the end.
    share : bool
        Read a prompt once for all its responses, and a common beginning of prompts once.
    split_always : bool
        Cut every row at its prompt's end and share nothing else, so that the arithmetic of a row
        does not depend on its neighbours.
    """
    bundles = [
        part
        for bundle in _bundles(items, share, split_always)
        for part in _cut(items, bundle, batch_tokens)
    ]
    return [
        _pack(items, [bundles[i] for i in chosen], align, split_always)
        for chosen in _fill([bundle.size for bundle in bundles], batch_tokens)
    ]


def _bundles(items: Sequence[Item], share: bool, split_always: bool) -> list[_Bundle]:
    if not share:
        return [
            _Bundle(0, [_Group(item.prompt, [i], len(item.response) - 1)])
            for i, item in enumerate(items)
        ]
    by_prompt: dict[tuple[int, ...], _Group] = {}
    for index, item in enumerate(items):
        group = by_prompt.setdefault(item.prompt, _Group(item.prompt, [], 0))
        group.rows.append(index)
        group.size += len(item.response) - 1
    groups = list(by_prompt.values())
    if split_always:
        return [_Bundle(0, [group]) for group in groups]
    return _with_common_beginning(groups)


def _with_common_beginning(groups: list[_Group]) -> list[_Bundle]:
    """Join neighbours in sorted order with a common beginning, as long as that saves tokens."""
    bundles: list[_Bundle] = []
    for group in sorted(groups, key=lambda g: g.prompt):
        last = bundles[-1] if bundles else None
        if last is not None:
            common = _common(last.groups[-1].prompt, group.prompt)
            if len(last.groups) > 1:
                # A shorter beginning must still save more with this group than without it.
                common = min(common, last.shared)
                if common < SHARED_TOKENS or (
                    common * len(last.groups) < last.shared * (len(last.groups) - 1)
                ):
                    common = 0
            if common >= SHARED_TOKENS:
                last.shared = common
                last.groups.append(group)
                continue
        bundles.append(_Bundle(0, [group]))
    return bundles


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Length of the common beginning of two prompts, leaving each at least one token."""
    most = min(len(a), len(b)) - 1
    for i in range(most):
        if a[i] != b[i]:
            return i
    return max(most, 0)


def _cut(items: Sequence[Item], bundle: _Bundle, most: int) -> Iterator[_Bundle]:
    """Split a bundle into parts that fit a pack, each with a copy of the shared tokens."""
    if bundle.size <= most:
        yield bundle
        return
    part = _Bundle(bundle.shared, [])
    for group in bundle.groups:
        begun = _Group(group.prompt, [], 0)
        size = part.size + len(group.prompt) - bundle.shared
        for row in group.rows:
            tokens = len(items[row].response) - 1
            if size + begun.size + tokens > most and (begun.rows or part.groups):
                if begun.rows:
                    part.groups.append(begun)
                yield part
                part = _Bundle(bundle.shared, [])
                begun, size = _Group(group.prompt, [], 0), len(group.prompt)
            begun.rows.append(row)
            begun.size += tokens
        part.groups.append(begun)
    yield part


def _fill(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Assign bundles to packs: best fit, largest first."""
    packs: list[list[int]] = []
    room: list[tuple[int, int]] = []  # (tokens left, pack), sorted
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        at = bisect_left(room, (sizes[index], -1))
        if at == len(room):
            left, pack = most, len(packs)
            packs.append([])
        else:
            left, pack = room.pop(at)
        packs[pack].append(index)
        if left > sizes[index]:
            insort(room, (left - sizes[index], pack))
    return packs


class _Builder:
    """Segments laid out depth first."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.starts: list[int] = []
        self.inner: dict[int, list[tuple[int, int, int]]] = {}  # depth -> (begin, end, last query)

    def segment(self, tokens: Sequence[int], position: int) -> int:
        self.starts.append(len(self.tokens))
        self.tokens += tokens
        self.positions += range(position, position + len(tokens))
        return len(self.starts) - 1

    def read_from(self, depth: int, begin: int, end: int) -> None:
        """All tokens from `end` to here read the segment [begin, end)."""
        if len(self.tokens) > end:
            self.inner.setdefault(depth, []).append((begin, end, len(self.tokens)))

    def levels(self) -> tuple[Level, ...]:
        return tuple(_level(self.inner[depth]) for depth in sorted(self.inner))


def _level(spans: Sequence[tuple[int, int, int]]) -> Level:
    def joined(parts: list[IntArray]) -> tuple[IntArray, IntArray]:
        return np.concatenate(parts), np.cumsum([0, *map(len, parts)])

    keys, cu_k = joined([np.arange(begin, end) for begin, end, _ in spans])
    queries, cu_q = joined([np.arange(end, last) for _, end, last in spans])
    return Level(queries, cu_q, keys, cu_k)


def _pack(
    items: Sequence[Item], bundles: Sequence[_Bundle], align: int, split_always: bool
) -> Pack:
    made = _Builder()
    rows: list[int] = []
    heads: list[list[int]] = []
    paths: list[tuple[int, ...]] = []
    for bundle in bundles:
        above: tuple[int, ...] = ()
        if bundle.shared:
            above = (made.segment(bundle.groups[0].prompt[: bundle.shared], 0),)
        end_of_shared = len(made.tokens)
        for group in bundle.groups:
            _add_group(made, items, group, bundle.shared, above, split_always, rows, heads, paths)
        if bundle.shared:
            made.read_from(0, end_of_shared - bundle.shared, end_of_shared)
    used = len(made.tokens)
    filling = -used % align
    if filling:
        made.segment([0] * filling, 0)
    return Pack(
        tokens=np.array(made.tokens, dtype=np.int64),
        positions=np.array(made.positions, dtype=np.int64),
        cu=np.array([*made.starts, len(made.tokens)], dtype=np.int64),
        levels=made.levels(),
        rows=tuple(rows),
        head=np.array([i for head in heads for i in head], dtype=np.int64),
        targets=np.array([t for row in rows for t in items[row].response], dtype=np.int64),
        row_cu=np.cumsum([0, *map(len, heads)]),
        paths=tuple(paths),
        used=used,
    )


def _add_group(
    made: _Builder,
    items: Sequence[Item],
    group: _Group,
    shared: int,
    above: tuple[int, ...],
    split_always: bool,
    rows: list[int],
    heads: list[list[int]],
    paths: list[tuple[int, ...]],
) -> None:
    """A prompt and its responses; one response alone continues the prompt's own segment."""
    own = group.prompt[shared:]
    length = len(group.prompt)
    if len(group.rows) == 1 and not split_always:
        response = items[group.rows[0]].response
        segment = made.segment([*own, *response[:-1]], shared)
        last = made.starts[segment] + len(own) - 1
        rows.append(group.rows[0])
        heads.append(list(range(last, last + len(response))))
        paths.append((*above, segment))
        return
    prompt = made.segment(own, shared)
    begin, end = made.starts[prompt], len(made.tokens)
    for row in group.rows:
        response = items[row].response
        head, path = [end - 1], (*above, prompt)
        if len(response) > 1:
            start = len(made.tokens)
            path = (*path, made.segment(response[:-1], length))
            head += range(start, len(made.tokens))
        rows.append(row)
        heads.append(head)
        paths.append(path)
    made.read_from(1 if above else 0, begin, end)
