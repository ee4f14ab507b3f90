"""Columns of strings without objects: `Strings` (text) and `Codes` (ids as integers)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from cje.data.arrays import frozen
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, IntArray

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Codes", "Strings"]


class Strings(Sequence[str]):
    """An immutable column of strings, kept either as a tuple or as a polars Series.

    A file's text stays in the Arrow buffers it was read into; Python strings are made only for
    the items looked at.
    """

    __slots__ = ("_store",)

    _store: tuple[str, ...] | pl.Series

    def __init__(self, values: Sequence[str] | pl.Series) -> None:
        # a Series is recognised by its module: this file must not import polars
        if type(values).__module__.startswith("polars."):
            self._store = cast("pl.Series", values)
        else:
            self._store = tuple(values)

    def __len__(self) -> int:
        return len(self._store)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Strings: ...
    def __getitem__(self, index: int | slice) -> str | Strings:
        if isinstance(index, slice):
            return Strings(self._store[index])
        return self._store[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._store)

    def take(self, index: IntArray) -> Strings:
        """The items at `index`, in that order."""
        if isinstance(self._store, tuple):
            store = self._store
            return Strings(tuple(store[i] for i in index.tolist()))
        return Strings(self._store.gather(index))

    def to_tuple(self) -> tuple[str, ...]:
        return self._store if isinstance(self._store, tuple) else tuple(self._store.to_list())

    def to_series(self) -> pl.Series:
        """The column as a polars Series (without a copy where it is one already)."""
        if not isinstance(self._store, tuple):
            return self._store
        import polars

        return polars.Series(self._store, dtype=polars.String)

    def lengths(self) -> IntArray:
        """Characters in each item."""
        if isinstance(self._store, tuple):
            return np.fromiter(map(len, self._store), np.int64, len(self._store))
        return self._store.str.len_chars().fill_null(0).to_numpy().astype(np.int64)

    def concat(self, *others: Strings) -> Strings:
        """This column followed by the others."""
        if all(isinstance(part._store, tuple) for part in (self, *others)):
            return Strings(tuple(s for part in (self, *others) for s in part))
        import polars

        return Strings(polars.concat([part.to_series() for part in (self, *others)]))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Strings):
            if isinstance(self._store, tuple) and isinstance(other._store, tuple):
                return self._store == other._store
            return len(self) == len(other) and bool((self.to_series() == other.to_series()).all())
        if isinstance(other, tuple | list):
            return self.to_tuple() == tuple(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        head = ", ".join(repr(s[:40]) for s in self[:3])
        return f"Strings([{head}{', ...' if len(self) > 3 else ''}], {len(self)} items)"


class Codes:
    """A categorical column: an integer per row, and the name each integer stands for.

    Parameters
    ----------
    codes : int64 array (n,)
        Row -> position in `names`; every value in ``0 .. n_names - 1``.
    names : sequence of distinct str
        The vocabulary. Kept as it was read; `names` makes the tuple of Python strings on first
        use, `n_names` never does.

    Examples
    --------
    >>> policy = Codes.encode(["a", "b", "a"])
    >>> policy.codes.tolist(), policy.names
    ([0, 1, 0], ('a', 'b'))
    >>> policy.mask("a").tolist()
    [True, False, True]
    """

    __slots__ = ("_index", "_is_compact", "_names", "codes")

    codes: IntArray
    _names: Strings
    _index: dict[str, int] | None
    _is_compact: bool  # every name is known to be used

    def __init__(self, codes: NDArray[np.integer[Any]], names: Sequence[str] | Strings) -> None:
        array = frozen(codes, np.int64)
        if array.ndim != 1:
            raise CJEError("codes must be one-dimensional", value=array.shape)
        vocabulary = names if isinstance(names, Strings) else Strings(names)
        if array.size and (int(array.min()) < 0 or int(array.max()) >= len(vocabulary)):
            raise CJEError(
                "a code points outside its vocabulary",
                value=(int(array.min()), int(array.max())),
                hint=f"codes must lie in 0 .. {len(vocabulary) - 1}",
            )
        self.codes = array
        self._names = vocabulary
        self._index = None
        self._is_compact = False

    @classmethod
    def encode(cls, values: Sequence[Any] | NDArray[Any] | Codes) -> Codes:
        """Codes from strings (or integers, whose names are their decimal digits).

        The vocabulary is in order of first appearance.
        """
        if isinstance(values, Codes):
            return values
        if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
            row = int(np.argmax(np.ma.getmaskarray(values)))
            raise CJEError("an id is missing (masked)", where=f"row {row}")
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
            order = np.argsort(first, kind="stable")
            rank = np.empty(len(order), dtype=np.int64)
            rank[order] = np.arange(len(order))
            return cls(rank[inverse], tuple(str(v) for v in distinct[order].tolist()))
        if not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0:
            raise CJEError("a column of names must be a sequence", value=values)
        items = values.tolist() if isinstance(values, np.ndarray) else list(values)
        table: dict[Any, int] = {}
        try:
            codes = np.fromiter(
                (table.setdefault(item, len(table)) for item in items), np.int64, len(items)
            )
        except TypeError as error:  # a list or a mapping has no hash
            raise CJEError("an id must be text or a whole number", value=items[0]) from error
        for item in table:
            if isinstance(item, bool) or not isinstance(item, str | int):
                raise CJEError("an id must be text or a whole number", value=item)
        if all(isinstance(item, str) for item in table):
            return cls(codes, tuple(table))
        # 1 and "1" are one name: encode again by the text
        return cls.encode([str(item) for item in items])

    @classmethod
    def from_series(cls, series: pl.Series) -> Codes:
        """Codes from a polars column of text without nulls; no Python strings are made.

        Evaluations are usually sorted by policy or by prompt. Where values come in runs, one value
        per run is hashed; where they repeat with a period (the same prompts for every policy), only
        one period is hashed. Both are found by comparing neighbours, far cheaper than hashing.
        """
        codes, vocabulary = _encode_ordered(series)
        codes.setflags(write=False)  # not a caller's array: needs no copy
        return cls(codes, vocabulary)

    @property
    def names(self) -> tuple[str, ...]:
        """The vocabulary as Python strings (made once, on first use)."""
        if not isinstance(self._names._store, tuple):
            self._names = Strings(self._names.to_tuple())
        return self._names.to_tuple()

    @property
    def vocabulary(self) -> Strings:
        """The vocabulary as it is stored; no Python strings are made."""
        return self._names

    @property
    def n_names(self) -> int:
        return len(self._names)

    def code_of(self, name: str) -> int:
        """The code of a name, or a CJEError that lists near ones."""
        if self._index is None:
            self._index = {text: code for code, text in enumerate(self.names)}
        try:
            return self._index[name]
        except KeyError:
            known = ", ".join(self.names[:8]) + (", ..." if self.n_names > 8 else "")
            raise CJEError("unknown name", value=name, hint=f"known names: {known}") from None

    def mask(self, name: str) -> BoolArray:
        """True on the rows that carry `name`."""
        return np.asarray(self.codes == self.code_of(name))

    def take(self, index: IntArray) -> Codes:
        """The rows at `index`; the vocabulary stays whole (see `compact`)."""
        return Codes(self.codes[index], self._names)

    def compact(self) -> Codes:
        """The same column with names that no row uses removed; order of the rest is kept."""
        if self._is_compact:
            return self
        used = np.zeros(self.n_names, dtype=bool)
        used[self.codes] = True
        if used.all():
            self._is_compact = True
            return self
        new_code = np.cumsum(used) - 1
        return Codes(new_code[self.codes], self._names.take(np.flatnonzero(used)))

    def concat(self, *others: Codes) -> Codes:
        """This column followed by the others, over the union of the vocabularies."""
        table = {name: code for code, name in enumerate(self.names)}
        parts = [self.codes]
        for other in others:
            translate = np.fromiter(
                (table.setdefault(name, len(table)) for name in other.names),
                np.int64,
                other.n_names,
            )
            parts.append(translate[other.codes])
        return Codes(np.concatenate(parts), tuple(table))

    def decode(self) -> list[str]:
        """One Python string per row."""
        names = self.names
        return [names[code] for code in self.codes.tolist()]

    def name_at(self, row: int) -> str:
        """The name one row carries."""
        return self._names[int(self.codes[row])]

    def counts(self) -> IntArray:
        """Rows per name."""
        return np.bincount(self.codes, minlength=self.n_names).astype(np.int64, copy=False)

    def __len__(self) -> int:
        return len(self.codes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Codes, (self.codes, self._names)  # through the constructor: read-only again

    def __eq__(self, other: object) -> bool:
        """Equal where every row has the same name, whatever integers stand for it."""
        if not isinstance(other, Codes):
            return NotImplemented
        if len(self) != len(other):
            return False
        if self._names is other._names:
            return np.array_equal(self.codes, other.codes)
        table = {name: code for code, name in enumerate(self.names)}
        translate = np.fromiter((table.get(name, -1) for name in other.names), np.int64)
        return np.array_equal(self.codes, translate[other.codes]) if len(self) else True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(self._names[:4]) + (", ..." if self.n_names > 4 else "")
        return f"Codes({len(self)} rows, {self.n_names} names: {shown})"


def _encode_ordered(series: pl.Series) -> tuple[IntArray, Strings]:
    """`_encode` of as few rows as the column's order allows."""
    n = series.len()
    if n < 2:
        return _encode(series)
    changed = series[1:] != series[:-1]
    if 2 * int(changed.sum()) < n:
        starts = np.concatenate([[0], changed.arg_true().to_numpy() + 1])
        heads, vocabulary = _encode(series.gather(starts))
        return np.repeat(heads, np.diff(starts, append=n)), vocabulary
    period = _period(series)
    if period is not None:
        block, vocabulary = _encode(series[:period])
        # np.resize would join one array per repeat
        return np.tile(block, -(-n // len(block)))[:n], vocabulary
    return _encode(series)


def _period(series: pl.Series) -> int | None:
    """The least shift under which the column repeats itself, where its first value comes again."""
    again = (series == series[0]).arg_true()
    if again.len() < 2:
        return None
    period = int(again[1])
    return period if bool((series[period:] == series[:-period]).all()) else None


def _encode(series: pl.Series) -> tuple[IntArray, Strings]:
    """Integers and vocabulary, in order of first appearance.

    Where the first value does not come again, perhaps none does: that is cheap to count.
    A category space of its own (not the process-wide one) keeps the integers dense and frees the
    strings together with the column.
    """
    import polars

    n = series.len()
    if n and int((series == series[0]).sum()) == 1 and series.n_unique() == n:
        return np.arange(n), Strings(series.cast(polars.String))
    if isinstance(series.dtype, polars.String):
        series = series.cast(polars.Categorical(polars.Categories.random()))
    distinct = series.unique(maintain_order=True)
    physical = series.to_physical().to_numpy()
    code_of = np.zeros(int(physical.max(initial=0)) + 1, dtype=np.int64)
    code_of[distinct.to_physical().to_numpy()] = np.arange(distinct.len())
    return code_of[physical], Strings(distinct.cast(polars.String))
