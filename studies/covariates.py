"""What automatic covariates save where they explain the judge's errors, and cost elsewhere.

Shared by ``python -m benchmarks.covariates`` and the tests (a short version).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cje.data.dataset import Dataset
from cje.estimators import DirectEstimator

__all__ = ["Saving", "flattered", "hedged", "saving", "tiny_text_model"]


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
    return _two_policies(scores, given, texts), 0.5


_WORDS = tuple(f"word{i:03d}" for i in range(300))  # of one length, which says nothing
_HEDGES = 40  # the first words of the vocabulary


def tiny_text_model(folder: Path, *, dimensions: int = 64, seed: int = 0) -> Path:
    """A model2vec model of the study's words, each a random vector, in `folder`."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokens = ("[UNK]", *_WORDS)
    tokenizer = Tokenizer(WordLevel({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    vectors = np.random.default_rng(seed).normal(size=(len(tokens), dimensions))
    StaticModel(vectors.astype(np.float32), tokenizer).save_pretrained(folder)
    return folder


def hedged(
    rng: np.random.Generator, effect: float, *, total: int = 500, labels: int = 50
) -> tuple[Dataset, float]:
    """Two policies; people mark hedging words down (by `effect`), which the judge overlooks."""
    scores, given, texts = [], [], []
    for _ in range(2):
        quality, share = rng.uniform(0.3, 0.7, total), rng.uniform(0.0, 0.4, total)
        noise = rng.normal(0, 0.05, (2, total)).clip(-0.1, 0.1)
        hidden = np.ones(total, dtype=bool)
        hidden[rng.choice(total, labels, replace=False)] = False
        scores.append(quality + noise[0])
        given.append(np.where(hidden, np.nan, quality + effect * (0.2 - share) + noise[1]))
        length = 80
        hedge = rng.random((total, length)) < share[:, None]
        other = rng.integers(_HEDGES, len(_WORDS), (total, length))
        word = np.where(hedge, rng.integers(0, _HEDGES, (total, length)), other)
        texts += [" ".join(_WORDS[w] for w in row) for row in word]
    return _two_policies(scores, given, texts), 0.5


def saving(
    effect: float,
    repetitions: int,
    *,
    first_seed: int = 0,
    draw: Callable[..., tuple[Dataset, float]] = flattered,
    labels: int = 50,
    text_model: Path | None = None,
) -> Saving:
    """Both estimators on the same data sets; `used` counts the text where there is a model."""
    errors, stated, used, hit = [], [], [], []
    for seed in range(first_seed, first_seed + repetitions):
        data, truth = draw(np.random.default_rng([seed, 11]), effect, labels=labels)
        plain = DirectEstimator(data, seed=seed).fit_and_estimate()
        auto = DirectEstimator(
            data, covariates="auto", text_model=text_model, seed=seed
        ).fit_and_estimate()
        errors.append([plain.estimates - truth, auto.estimates - truth])
        stated.append([plain.standard_errors, auto.standard_errors])
        offered = auto.diagnostics["covariates"]
        used.append(any(found["used"] for found in (offered[-1:] if text_model else offered)))
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


def _two_policies(scores: list[np.ndarray], labels: list[np.ndarray], texts: list[str]) -> Dataset:
    """Policies a and b on the same prompts."""
    total = len(scores[0])
    return Dataset.from_arrays(
        prompt_id=np.tile([f"p{i}" for i in range(total)], 2),
        policy=np.repeat(["a", "b"], total),
        judge_score=np.concatenate(scores),
        oracle_label=np.concatenate(labels),
        response=texts,
    )
