"""The models the server hosts: n-gram policies, scored and sampled exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cje.policies.ngram_model import BOS_ID, EOS_ID, NgramModel, split_words

__all__ = ["Language", "default_models"]

HELPFUL = {"help": 0.8, "happy": 0.8, "please": 0.6, "reset": 0.5, "refund": 0.5, "send": 0.5}
RUDE = {"not": 2.0, "problem": 2.0, "No": 2.0, "wrong": 1.5, "else": 1.5}


def default_models() -> dict[str, NgramModel]:
    """A logging policy and three targets: near, moderate and deliberately bad."""
    return {
        "base": NgramModel(),
        "near": NgramModel(boost={word: value / 4 for word, value in HELPFUL.items()}),
        "moderate": NgramModel(boost=HELPFUL),
        "bad": NgramModel(boost=RUDE),
    }


class Language:
    """Sampling and scoring with one model."""

    def __init__(self, model: NgramModel) -> None:
        self.model = model

    def tokens(self, prompt: str | list[int], *, bos: bool) -> tuple[list[str], list[int]]:
        """Texts and ids of a prompt; BOS in front only of a text."""
        if not isinstance(prompt, str):
            return [self.model.vocabulary[i] for i in prompt], list(prompt)
        texts = split_words(prompt, specials=True)
        ids = self.model.encode(prompt, specials=True)
        if bos:
            return ["<s>", *texts], [BOS_ID, *ids]
        return texts, ids

    def score(
        self, ids: list[int], temperature: float = 1.0, top_p: float = 1.0
    ) -> list[float | None]:
        """log p of every token given those before it; the first has none."""
        out: list[float | None] = [None]
        for at in range(1, len(ids)):
            following = self.model.next_log_probs(
                self.model.history(self._before(ids, at)), temperature, top_p
            )
            out.append(float(following[ids[at]]))
        return out

    @staticmethod
    def _before(ids: list[int], at: int) -> list[int]:
        return ids[max(0, at - 8) : at]

    def write(
        self, ids: list[int], *, max_tokens: int, temperature: float, top_p: float, seed: int
    ) -> tuple[list[int], list[float], bool]:
        """Sampled ids, their log-probs at temperature 1 (as servers report), whether it ended."""
        uniforms = np.random.default_rng(seed).random(max_tokens).tolist()
        written: list[int] = []
        logs: list[float] = []
        context = list(ids[-8:])
        for uniform in uniforms:
            history = self.model.history(context)
            mass = np.cumsum(np.exp(self.model.next_log_probs(history, temperature, top_p)))
            token = min(int(np.searchsorted(mass, uniform * mass[-1], side="right")), len(mass) - 1)
            logs.append(float(self.model.next_log_probs(history)[token]))
            if token == EOS_ID:
                return written, logs[:-1], True
            written.append(token)
            context.append(token)
        return written, logs, False

    @staticmethod
    def floored(values: list[float | None], floor: float | None) -> list[Any]:
        """Minus infinity as this server writes it; most models have no impossible word."""
        least = -30.0 if floor is None else floor
        return [least if v is not None and math.isinf(v) else v for v in values]
