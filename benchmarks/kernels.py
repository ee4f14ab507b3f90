"""Bars of the kernels and of the folds: ratios to the bare NumPy/SciPy version, in one run.

``python -m benchmarks.kernels [--quick]``
"""

from __future__ import annotations

import sys
import zlib
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from benchmarks.timing import interleaved, main, ratio, row, show
from cje.data.folds import get_folds
from cje.kernels.arrays import FloatArray
from cje.kernels.binning import bin_sums, equal_width_bins
from cje.kernels.isotonic import isotonic_fit, isotonic_predict
from cje.kernels.projection import mean_one_projection
from cje.kernels.smooth import lowess

N_BINS = 15


def bare_isotonic(x: FloatArray, y: FloatArray) -> FloatArray:
    """Sort, gather, one pass: no ties, no knots."""
    order = np.argsort(x)
    return np.asarray(isotonic_regression(y[order]).x)


def bare_projection(w: FloatArray, index: FloatArray) -> FloatArray:
    """Sort, gather, one pass, scatter back, divide by the mean: no ties, no guard."""
    order = np.argsort(index)
    projected = np.empty(len(w))
    projected[order] = isotonic_regression(w[order]).x
    projected /= projected.mean()
    return projected


def bare_ece(p: FloatArray, y: FloatArray) -> float:
    """Bins by multiplication (edges off by a rounding), three bincounts, one sum."""
    bins = np.minimum((p * N_BINS).astype(np.int64), N_BINS - 1)
    count = np.bincount(bins, minlength=N_BINS)
    confidence = np.bincount(bins, weights=p, minlength=N_BINS)
    hits = np.bincount(bins, weights=y, minlength=N_BINS)
    return float(np.abs(hits - confidence).sum() / count.sum())


def our_ece(p: FloatArray, y: FloatArray) -> float:
    """The same from the kernels, with exact edges."""
    count, confidence, hits = bin_sums(equal_width_bins(p, N_BINS), N_BINS, p, y)
    return float(np.abs(hits - confidence).sum() / count.sum())


def _data(n: int) -> dict[str, FloatArray]:
    rng = np.random.default_rng(20)
    x = rng.random(n)
    return {
        "x": x,
        "y": (rng.random(n) < x).astype(np.float64),
        "few": rng.integers(0, 100, n) / 100.0,
        "w": rng.lognormal(size=n),
    }


def _timings(n: int, repeats: int) -> dict[str, list[float]]:
    d = _data(n)
    return interleaved(
        {
            "bare isotonic": lambda: bare_isotonic(d["x"], d["y"]),
            "isotonic": lambda: isotonic_fit(d["x"], d["y"]),
            "isotonic, 100 scores": lambda: isotonic_fit(d["few"], d["y"]),
            "isotonic of weights": lambda: isotonic_fit(d["x"], d["w"]),
            "bare projection": lambda: bare_projection(d["w"], d["x"]),
            "projection": lambda: mean_one_projection(d["w"], d["x"]),
            "bare ECE": lambda: bare_ece(d["x"], d["y"]),
            "ECE": lambda: our_ece(d["x"], d["y"]),
        },
        repeats,
    )


def _kernel_rows(quick: bool) -> list[dict[str, Any]]:
    n = 1_000_000  # the size the bars name
    small = _timings(n, 5 if quick else 11)
    size = f"n = {n:.0e}"
    rows = [
        row(
            "isotonic fit / argsort + take + scipy pass",
            ratio(small, "isotonic", "bare isotonic"),
            1.2,
            f"{size}, {1e3 * median(small['isotonic']):.0f} ms",
        ),
        row(
            "isotonic fit, 100 distinct scores / continuous",
            ratio(small, "isotonic, 100 scores", "isotonic"),
            0.8,
            size,
        ),
        row(
            "mean-one projection / isotonic fit of the same rows",
            ratio(small, "projection", "isotonic of weights"),
            1.2,
            size,
        ),
        row("ECE sums / bare bincounts", ratio(small, "ECE", "bare ECE"), 1.2, size),
    ]
    return rows if quick else rows + _growth_rows(n, small)


def _growth_rows(n: int, small: dict[str, list[float]]) -> list[dict[str, Any]]:
    large = _timings(10 * n, 5)
    rows = []
    for name, floor in (
        ("isotonic", "bare isotonic"),
        ("projection", "bare projection"),
        ("ECE", "bare ECE"),
    ):
        # (large / small) over the floor's (large / small), each quotient within one round: the
        # load on the machine may differ between the two sizes.
        value = ratio(large, name, floor) / ratio(small, name, floor)
        grown = median(large[name]) / median(small[name])
        note = f"{grown:.1f} x from {n:.0e} to {10 * n:.0e}"
        rows.append(row(f"growth of {name} / growth of its floor", value, 1.2, note))
    return rows


def _scikit_learn_row(quick: bool) -> dict[str, Any]:
    """Isotonic fit and prediction of the same rows beside scikit-learn's."""
    from sklearn.isotonic import IsotonicRegression

    n = 100_000 if quick else 1_000_000
    d = _data(n)
    seconds = interleaved(
        {
            "scikit-learn": lambda: IsotonicRegression(out_of_bounds="clip").fit_transform(
                d["x"], d["y"]
            ),
            "ours": lambda: isotonic_predict(*isotonic_fit(d["x"], d["y"]), d["x"]),
        },
        5,
    )
    note = f"n = {n:.0e}, {1e3 * median(seconds['ours']):.0f} ms"
    quotient = ratio(seconds, "ours", "scikit-learn")
    return row("isotonic fit + predict / scikit-learn's", quotient, 1.0, note)


def _fold_row(quick: bool) -> dict[str, Any]:
    n = 100_000 if quick else 1_000_000
    ids = [f"p{i}" for i in range(n)]
    seconds = interleaved(
        {
            "crc32": lambda: [zlib.crc32(name.encode()) for name in ids],
            "folds": lambda: get_folds(ids, 5, 42),
        },
        5,
    )
    note = f"n = {n:.0e}, {1e3 * median(seconds['folds']):.0f} ms"
    return row("get_folds / zlib.crc32 comprehension", ratio(seconds, "folds", "crc32"), 8.0, note)


def _lowess_row(quick: bool) -> dict[str, Any]:
    # Imported here: statsmodels is a peer, not a dependency of the package.
    from statsmodels.nonparametric.smoothers_lowess import lowess as peer

    n = 50_000 if quick else 1_000_000
    d = _data(n)
    spacing = 0.01 * float(np.ptp(d["x"]))
    seconds = interleaved(
        {
            "statsmodels": lambda: peer(
                d["y"], d["x"], frac=0.3, it=0, delta=spacing, return_sorted=False
            ),
            "ours": lambda: lowess(d["x"], d["y"], frac=0.3, delta=0.01),
        },
        3,
    )
    note = f"n = {n:.0e}, {median(seconds['ours']):.2f} s; not a bar of the issue"
    return row(
        "lowess / statsmodels lowess(it=0, delta=1%)",
        ratio(seconds, "ours", "statsmodels"),
        1.0,
        note,
    )


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Measure every bar and print the table."""
    rows = [*_kernel_rows(quick), _scikit_learn_row(quick), _fold_row(quick), _lowess_row(quick)]
    show(rows)
    return rows


if __name__ == "__main__":
    sys.exit(main(run, __doc__ or ""))
