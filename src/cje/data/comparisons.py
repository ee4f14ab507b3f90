"""`Comparisons`: one evaluation by side-by-side verdicts, as immutable columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.data import columns
from cje.data.arrays import float_column, frozen, int_column
from cje.data.codes import Codes
from cje.errors import CJEError
from cje.kernels.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Comparisons"]

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons:
    """One row per presentation of two responses to one prompt.

    A verdict is 1 where `first` won, 0 where `second` won, 1/2 for a tie (also where both were
    called bad); any value between is a preference. Rows with the same prompt, the same two policies
    (in either order) and the same `item` are one comparison: shown in both orders, asked of several
    raters, or judged in one row and labelled in another.

    Attributes
    ----------
    prompt_id : Codes
        A cluster is a prompt.
    first, second : Codes
        Policies, over one vocabulary; `first` is the response that was shown first.
    judge, human : float array
        Verdicts; NaN where there is none.
    shown : bool array
        Whether the two stood side by side in this order. False where the verdict does not come from
        a presentation (such as two separate scores): it has no position bias.
    item : int array
        Distinguishes several comparisons of one pair on one prompt (draws, turns).
    label_propensity : float array, optional
        Known probability with which the comparison was chosen for a human verdict.
    covariates : mapping name -> float array
        Style of `first` minus style of `second`.
    groups : mapping name -> Codes
        Subgroups.
    metadata : mapping
        From the reader: ``reading``, sentences on what it recognised and assumed.

    Examples
    --------
    >>> data = Comparisons.from_arrays(prompt_id=["p1", "p2"], first=["new", "old"],
    ...                                second=["old", "new"], judge=[1.0, 0.5], human=[1.0, None])
    >>> len(data), data.policies, data.n_labelled
    (2, ('new', 'old'), 1)
    """

    prompt_id: Codes
    first: Codes
    second: Codes
    judge: FloatArray
    human: FloatArray
    shown: BoolArray
    item: IntArray
    label_propensity: FloatArray | None = None
    covariates: Mapping[str, FloatArray] = field(default_factory=lambda: _EMPTY)
    groups: Mapping[str, Codes] = field(default_factory=lambda: _EMPTY)
    metadata: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)

    @classmethod
    def from_arrays(
        cls,
        *,
        prompt_id: Codes | Sequence[Any] | np.ndarray[Any, Any],
        first: Codes | Sequence[str] | np.ndarray[Any, Any],
        second: Codes | Sequence[str] | np.ndarray[Any, Any],
        judge: ArrayLike | None = None,
        human: ArrayLike | None = None,
        shown: ArrayLike | None = None,
        item: ArrayLike | None = None,
        label_propensity: ArrayLike | None = None,
        covariates: Mapping[str, ArrayLike] | None = None,
        groups: Mapping[str, Codes | Sequence[Any]] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Comparisons:
        """Checked comparisons from columns; verdicts on [0, 1], NaN or None where missing.

        Raises
        ------
        CJEError
            A column of another length, a verdict outside [0, 1], a policy compared with itself.
        """
        prompts = Codes.encode(prompt_id)
        n = len(prompts)
        a, b = _one_vocabulary(Codes.encode(first), Codes.encode(second))
        for name, codes in (("first", a), ("second", b)):
            if len(codes) != n:
                raise CJEError(f"{name} has a different length from prompt_id", value=len(codes))
        same = a.codes == b.codes
        if same.any():
            row = int(np.argmax(same))
            raise CJEError(
                "a policy is compared with itself", where=f"row {row}", value=a.name_at(row),
                hint="remove such rows: they contain no information on a difference",
            )  # fmt: skip
        return cls(
            prompts,
            a,
            b,
            _verdicts("judge", judge, n),
            _verdicts("human", human, n),
            _flags(shown, n),
            int_column("item", np.zeros(n, dtype=np.int64) if item is None else item, n),
            columns.plain_column("label_propensity", label_propensity, n),
            columns.covariate_columns(covariates, n),
            columns.group_columns(groups, n),
            MappingProxyType(dict(metadata or {})),
        )

    def __len__(self) -> int:
        return len(self.judge)

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies."""
        return self.first.names

    @property
    def is_labelled(self) -> BoolArray:
        """Rows with a human verdict."""
        return ~np.isnan(self.human)

    @property
    def n_labelled(self) -> int:
        return int(np.count_nonzero(self.is_labelled))

    def select(self, rows: ArrayLike) -> Comparisons:
        """The rows of a boolean mask, or at an integer index."""
        index = columns.row_index(rows, len(self))
        kept: dict[str, Any] = {
            name: getattr(self, name).take(index) for name in ("prompt_id", "first", "second")
        }
        for name in ("judge", "human", "shown", "item"):
            kept[name] = frozen(getattr(self, name)[index], getattr(self, name).dtype.type)
        if self.label_propensity is not None:
            kept["label_propensity"] = frozen(self.label_propensity[index], np.float64)
        kept["covariates"] = MappingProxyType(
            {k: frozen(v[index], np.float64) for k, v in self.covariates.items()}
        )
        kept["groups"] = MappingProxyType({k: v.take(index) for k, v in self.groups.items()})
        return replace(self, **kept)

    def with_metadata(self, **entries: Any) -> Comparisons:
        """A copy with entries added to `metadata`; columns are shared."""
        return replace(self, metadata=MappingProxyType({**self.metadata, **entries}))

    def __repr__(self) -> str:
        return (
            f"Comparisons({len(self)} rows, {len(self.policies)} policies, "
            f"{self.prompt_id.n_names} prompts, {self.n_labelled} with a human verdict)"
        )


def _one_vocabulary(first: Codes, second: Codes) -> tuple[Codes, Codes]:
    """Both columns as codes of one vocabulary, in order of first appearance."""
    names = tuple(dict.fromkeys((*first.names, *second.names)))
    place = {name: code for code, name in enumerate(names)}
    return tuple(  # type: ignore[return-value]
        Codes(np.array([place[n] for n in part.names], dtype=np.int64)[part.codes], names)
        if part.n_names
        else Codes(part.codes, names)
        for part in (first, second)
    )


def _flags(given: ArrayLike | None, n: int) -> BoolArray:
    if given is None:
        return np.ones(n, dtype=bool)
    flags = np.asarray(given)
    if flags.shape != (n,) or flags.dtype != bool:
        raise CJEError("shown must be one true or false per row", value=flags.shape)
    return flags


def _verdicts(name: str, given: ArrayLike | None, n: int) -> FloatArray:
    if given is None:
        return columns.all_missing(n)
    verdicts = float_column(name, given, n)
    outside = (verdicts < 0.0) | (verdicts > 1.0)
    if outside.any():
        row = int(np.argmax(outside))
        raise CJEError(
            f"a {name} verdict must be in [0, 1]", where=f"row {row}", value=float(verdicts[row]),
            hint="1: the first response won, 0: the second, 1/2: a tie",
        )  # fmt: skip
    return verdicts
