"""The one fold system: a prompt's fold follows from its id, the number of folds and the seed.

A prompt id is hashed over its UTF-8 bytes to 64 bits. The seed and the number of folds are hashed
to a key, which is mixed into the digest before a final avalanche, so that partitions for different
seeds or fold counts are independent of each other. Nothing else enters: not the row order, the
batch, the process or the platform.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cje.checks import float_array
from cje.errors import CJEError

__all__ = ["get_content_folds", "get_fold", "get_folds"]

_WORD = 8
_BLOCK = 16_384
_PROBE = 4096
_MASK = (1 << 64) - 1
# Odd constants of the SplitMix64 finaliser (Steele, Lea and Flood 2014) and the golden ratio.
_MULTIPLY_1 = 0xBF58476D1CE4E5B9
_MULTIPLY_2 = 0x94D049BB133111EB
_GOLDEN = 0x9E3779B97F4A7C15

_UintArray = NDArray[np.uint64]


@runtime_checkable
class _Coded(Protocol):
    """Integer codes into a vocabulary, as `cje.data.Codes` has them."""

    @property
    def codes(self) -> NDArray[np.int64]: ...
    @property
    def names(self) -> Sequence[str]: ...


def get_fold(prompt_id: str, n_folds: int, seed: int = 42) -> int:
    """Fold of one prompt: an integer in ``0 .. n_folds - 1``.

    Examples
    --------
    >>> ids = ["p1", "p2", "p3"]
    >>> [get_fold(name, 5, 42) for name in ids] == get_folds(ids, 5, 42).tolist()
    True
    """
    key = _key(n_folds, seed)
    digest = _digest(_encode(prompt_id))
    return (_mix(_mix(digest ^ key) + key) * n_folds) >> 64


def get_folds(
    prompt_ids: Sequence[str] | _Coded, n_folds: int, seed: int = 42
) -> NDArray[np.int64]:
    """Fold of every prompt; elementwise equal to `get_fold`.

    Parameters
    ----------
    prompt_ids : sequence of str, or an object with `codes` and `names`
        With codes, each distinct name is hashed once.
    n_folds : int
        At least 1.
    seed : int
        Any integer.

    Returns
    -------
    ndarray of int64

    Notes
    -----
    The 64-bit hash ``h`` becomes ``floor(h * n_folds / 2^64)``; no fold's probability differs from
    ``1 / n_folds`` by more than ``2^-64``.
    """
    if isinstance(prompt_ids, _Coded):
        return get_folds(prompt_ids.names, n_folds, seed)[prompt_ids.codes]
    if isinstance(prompt_ids, str):
        raise CJEError(
            "prompt_ids must be a sequence of ids, not one string",
            value=prompt_ids,
            hint="use get_fold for one id",
        )
    if not isinstance(prompt_ids, Sequence):
        try:
            prompt_ids = list(prompt_ids)
        except TypeError as error:
            raise CJEError("prompt_ids must be a sequence of ids", value=prompt_ids) from error
    key = np.uint64(_key(n_folds, seed))
    digests = _digests(*_bytes(prompt_ids))
    hashed = _mix_array(_mix_array(digests ^ key) + key)
    return _reduce(hashed, n_folds)


def get_content_folds(
    columns: Sequence[NDArray[np.float64]],
    n_folds: int,
    seed: int = 42,
    *,
    scatter_equal: bool = True,
) -> NDArray[np.int64]:
    """Fold of every row of plain arrays, from what the row holds, whatever the order of the rows.

    Rows that are equal in every column are numbered, so that they scatter over
    the folds like any other rows.

    Parameters
    ----------
    columns : sequence of array (n,)
        At least one; NaN is a value like any other.
    n_folds, seed : int
    scatter_equal : bool
        Off, equal rows share a fold: quicker, and as good for rows that train nothing.

    Examples
    --------
    >>> x, y = np.array([0.1, 0.2, 0.3]), np.array([1.0, 0.0, np.nan])
    >>> folds = get_content_folds([x, y], 5)
    >>> get_content_folds([x[::-1], y[::-1]], 5).tolist() == folds[::-1].tolist()
    True
    """
    key = np.uint64(_key(n_folds, seed))
    columns = _columns(columns)
    n = len(columns[0])
    h = np.empty(n, dtype=np.uint64)
    for start in range(0, n, _BLOCK):  # temporaries that stay in cache
        rows = slice(start, start + _BLOCK)
        state = np.full(len(h[rows]), key)
        for column in columns:
            state = (state ^ _float_bits(column[rows])) * np.uint64(_MULTIPLY_1)
        h[rows] = _mix_array(state)
    if scatter_equal and _has_repeats(h):
        h = _mix_array(h + _occurrence(h) * np.uint64(_GOLDEN))
    return _reduce(h, n_folds)


def _columns(given: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Columns of numbers, at least one, all of one length."""
    try:
        columns = [float_array("a column", column) for column in given]
    except TypeError as error:
        raise CJEError("columns must be a list of arrays", value=given) from error
    if not columns:
        raise CJEError("at least one column is needed: there is nothing to distinguish rows by")
    shapes = [column.shape for column in columns]
    if len(shapes[0]) != 1 or len(set(shapes)) != 1:
        raise CJEError("columns must be one-dimensional and of one length", value=shapes)
    return columns


