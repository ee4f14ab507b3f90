r"""Root-mean-square calibration errors: like the ECE, with squares for absolute values.

.. math:: \mathrm{RMS} = \Big( \sum_b \pi_b\, (\bar y_b - \bar p_b)^2 \Big)^{1/2}

with :math:`\pi_b` the share of the weight in cell b. At least the ECE of the same cells. Noise
raises it as it raises the ECE, but the noise of a square can be subtracted without bias, so that
its interval is the shortest of the binned errors'.

References
----------
Kumar, Liang and Ma (2019), "Verified uncertainty calibration". Hendrycks, Mazeika and Dietterich
(2019), "Deep anomaly detection with outlier exposure" (RMS calibration error).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cje.classification._arrays import check_binary
from cje.classification._labels import check_multiclass, check_top
from cje.classification.bins import BinSums, Strategy
from cje.classification.ece import binary_cells, class_wise_cells, top_label_cells
from cje.classification.folded import Dependence, least_errors, standard_errors
from cje.classification.squares import squares_limits

__all__ = ["class_wise_rms_error", "rms_calibration_error", "top_label_rms_error"]


def rms_of_cells(cells: BinSums) -> float:
    """Root of the weighted mean squared gap."""
    return float(np.sqrt(cells.weight @ cells.gap**2 / cells.weight.sum()))


def rms_limits(
    cells: BinSums, level: float, dependence: Dependence | None = None
) -> tuple[float, float]:
    """Limits for the population's value, at most one."""
    share = cells.weight / cells.weight.sum()
    noise = standard_errors(cells, np.ones(len(share)))
    clear = np.maximum(cells.gap**2 - noise**2, 0.0)
    rows = float(cells.weight.sum() ** 2 / cells.squared.sum())
    least = least_errors(cells, np.ones(len(share)))
    low, high = squares_limits(
        cells.gap, noise, share, (1.0 - level) / 2.0, least=least,
        dependence=1.0 if dependence is None else dependence.squared,
        extra_variance=float(share @ (clear - float(share @ clear)) ** 2) / rows,
    )  # fmt: skip
    return float(np.sqrt(low)), min(float(np.sqrt(high)), 1.0)


def rms_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    """RMS calibration error of a probability for a 0/1 outcome.

    Parameters as in `expected_calibration_error`.

    Examples
    --------
    >>> round(rms_calibration_error([0, 1, 1, 1], [0.3, 0.3, 0.9, 0.9], n_bins=2), 6)
    0.158114
    """
    y, p, w = check_binary(y_true, y_prob, sample_weight, pos_label)
    return rms_of_cells(binary_cells(y, p, w, n_bins, strategy))


def top_label_rms_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """RMS calibration error over (predicted label, bin) cells. Parameters as in `top_label_ece`."""
    top, w = check_top(y_true, y_prob, sample_weight, labels)
    return rms_of_cells(top_label_cells(top, w, n_bins, strategy))


def class_wise_rms_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """RMS calibration error over (class, bin) cells. Parameters as in `class_wise_ece`."""
    codes, p, w, _ = check_multiclass(y_true, y_prob, sample_weight, labels)
    return rms_of_cells(class_wise_cells(codes, p, w, n_bins, strategy))
