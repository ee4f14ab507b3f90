"""What automatic covariates save where they explain the judge's errors, and cost elsewhere.

Shared by ``python -m benchmarks.covariates`` and the tests (a short version).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cje.data.dataset import Dataset
from cje.estimators import DirectEstimator

__all__ = ["Saving", "flattered", "saving"]


@dataclass(frozen=True)
class Saving:
    """Root mean squared errors without and with features, and how often they were used."""

    plain: float
    auto: float
    used: float
    coverage: float
    errors: float  # mean standard error with features over that without

    @property
    def ratio(self) -> float:
        """Error with features over that without."""
        return self.auto / self.plain


def flattered(
    rng: np.random.Generator, effect: float, *, total: int = 500, labels: int = 50
) -> tuple[Dataset, float]:
    """Two policies; the judge likes long responses and lists by `effect` more than people do."""
    scores, given, texts = [], [], []
    for _ in range(2):
        quality = rng.beta(4, 4, total)
        words = rng.integers(20, 400, total)
        lists = rng.integers(0, 6, total)
        liked = np.log1p(words) / 6.0 - 0.85 + 0.1 * (lists - 2.5)
        score = np.clip(quality + effect * liked + rng.normal(0, 0.05, total), 0, 1)
        label = np.clip(quality + rng.normal(0, 0.05, total), 0, 1)
        hidden = np.ones(total, dtype=bool)
        hidden[rng.choice(total, labels, replace=False)] = False
        scores.append(score)
        given.append(np.where(hidden, np.nan, label))
        texts += ["w " * int(w) + "\n- x" * int(k) for w, k in zip(words, lists, strict=True)]
    data = Dataset.from_arrays(
        prompt_id=np.tile([f"p{i}" for i in range(total)], 2),
        policy=np.repeat(["a", "b"], total),
        judge_score=np.concatenate(scores),
        oracle_label=np.concatenate(given),
        response=texts,
    )
    return data, 0.5


def saving(effect: float, repetitions: int, *, first_seed: int = 0) -> Saving:
    """Both estimators on the same data sets."""
    errors, stated, used, hit = [], [], [], []
    for seed in range(first_seed, first_seed + repetitions):
        data, truth = flattered(np.random.default_rng([seed, 11]), effect)
        plain = DirectEstimator(data, seed=seed).fit_and_estimate()
        auto = DirectEstimator(data, covariates="auto", seed=seed).fit_and_estimate()
        errors.append([plain.estimates - truth, auto.estimates - truth])
        stated.append([plain.standard_errors, auto.standard_errors])
        used.append(any(found["used"] for found in auto.diagnostics["covariates"]))
        hit.append([low <= truth <= high for low, high in auto.ci()])
    plain_rmse, auto_rmse = np.sqrt((np.array(errors) ** 2).mean(axis=(0, 2)))
    before, after = np.mean(stated, axis=(0, 2))
    return Saving(
        plain=float(plain_rmse),
        auto=float(auto_rmse),
        used=float(np.mean(used)),
        coverage=float(np.mean(hit)),
        errors=float(after / before),
    )
