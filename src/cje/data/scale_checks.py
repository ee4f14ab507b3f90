"""Values that are not on the scale they are taken to be on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cje.data.scale import Scale
from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.labels import SCALE_TOO_WIDE
from cje.kernels.arrays import FloatArray, IntArray

__all__ = ["ScaleError", "far_from_scale", "policy_on_another_scale"]

_LEAST_VALUES = 5  # of a policy, before its range says anything
_NARROW = 0.1  # of the scale: a declared scale of which no more is used is suspicious


class ScaleError(CJEError):
    """Values that are not on one scale; `argument` is what declares it, and `whole` holds all."""

    def __init__(self, error: CJEError, argument: str, whole: Scale) -> None:
        super().__init__(
            error.what, where=error.where, value=error.value, hint=error.hint,
            answers=error.answers,
        )  # fmt: skip
        self.argument, self.whole = argument, whole


def far_from_scale(column: str, values: FloatArray, scale: Scale) -> list[Finding]:
    """A finding where the values use a small part of the declared scale only."""
    least, most = float(values.min()), float(values.max())
    if len(values) < _LEAST_VALUES or most - least > _NARROW * scale.width:
        return []
    return [
        SCALE_TOO_WIDE.finding(
            column,
            column=column,
            scale=scale,
            least=least,
            most=most,
            details={"low": scale.low, "high": scale.high, "least": least, "most": most},
        )
    ]


def policy_on_another_scale(
    values: FloatArray, policy: Callable[[], IntArray], scale: Scale
) -> tuple[int, float, float] | None:
    """The first policy whose values lie within 0-1 while others use a scale at least 4 wide.

    Where the scale is 10 wide or more, five values of a policy, at least two of them different and
    all between 0 and 1, are on another scale. On narrower scales (1-5, 0-5) that takes fractions:
    whole numbers may simply be low ratings. `policy` gives the code of each value's policy; it is
    called only where the scale is that wide.

    Returns
    -------
    Its code, smallest and largest value; None where all are on one scale.
    """
    if scale.width < 4 or values.max() <= 1.0:
        return None
    codes = policy()
    for code in np.flatnonzero(np.bincount(codes)).tolist():
        mine = values[codes == code]
        least, most = float(mine.min()), float(mine.max())
        if len(mine) < _LEAST_VALUES or least < 0.0 or most > 1.0 or least == most:
            continue
        if scale.width >= 10 or bool(((mine > 0.0) & (mine < 1.0)).any()):
            return int(code), least, most
    return None
