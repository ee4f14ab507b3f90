"""`PrecomputedSampler`: what off-policy estimators need, computed from logged log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cje.data.codes import Codes
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from cje.data.dataset import Dataset

__all__ = ["LOG_RATIO_CLIP", "ClipCount", "PrecomputedSampler"]

# exp(20) is a weight of 5e8: beyond it a single row decides any estimate.
LOG_RATIO_CLIP = 20.0


@dataclass(frozen=True)
class ClipCount:
    """How many log-ratios the hard clip moved, at each end."""

    above: int
    below: int


class PrecomputedSampler:
    """Importance weights, rewards, scores and folds of a logged data set.

    The weight of row i under target k is ``w = exp(clip(log p_k - log p_0, -c, c))``, formed in
    log space. Under correct log-probabilities E[w] = 1.

    Parameters
    ----------
    dataset : Dataset
        With `base_policy_logprob` and `target_policy_logprobs` on every row.
    log_ratio_clip : float
        The hard clip c; the rows it moves are counted in `clipped`.

    Examples
    --------
    >>> from cje.data import Dataset
    >>> data = Dataset.from_arrays(prompt_id=["a", "b"], policy="base", judge_score=[0.5, 0.7],
    ...     base_policy_logprob=[-10.0, -12.0], target_policy_logprobs={"new": [-9.0, -13.0]})
    >>> sampler = PrecomputedSampler(data)
    >>> sampler.weights("new", normalised=False).round(3).tolist()
    [2.718, 0.368]
    >>> round(float(sampler.weights("new").mean()), 12)
    1.0
    """

    def __init__(self, dataset: Dataset, *, log_ratio_clip: float = LOG_RATIO_CLIP) -> None:
        from cje.data.dataset import Dataset

        if not isinstance(dataset, Dataset):
            raise CJEError("dataset must be a Dataset", value=type(dataset).__name__)
        number = isinstance(log_ratio_clip, int | float | np.number)
        if not (number and 0 < log_ratio_clip <= np.inf):
            raise CJEError("log_ratio_clip must be positive", value=log_ratio_clip)
        if dataset.base_policy_logprob is None or dataset.target_policy_logprobs is None:
            raise CJEError(
                "off-policy estimation needs log-probabilities, and the data have none",
                hint="add base_policy_logprob and target_policy_logprobs to every row (score the "
                "logged responses under each target policy), or draw fresh responses and use the "
                "direct method",
            )
        self.dataset = dataset
        self.log_ratio_clip = float(log_ratio_clip)
        self._log_ratios = _log_ratios(
            dataset.base_policy_logprob, dataset.target_policy_logprobs, dataset.target_policies
        )

    @property
    def target_policies(self) -> tuple[str, ...]:
        return self.dataset.target_policies

    @property
    def n_samples(self) -> int:
        return len(self.dataset)

    @property
    def n_policies(self) -> int:
        return len(self.target_policies)

    def log_ratios(self, *, clipped: bool = True) -> FloatArray:
        """log p_target - log p_base, rows by target policies."""
        if not clipped:
            return self._log_ratios
        return np.clip(self._log_ratios, -self.log_ratio_clip, self.log_ratio_clip)

    @property
    def clipped(self) -> Mapping[str, ClipCount]:
        """Per target policy, how many log-ratios lie beyond the hard clip."""
        above = np.count_nonzero(self._log_ratios > self.log_ratio_clip, axis=0)
        below = np.count_nonzero(self._log_ratios < -self.log_ratio_clip, axis=0)
        return {
            name: ClipCount(int(above[k]), int(below[k]))
            for k, name in enumerate(self.target_policies)
        }

    def weights(self, policy: str, *, normalised: bool = True) -> FloatArray:
        """Importance weights of one target policy.

        `normalised` divides by their mean (Hajek), so that the mean is exactly one; it is formed
        from ``exp(l - max l)``, which cannot overflow. The raw form is ``exp(l)``.
        """
        ratios = self.log_ratios()[:, self.position(policy)]
        if not normalised:
            return np.exp(ratios)
        weights = np.exp(ratios - ratios.max())
        return np.asarray(weights / weights.mean(), dtype=np.float64)

    def weight_matrix(self, *, normalised: bool = True) -> FloatArray:
        """`weights` of every target policy, rows by policies."""
        return np.column_stack(
            [self.weights(p, normalised=normalised) for p in self.target_policies]
        )

    def position(self, policy: str) -> int:
        """The column of a target policy."""
        try:
            return self.target_policies.index(policy)
        except ValueError:
            raise CJEError(
                "unknown target policy",
                value=policy,
                hint=f"the data have: {', '.join(self.target_policies)}",
            ) from None

    def rewards(self) -> FloatArray:
        """Calibrated rewards."""
        if self.dataset.rewards is None:
            raise CJEError(
                "the data have no calibrated rewards yet",
                hint="dataset, result = cje.calibration.calibrate_dataset(dataset)",
            )
        return _complete("rewards", self.dataset.rewards)

    def judge_scores(self) -> FloatArray:
        """Judge scores on [0, 1], one on every row."""
        return _complete("judge_score", self.dataset.judge_score)

    def oracle_labels(self) -> FloatArray:
        """Oracle labels on [0, 1]; NaN where a row is not labelled."""
        return self.dataset.oracle_label

    def prompt_ids(self) -> Codes:
        """The prompt of each row: the cluster of every standard error."""
        return self.dataset.prompt_id

    def fold_ids(self, n_folds: int, seed: int = 42) -> IntArray:
        """Cross-fitting folds, a function of the prompt id alone."""
        from cje.data.folds import get_folds

        return get_folds(self.dataset.prompt_id, n_folds, seed)

    def __repr__(self) -> str:
        return f"PrecomputedSampler({self.n_samples} rows, targets {self.target_policies})"


def _log_ratios(base: FloatArray, target: FloatArray, names: tuple[str, ...]) -> FloatArray:
    if not len(base):
        raise CJEError("the data set has no rows")
    _complete("base_policy_logprob", base)
    for k, name in enumerate(names):
        _complete(f"target_policy_logprobs.{name}", target[:, k])
    ratios = target - base[:, None]
    ratios.setflags(write=False)
    return ratios


def _complete(name: str, column: FloatArray) -> FloatArray:
    """The column, or an error that names the first row without a value."""
    missing = np.isnan(column)
    if missing.any():
        row = int(np.argmax(missing))
        raise CJEError(
            f"{name} is missing on {int(missing.sum())} of {len(column)} rows",
            where=f"first at row {row}",
            hint="a missing value is never replaced by a default: fill it in, or select the rows "
            "that have it",
        )
    return column
