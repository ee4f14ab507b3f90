"""`covariates="auto"`: length, format and text of responses, where they predict labels out of fold.

A judge often values length and lists more, or less, than people do. Features of the response that
explain its errors shorten intervals; features that do not would lengthen them a little, so each set
is used only where it lowers the out-of-fold squared error by more than its own standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cje.data.dataset import Dataset
from cje.data.embedding import embed, model_name
from cje.data.field_names import may_be_length
from cje.errors import CJEError
from cje.estimators.direct.label_pool import LabelPool
from cje.estimators.direct.label_predictor import LabelPredictor
from cje.estimators.direct.text_offset import TextOffset, fit_text_offset
from cje.findings import Finding
from cje.findings.labels import AUTOMATIC_COVARIATES
from cje.kernels.arrays import FloatArray
from cje.kernels.clusters import cluster_sums

__all__ = [
    "FeatureSet",
    "Gain",
    "covariate_finding",
    "feature_sets",
    "gain",
    "response_embeddings",
    "text_gain",
]

# Standard errors a set of features must gain. With 0.5, useless ones are used in 19% of the data
# sets instead of 9%, with 2 weak but real ones in 8% instead of 56% (`studies.covariates`).
_STANDARD_ERRORS = 1.0
_FORMAT = {
    "lines": r"\n",
    "list items": r"(?m)^\s*(?:[-*+]|\d+[.)])\s",
    "headings": r"(?m)^#+\s",
    "bold": r"\*\*[^*\n]+\*\*",
    "code blocks": r"```",
}


@dataclass(frozen=True)
class FeatureSet:
    """Names and values (n, p) for each data set, the fresh draws first."""

    name: str
    columns: tuple[str, ...]
    tables: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Gain:
    """Decrease of the out-of-fold squared error, and its standard error by cluster.

    `before` is that error without the features.
    """

    columns: tuple[str, ...]
    gain: float
    standard_error: float
    before: float

    @property
    def used(self) -> bool:
        """Whether the features are used: the gain exceeds its standard error."""
        return self.gain > _STANDARD_ERRORS * self.standard_error

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**self.__dict__, "columns": list(self.columns), "used": self.used}


def feature_sets(parts: Sequence[Dataset]) -> list[FeatureSet]:
    """Length, and length with format; nothing where a data set has neither text nor a length."""
    lengths = [_length(data) for data in parts]
    known = [length for length in lengths if length is not None]
    if len(known) < len(parts) or float(np.ptp(known[0])) == 0.0:
        return []
    tables = tuple(length[:, None] for length in known)
    sets = [FeatureSet("length", ("response length (log)",), tables)]
    if any(data.response is None for data in parts):
        return sets
    counts = [_format(data) for data in parts]
    varies = np.ptp(counts[0], axis=0) > 0
    if varies.any():
        names = tuple(n for n, keep in zip(_FORMAT, varies, strict=True) if keep)
        whole = tuple(
            np.hstack([length, count[:, varies]])
            for length, count in zip(tables, counts, strict=True)
        )
        sets.append(FeatureSet("length and format", (*sets[0].columns, *names), whole))
    return sets


def gain(
    columns: tuple[str, ...],
    labels: FloatArray,
    without: FloatArray,
    with_features: FloatArray,
    clusters: np.ndarray[Any, Any],
) -> Gain:
    """Compare out-of-fold predictions of the labels without and with features."""
    saved = (labels - without) ** 2 - (labels - with_features) ** 2
    _, cluster = np.unique(clusters, return_inverse=True)
    mean = float(saved.mean())
    pieces = cluster_sums(saved - mean, cluster, int(cluster.max()) + 1) / len(saved)
    before = float(((labels - without) ** 2).mean())
    return Gain(columns, mean, float(np.sqrt(pieces @ pieces)), before)


def response_embeddings(parts: Sequence[Dataset], folder: str | Path) -> list[FloatArray]:
    """Embeddings of the responses of each data set.

    Raises
    ------
    CJEError
        A data set has no text, or there is no model in the folder.
    """
    if any(part.response is None for part in parts):
        raise CJEError(
            "text_model needs the text of every response, and a data set has none",
            hint="read the files with their response column, or leave text_model out",
        )
    return [embed(part.response, folder) for part in parts if part.response is not None]


def text_gain(
    folder: str | Path,
    embeddings: FloatArray,
    at_labels: FloatArray,
    pool: LabelPool,
    predictor: LabelPredictor,
) -> tuple[Gain, TextOffset]:
    """Gain from the text of the responses beside a fitted prediction."""
    each = predictor.each_fold(pool.scores, pool.covariates)
    residuals = pool.labels[:, None] - each
    offset = fit_text_offset(embeddings, at_labels, residuals, pool.folds, predictor.shares)
    name, plain = f"text ({model_name(folder)})", predictor.at_labels
    return gain((name,), pool.labels, plain, plain + offset.at_labels, pool.clusters), offset


def covariate_finding(tried: Sequence[Gain], used: Sequence[Gain]) -> Finding:
    """Which features were tried, and which the prediction of the labels uses."""
    names = [", ".join(found.columns) for found in used]
    known = {column for found in used for column in found.columns}
    unused = dict.fromkeys(c for found in tried for c in found.columns if c not in known)
    which = "nothing beside the score"
    if used:
        left = float(np.prod([1.0 - found.gain / found.before for found in used]))
        which = f"{' and '.join(names)} beside the score ({1.0 - left:.0%} less squared error)"
    rest = f"; tried and not used: {', '.join(unused)}" if unused else ""
    details = {"used": sorted(known), "not_used": list(unused)}
    return AUTOMATIC_COVARIATES.finding(which=which, rest=rest, details=details)


def _length(data: Dataset) -> FloatArray | None:
    """Log of the response's length: of its text, or of a column named so."""
    if data.response is not None:
        return np.asarray(np.log1p(data.response.lengths().astype(np.float64)))
    for name, values in data.covariates.items():
        if may_be_length(name) and np.isfinite(values).all() and float(values.min()) >= 0.0:
            return np.log1p(values)
    return None


def _format(data: Dataset) -> FloatArray:
    """(n, 5) log counts of format marks."""
    assert data.response is not None
    text = data.response.to_series()
    return np.column_stack(
        [np.log1p(text.str.count_matches(mark).to_numpy()) for mark in _FORMAT.values()]
    )