def _float_bits(values: NDArray[np.float64]) -> _UintArray:
    """Bits of each number, the upper half folded into the lower: short fractions differ only above.

    -0.0 is 0.0, and every NaN is the same one.
    """
    values = values + 0.0
    missing = np.isnan(values)
    if missing.any():
        values[missing] = np.nan
    bits = values.view(np.uint64)
    return cast(_UintArray, bits ^ (bits >> np.uint64(32)))


def _has_repeats(h: _UintArray) -> bool:
    """Whether more than a few rows share a hash.

    Judged on the rows of small hash, which the rows' order cannot change: where nearly all hashes
    are distinct, a known number of them is small and no two of those are equal.
    """
    n = len(h)
    if n > _PROBE:
        h = h[h < np.uint64(int(_PROBE / n * 2.0**64))]
        if abs(len(h) - _PROBE) > 5.0 * _PROBE**0.5:
            return True
    ordered = np.sort(h)
    return bool((ordered[1:] == ordered[:-1]).any())


def _occurrence(h: _UintArray) -> _UintArray:
    """A number for each of several equal values: 0, 1, ... in any order, as they are the same."""
    order = np.argsort(h)
    ordered = h[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    place = np.arange(len(h)) - np.repeat(first, np.diff(first, append=len(h)))
    out = np.empty(len(h), dtype=np.uint64)
    out[order] = place
    return out


def _bytes(prompt_ids: Sequence[str]) -> tuple[bytes, NDArray[np.int64]]:
    """UTF-8 of all ids one after another, and the length of each in bytes."""
    try:
        joined = "".join(prompt_ids)
    except TypeError:
        joined = None  # something is not a string; `_encode` below says which
    # Plain ASCII, the common case, is encoded in one call: a character is a byte.
    plain = joined is not None and joined.isascii()
    items = prompt_ids if plain else [_encode(prompt_id) for prompt_id in prompt_ids]
    lengths = np.fromiter(map(len, items), dtype=np.int64, count=len(items))
    if joined is not None and plain:
        return joined.encode("ascii"), lengths
    return b"".join(cast("list[bytes]", items)), lengths


def _encode(prompt_id: str) -> bytes:
    try:
        # JSON may hold a lone surrogate; it is an id like any other.
        return prompt_id.encode("utf-8", "surrogatepass")
    except AttributeError:
        raise CJEError(
            "a prompt id must be a string", value=prompt_id, hint="convert ids with str() first"
        ) from None


def _key(n_folds: int, seed: int) -> int:
    try:
        folds, start = operator.index(n_folds), operator.index(seed)
    except TypeError:
        raise CJEError("n_folds and seed must be integers", value=(n_folds, seed)) from None
    if not 1 <= folds < 1 << 31:
        raise CJEError("n_folds must be at least 1 (and below 2^31)", value=n_folds)
    return _digest(f"{start}/{folds}".encode())


def _mix(h: int) -> int:
    h &= _MASK
    h = ((h ^ (h >> 30)) * _MULTIPLY_1) & _MASK
    h = ((h ^ (h >> 27)) * _MULTIPLY_2) & _MASK
    return h ^ (h >> 31)


def _digest(data: bytes) -> int:
    """64-bit hash of bytes: absorb little-endian words one by one, each with a full mix."""
    h = _mix(len(data) + _GOLDEN)
    for start in range(0, len(data), _WORD):
        h = _mix((h ^ int.from_bytes(data[start : start + _WORD], "little")) + _GOLDEN)
    return h


def _mix_array(h: _UintArray) -> _UintArray:
    h = (h ^ (h >> np.uint64(30))) * np.uint64(_MULTIPLY_1)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(_MULTIPLY_2)
    return cast(_UintArray, h ^ (h >> np.uint64(31)))


def _digests(data: bytes, lengths: NDArray[np.int64]) -> _UintArray:
    """`_digest` of many byte strings, which lie in `data` one after another."""
    golden = np.uint64(_GOLDEN)
    h = _mix_array(lengths.astype(np.uint64) + golden)
    buffer = data + bytes(_WORD)
    # Every byte position read as the little-endian word that starts there.
    words = np.ndarray(len(buffer) - _WORD + 1, dtype="<u8", buffer=buffer, strides=(1,))
    starts = np.cumsum(lengths) - lengths
    rows = np.flatnonzero(lengths > 0)
    done = 0
    while len(rows):
        word = words[starts[rows] + done].astype(np.uint64)
        left = lengths[rows] - done
        unused = np.uint64(8) * (_WORD - np.minimum(left, _WORD)).astype(np.uint64)
        word = (word << unused) >> unused
        h[rows] = _mix_array((h[rows] ^ word) + golden)
        done += _WORD
        rows = rows[left > _WORD]
    return h


def _reduce(h: _UintArray, n_folds: int) -> NDArray[np.int64]:
    """High word of the 128-bit product ``h * n_folds``, from two 32-bit halves."""
    half = np.uint64(32)
    n = np.uint64(n_folds)
    high, low = h >> half, h & np.uint64(0xFFFFFFFF)
    high *= n
    low *= n
    low >>= half
    high += low
    high >>= half
    return high.view(np.int64)
