"""`Intervals`: what `EstimationResult.ci` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cje.errors import CJEError

__all__ = ["Intervals"]


class Intervals(list[tuple[float, float]]):
    """(low, high) per policy, in the order of the result's policies; also by name.

    Examples
    --------
    >>> limits = Intervals(("prod", "cand"), [(0.1, 0.2), (0.3, 0.4)])
    >>> limits["cand"], limits[0]
    ((0.3, 0.4), (0.1, 0.2))
    >>> limits
    {'prod': (0.1, 0.2), 'cand': (0.3, 0.4)}
    """

    def __init__(self, names: Sequence[str], limits: Sequence[tuple[float, float]]) -> None:
        super().__init__(limits)
        self.names = tuple(names)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            raise CJEError(
                "no such policy", value=key, hint=f"the policies are {', '.join(self.names)}"
            )
        return super().__getitem__(self.names.index(key))

    def to_dict(self) -> dict[str, tuple[float, float]]:
        """The intervals by name."""
        return dict(zip(self.names, self, strict=True))

    def __repr__(self) -> str:
        return repr(self.to_dict())
