"""Pieces every generator shares: true curves, outcomes, labelling, the `Simulation` record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from cje.checks import check_number, check_whole_number
from cje.data.codes import Codes
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = [
    "Labelling",
    "Shape",
    "Simulation",
    "beta_outcomes",
    "check_sizes",
    "hide_labels",
    "policy_codes",
    "prompt_codes",
    "quantise",
    "score_mean",
    "score_quantile",
    "true_curve",
]

Shape = Literal["monotone", "non_monotone", "mild_dip"]
Labelling = Literal["mcar", "mar"]
_MOST_ROWS = 10**9


def check_sizes(**sizes: int) -> None:
    """Whole numbers of rows, policies or draws: at least one (no labels, no fresh draws: zero)."""
    for name, value in sizes.items():
        least = 0 if name in ("n_labels", "fresh_draws") else 1
        check_whole_number(name, value, least=least, most=_MOST_ROWS)


@dataclass(frozen=True)
class Simulation:
    """A simulated evaluation and its exact truth.

    Parameters
    ----------
    dataset : Dataset
        What a user would have: fresh draws, or logged rows with log-probs.
    truth : mapping policy -> float
        The exact value E[Y] of each policy.
    outcomes : array (n,)
        Every row's label, the hidden ones included.
    fresh : Dataset, optional
        Fresh draws of the target policies beside logged rows.
    fresh_outcomes : array, optional
        Every fresh row's label, the hidden ones included.
    """

    dataset: Dataset
    truth: Mapping[str, float]
    outcomes: FloatArray
    fresh: Dataset | None = None
    fresh_outcomes: FloatArray | None = None


def _monotone(s: FloatArray) -> FloatArray:
    return 0.1 + 0.8 * s * s * (3.0 - 2.0 * s)


def _non_monotone(s: FloatArray) -> FloatArray:
    return 0.15 + 2.8 * s * (1.0 - s)


def _mild_dip(s: FloatArray) -> FloatArray:
    return np.where(s <= 0.8, 0.15 + 0.8 * s, 0.79 - 0.6 * (s - 0.8))


_CURVES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "monotone": _monotone,
    "non_monotone": _non_monotone,
    "mild_dip": _mild_dip,
}


def true_curve(shape: Shape) -> Callable[[FloatArray], FloatArray]:
    """E[Y | S = s] for a named judge shape.

    ``monotone`` rises smoothly from 0.1 to 0.9; ``non_monotone`` is an arch, low at both ends;
    ``mild_dip`` rises to 0.79 at s = 0.8 and falls to 0.67 at s = 1.

    Examples
    --------
    >>> float(true_curve("monotone")(np.array([0.5]))[0])
    0.5
    """
    if not isinstance(shape, str) or shape not in _CURVES:
        raise CJEError("unknown judge shape", value=shape, hint=f"one of {sorted(_CURVES)}")
    return _CURVES[shape]


def quantise(scores: FloatArray, levels: int | None) -> FloatArray:
    """Round scores to `levels` equally spaced values 0, 1/(levels-1), ..., 1 (None: leave them)."""
    if levels is None:
        return scores
    if not isinstance(levels, int | np.integer) or levels < 2:
        raise CJEError("levels must be a whole number of at least 2", value=levels)
    return np.rint(scores * (levels - 1)) / (levels - 1)


def score_quantile(u: FloatArray, a: float, b: float) -> FloatArray:
    """Quantile of the Kumaraswamy(a, b) law, similar to Beta(a, b), in closed form.

    F(s) = 1 - (1 - s^a)^b on [0, 1], so Q(u) = (1 - (1 - u)^(1/b))^(1/a); uniform for a = b = 1.
    """
    return np.asarray((1.0 - (1.0 - u) ** (1.0 / b)) ** (1.0 / a), dtype=np.float64)


@lru_cache(maxsize=256)
def score_mean(
    curve: Callable[[FloatArray], FloatArray], a: float, b: float, levels: int | None
) -> float:
    """E[curve(S)] for S ~ Kumaraswamy(a, b), rounded to `levels` where given.

    Discrete scores: the sum over levels of the curve times the mass that rounds to it.
    Continuous: adaptive quadrature of curve(Q(u)) over u, split at the mild dip's corner.
    """

    def cdf(s: FloatArray) -> FloatArray:
        return np.asarray(1.0 - (1.0 - s**a) ** b, dtype=np.float64)

    if levels is not None:
        grid = np.arange(levels) / (levels - 1)
        edges = np.concatenate([[0.0], grid[:-1] + 0.5 / (levels - 1), [1.0]])
        return float(np.diff(cdf(edges)) @ curve(grid))
    from scipy.integrate import quad

    corner = float(cdf(np.asarray(0.8)))

    def integrand(u: float) -> float:
        return float(curve(score_quantile(np.asarray(u), a, b)))

    pieces = ((0.0, corner), (corner, 1.0))
    return float(sum(quad(integrand, *ends, epsabs=1e-11, limit=200)[0] for ends in pieces))


def beta_outcomes(
    mean: FloatArray, concentration: float | None, rng: np.random.Generator
) -> FloatArray:
    """Labels with the given conditional mean: Beta(c m, c (1-m)), or 0/1 where c is None."""
    if concentration is None:
        return (rng.random(mean.shape) < mean).astype(np.float64)
    check_number("concentration", concentration, low=1e-6, high=1e6)
    m = np.clip(mean, 1e-9, 1.0 - 1e-9)
    return rng.beta(concentration * m, concentration * (1.0 - m))


def hide_labels(
    outcomes: FloatArray,
    scores: FloatArray,
    n_labels: int,
    labelling: Labelling,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray | None]:
    """Keep about `n_labels` outcomes, NaN elsewhere; returns labels and labelling propensities.

    ``mcar``: a simple random sample of exactly `n_labels`. ``mar``: independent draws with
    propensity proportional to 0.25 + 1.5 |s - 1/2| (extreme scores are labelled more often),
    `n_labels` in expectation.
    """
    n = len(outcomes)
    check_sizes(n_labels=n_labels)
    if n_labels > n:
        raise CJEError("n_labels must lie between 0 and the number of rows", value=n_labels)
    if n_labels == 0:
        return np.full(n, np.nan), None
    if labelling == "mcar":
        propensity = np.full(n, n_labels / n)
        chosen = np.zeros(n, dtype=bool)
        chosen[rng.permutation(n)[:n_labels]] = True
    elif labelling == "mar":
        raw = 0.25 + 1.5 * np.abs(scores - 0.5)
        propensity = np.minimum(raw * (n_labels / raw.sum()), 1.0)
        chosen = rng.random(n) < propensity
    else:
        raise CJEError("unknown labelling", value=labelling, hint="'mcar' or 'mar'")
    return np.where(chosen, outcomes, np.nan), propensity


@lru_cache(maxsize=8)
def _prompt_names(n: int) -> tuple[str, ...]:
    return tuple(f"p{i}" for i in range(n))


def prompt_codes(n_prompts: int, draws: int = 1, repeats: int = 1) -> Codes:
    """Prompts p0, p1, ..., each `draws` times in a row, the whole `repeats` times over."""
    codes = np.tile(np.repeat(np.arange(n_prompts), draws), repeats)
    return Codes(codes, _prompt_names(n_prompts))


def policy_codes(names: Sequence[str], rows: int) -> Codes:
    """Each policy for `rows` rows in a block."""
    return Codes(np.repeat(np.arange(len(names)), rows), tuple(names))
