r"""Labels that were selected: does labelling depend on what is known of a row?

Within one policy, L says which of its rows are labelled and X is what is known of every row: the
judge score, the length of the response, a time. If :math:`L \perp Y \mid X` (missing at random) and
every kind of row has a chance :math:`\pi(X) > 0`, labels weighted by :math:`1/\pi(X)` stand for all
rows; :math:`\pi` is a logistic regression on restricted cubic splines of the ranks of X. Where some
kind of row has no labels, no weights can represent it. Selection on anything that is not in X
cannot be detected.

References
----------
Robins, Rotnitzky & Zhao (1994), "Estimation of regression coefficients when some regressors are not
always observed", JASA 89, 846-866.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cje.diagnostics.labelling import ChanceGap, LabelDraw, LabellingTest, number_tests
from cje.errors import CJEError
from cje.findings import Rule
from cje.findings.labels import LABELS_MODELLED, LABELS_SELECTED
from cje.kernels.arrays import BoolArray, FloatArray, IntArray
from cje.kernels.logistic import logistic_regression

__all__ = [
    "SelectionCheck",
    "can_check",
    "check_selection",
    "dependences",
    "place_in_file",
    "selection_model",
    "selection_refits",
]

_MIN_LABELS = 10
_REGIONS = 5
_KNOTS = (0.05, 0.35, 0.65, 0.95)
# Halved or doubled, a chance changes by at most 10% with 50 labels, 4% with 250 (mean of 40).
_RIDGE = 0.1


@dataclass(frozen=True, eq=False)
class SelectionCheck:
    """What was checked of one policy's labels, and what follows.

    Attributes
    ----------
    factors : tuple of str
        What labelling was tested against.
    tests : tuple of LabellingTest
        Adjusted for the number of factors (Holm).
    depends_on : tuple of str
        The factors it depends on: at the level 2% where a model corrects that (one false alarm per
        fifty random slices), at 0.1% where it cannot be corrected.
    propensity : array (n,), optional
        The modelled chance of each row, where labelling depends on something and every kind of row
        has labels.
    reason : str
        Why it could not be modelled.
    position : ChanceGap, optional
        Where in the file the labelled rows are, from 0 (its first row) to 1; None: not checked.
    """

    factors: tuple[str, ...]
    tests: tuple[LabellingTest, ...] = ()
    depends_on: tuple[str, ...] = ()
    propensity: FloatArray | None = field(default=None, repr=False)
    reason: str = ""
    position: ChanceGap | None = None

    @property
    def status(self) -> str:
        """``"random"`` as far as was checked, ``"modelled"`` or ``"refused"``."""
        if not self.depends_on:
            return "random"
        return "refused" if self.propensity is None else "modelled"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "status": self.status,
            "checked": list(self.factors),
            "depends_on": list(self.depends_on),
            "tests": [test.to_dict() for test in self.tests],
            "reason": self.reason,
        }


def check_selection(
    labelled: BoolArray, factors: Mapping[str, FloatArray], prompts: IntArray
) -> SelectionCheck:
    """Test labelling within one policy against `factors`; model it where it depends on one.

    Parameters
    ----------
    labelled : bool array (n,)
    factors : mapping name -> array (n,)
        Numbers known of every row; a factor with missing values is tested on the rows that have it
        and takes no part in the model.
    prompts : int array (n,)
        Rows of one prompt are one cluster of the tests.
    """
    names = tuple(factors)
    if not can_check(int(labelled.sum()), len(labelled)):
        return SelectionCheck(())
    draw = LabelDraw(labelled, prompts)
    tests = tuple(number_tests(draw, factors))
    position = draw.gap(place_in_file(len(labelled)))
    certain, found = (dependences(tests, rule) for rule in (LABELS_SELECTED, LABELS_MODELLED))
    if not found:
        return SelectionCheck(names, tests, position=position)
    _, propensity = _modelled(labelled, factors, found)
    if propensity is not None:
        return SelectionCheck(names, tests, found, propensity)
    if not certain:
        return SelectionCheck(names, tests, position=position)
    reason, propensity = _modelled(labelled, factors, certain)
    return SelectionCheck(names, tests, certain, propensity, reason)


def can_check(n_labelled: int, n_rows: int) -> bool:
    """Whether labels are enough to say anything, and not on every row."""
    return n_labelled >= _MIN_LABELS and n_labelled < n_rows


def dependences(tests: Sequence[LabellingTest], rule: Rule) -> tuple[str, ...]:
    """The factors that labelling depends on at the level of a rule."""
    return tuple(test.factor for test in tests if test.p_adjusted < rule["p_value"])


def place_in_file(n: int) -> FloatArray:
    """Where each of n rows is, from 0 to 1."""
    return np.asarray((np.arange(n) + 0.5) / n)


def _modelled(
    labelled: BoolArray, factors: Mapping[str, FloatArray], found: tuple[str, ...]
) -> tuple[str, FloatArray | None]:
    """The modelled chances, or why they cannot be modelled."""
    known = {name: x for name, x in factors.items() if np.isfinite(x).all()}
    for name in found:
        if name not in known:
            return f"{name} is missing for some rows", None
        empty = _thin_region(factors[name], labelled)
        if empty:
            return f"too few labels among the {empty} fifth of the rows by {name}", None
    propensity = selection_model(labelled, known)
    weight = 1.0 / propensity[labelled]
    effective = float(weight.sum() ** 2 / (weight**2).sum())
    if effective < LABELS_SELECTED["effective_labels"]:
        return f"its {int(labelled.sum())} labels, weighted, count as {effective:.0f} only", None
    return "", propensity


def _thin_region(values: FloatArray, labelled: BoolArray) -> str:
    """The fifth of the rows that has almost no labels, or None."""
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(values))
    rank[order] = np.arange(len(values))
    # ties share a region, so that a coarse score is cut between its values
    _, code = np.unique(values, return_inverse=True)
    middle = np.bincount(code, rank)[code] / np.bincount(code)[code]
    region = np.minimum((middle * _REGIONS / len(values)).astype(np.int64), _REGIONS - 1)
    rows, labels = (np.bincount(region, w, _REGIONS) for w in (np.ones(len(values)), labelled))
    words = ("lowest", "second lowest", "middle", "second highest", "highest")
    for k, word in enumerate(words):
        if rows[k] and labels[k] < min(LABELS_SELECTED["labels_in_a_fifth"], rows[k]):
            return word
    return ""


def selection_model(labelled: BoolArray, factors: Mapping[str, FloatArray]) -> FloatArray:
    """The chance of each row to be labelled, from a logistic regression on splines of ranks.

    A weak ridge penalty keeps a factor that predicts labelling perfectly from diverging.

    Raises
    ------
    CJEError
        Without a factor, or where no or every row is labelled.
    """
    design = _design(factors)
    return _chances(design, _fitted(design, labelled, np.ones(len(labelled), dtype=bool)))


def selection_refits(
    labelled: BoolArray, factors: Mapping[str, FloatArray], folds: IntArray, n_folds: int
) -> Iterator[FloatArray]:
    """The chances of all rows from `selection_model` fitted without each fold.

    A fold without which no or every row is labelled is left out.
    """
    design = _design(factors)
    whole = _fitted(design, labelled, np.ones(len(labelled), dtype=bool))
    for k in range(n_folds):
        rest = folds != k
        if labelled[rest].any() and not labelled[rest].all():
            yield _chances(design, _fitted(design, labelled, rest, start=whole))


def _design(factors: Mapping[str, FloatArray]) -> FloatArray:
    if not factors:
        raise CJEError("a model of the labelling needs a factor")
    return np.column_stack([column for x in factors.values() for column in _basis(x)])


def _fitted(
    design: FloatArray, labelled: BoolArray, rows: BoolArray, start: FloatArray | None = None
) -> FloatArray:
    if not labelled[rows].any() or labelled[rows].all():
        raise CJEError("a model of the labelling needs labelled and unlabelled rows")
    outcome, weights = labelled.astype(np.float64), rows.astype(np.float64)
    return logistic_regression(design, outcome, weights, penalty=_RIDGE, start=start)


def _chances(design: FloatArray, coefficients: FloatArray) -> FloatArray:
    eta = coefficients[0] + design @ coefficients[1:]
    return np.asarray(np.clip(np.exp(-np.logaddexp(0.0, -eta)), 0.2 / len(design), 1.0))


def _basis(values: FloatArray) -> list[FloatArray]:
    """Restricted cubic spline of the ranks, scaled to [0, 1] (four knots: three columns)."""
    _, code, counts = np.unique(values, return_inverse=True, return_counts=True)
    x = ((np.cumsum(counts) - 0.5 * counts)[code]) / len(values)
    t, columns = np.asarray(_KNOTS), [x]
    last, before = t[-1], t[-2]

    def cube(knot: float) -> FloatArray:
        return np.asarray(np.maximum(x - knot, 0.0) ** 3)

    for knot in t[:-2]:
        term = cube(knot) - cube(before) * (last - knot) / (last - before)
        term += cube(last) * (before - knot) / (last - before)
        columns.append(term / (last - t[0]) ** 2)
    return columns
