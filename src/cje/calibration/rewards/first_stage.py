"""The index g(S, X): a spline in the score's rank, with covariates; the first of two stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cje.kernels.arrays import FloatArray
from cje.kernels.ranks import ecdf_fit, ecdf_predict
from cje.kernels.smooth import natural_spline_basis

__all__ = ["FirstStage", "RankSpline", "fit_first_stage"]

MIN_KNOTS = 5  # fewer cannot follow one dip
MAX_KNOTS = 8
LABELS_PER_KNOT = 25
COVARIATE_KNOTS = 3
_ECDF_KNOTS = 257  # finer rank resolution than any eight-knot spline can use
_RIDGE = 1e-9  # relative; only breaks ties where few distinct scores leave columns collinear


@dataclass(frozen=True)
class RankSpline:
    """Rank transform followed by a restricted cubic spline, as plain arrays.

    The rank of x is read off the mid-rank ECDF of the *training* rows alone, so that no
    information on a held-out fold's scores enters the fold's model.
    """

    ecdf_x: FloatArray
    ecdf_rank: FloatArray
    knots: FloatArray
    coef: FloatArray  # one per basis column; the intercept belongs to FirstStage

    @property
    def n_columns(self) -> int:
        return len(self.knots) - 1

    def basis(self, x: FloatArray) -> FloatArray:
        """Spline columns at the rank of x."""
        return natural_spline_basis(ecdf_predict(self.ecdf_x, self.ecdf_rank, x), self.knots)

    def add_to(self, total: FloatArray, x: FloatArray) -> None:
        """Add coef . basis(x) to `total` in place, column by column.

        A matrix product would be quicker to write, but BLAS sums in an order that depends on the
        batch; elementwise sums give the same bits for a row whatever batch it arrives in.
        """
        columns = self.basis(x)
        for j, c in enumerate(self.coef):
            total += c * columns[:, j]


@dataclass(frozen=True)
class FirstStage:
    """g(S, X) = intercept + spline(rank S) + sum_j spline_j(rank X_j)."""

    intercept: float
    score: RankSpline
    covariates: tuple[RankSpline, ...] = ()

    def index(self, scores: FloatArray, covariates: FloatArray | None) -> FloatArray:
        """The index T = g(S, X) of every row."""
        total = np.full(len(scores), self.intercept)
        self.score.add_to(total, scores)
        for j, part in enumerate(self.covariates):
            assert covariates is not None
            part.add_to(total, np.ascontiguousarray(covariates[:, j]))
        return total

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; floats survive the trip exactly."""
        return {
            "intercept": self.intercept,
            "score": _spline_to_dict(self.score),
            "covariates": [_spline_to_dict(part) for part in self.covariates],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FirstStage:
        """The inverse of `to_dict`."""
        return cls(
            float(data["intercept"]),
            _spline_from_dict(data["score"]),
            tuple(_spline_from_dict(part) for part in data["covariates"]),
        )


def fit_first_stage(
    scores: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    covariates: FloatArray | None,
    n_labels: int,
) -> FirstStage:
    """Weighted least squares of the label on rank splines of the score and the covariates.

    Parameters
    ----------
    scores, labels, weights : array (m,)
        Cells (distinct scores with their mean label and total weight) or single rows.
    covariates : array (m, p), optional
        Further predictors, each through a spline of its own rank.
    n_labels : int
        Labelled rows behind the cells: sets the number of knots, between 5 and 8.
    """
    n_knots = int(np.clip(n_labels // LABELS_PER_KNOT, MIN_KNOTS, MAX_KNOTS))
    parts = [_unfitted(scores, weights, n_knots)]
    columns = [parts[0].basis(scores)]
    if covariates is not None:
        for j in range(covariates.shape[1]):
            x = np.ascontiguousarray(covariates[:, j])
            parts.append(_unfitted(x, weights, COVARIATE_KNOTS))
            columns.append(parts[-1].basis(x))
    design = np.hstack(columns)
    intercept, coef = _ridge_least_squares(design, labels, weights)
    stops = np.cumsum([part.n_columns for part in parts])[:-1]
    fitted = [
        RankSpline(part.ecdf_x, part.ecdf_rank, part.knots, c)
        for part, c in zip(parts, np.split(coef, stops), strict=True)
    ]
    return FirstStage(intercept, fitted[0], tuple(fitted[1:]))


def _unfitted(x: FloatArray, weights: FloatArray, n_knots: int) -> RankSpline:
    ecdf_x, ecdf_rank = ecdf_fit(x, weights)
    if len(ecdf_x) > _ECDF_KNOTS:
        keep = np.unique(np.linspace(0, len(ecdf_x) - 1, _ECDF_KNOTS).round().astype(np.int64))
        ecdf_x, ecdf_rank = ecdf_x[keep], ecdf_rank[keep]
    # Ranks are uniform by construction, so equal spacing puts equal weight between knots.
    return RankSpline(ecdf_x, ecdf_rank, np.linspace(0.025, 0.975, n_knots), np.empty(0))


def _ridge_least_squares(
    design: FloatArray, labels: FloatArray, weights: FloatArray
) -> tuple[float, FloatArray]:
    """Intercept and coefficients; columns centred, so that the intercept is never penalised."""
    share = weights / weights.sum()
    centre = share @ design
    mean = float(share @ labels)
    x = design - centre
    gram = x.T @ (x * share[:, None])
    gram[np.diag_indices_from(gram)] += _RIDGE * (np.trace(gram) / len(gram)) + 1e-300
    coef = np.linalg.solve(gram, x.T @ (share * (labels - mean)))
    return mean - float(centre @ coef), coef


def _spline_to_dict(part: RankSpline) -> dict[str, Any]:
    return {name: value.tolist() for name, value in vars(part).items()}


def _spline_from_dict(data: dict[str, Any]) -> RankSpline:
    return RankSpline(**{name: np.asarray(value, dtype=np.float64) for name, value in data.items()})
