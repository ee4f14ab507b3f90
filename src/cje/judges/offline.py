"""Judges without a server: a seeded judge for development, and a wrapper for any scorer."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from cje.checks import check_seed
from cje.data.judge_score import JudgeScore
from cje.errors import CJEError
from cje.judges.base import BaseJudge, Judge, function_name
from cje.judges.verdict import VarianceMethod, Verdict
from cje.models import JSON, call_seed

__all__ = ["DeterministicJudge", "OfflineJudge", "lexical_quality"]

Scorer = Callable[[str, str], float]
_HELPFUL = {
    "help", "happy", "please", "thank", "open", "choose", "send", "reset", "change", "check",
    "click", "use",
}  # fmt: skip
_UNHELPFUL = {"no", "not", "problem", "wrong", "else", "sorry", "know"}


def lexical_quality(context: str, response: str) -> float:
    """Helpfulness of a short support answer on [0, 1]: helpful minus unhelpful words.

    It is the truth of the offline demo. Words shared with the context also count, so that an
    answer about another subject scores lower.

    Examples
    --------
    >>> ask = "How do I reset my password?"
    >>> lexical_quality(ask, " Reset the password.") > lexical_quality(ask, " Not my problem.")
    True
    """
    words = re.findall(r"[a-z']+", response.lower())
    if not words:
        return 0.0
    subject = {word for word in re.findall(r"[a-z']+", context.lower()) if len(word) > 4}
    points = sum((w in _HELPFUL) - (w in _UNHELPFUL) + 0.5 * (w in subject) for w in words)
    return 1.0 / (1.0 + math.exp(-1.2 * points / math.sqrt(len(words))))


class OfflineJudge(BaseJudge):
    """A biased, noisy judge without a network: distorted quality with seeded noise.

    Parameters
    ----------
    quality : callable
        (context, response) to [0, 1].
    bias : (float, float)
        The judge sees ``bias[0] + bias[1] * quality``.
    noise : float
        Standard deviation of the noise of one judgement (before cutting to [0, 1]).
    """

    provider = "offline"

    def __init__(
        self,
        quality: Scorer = lexical_quality,
        *,
        name: str = "judge",
        bias: tuple[float, float] = (0.0, 1.0),
        noise: float = 0.1,
        n_repeats: int = 5,
        variance: VarianceMethod = "samples",
        seed: int = 0,
    ) -> None:
        self.quality, self.name, self.bias, self.noise = quality, name, bias, noise
        self.n_repeats, self.variance_method, self.seed = n_repeats, variance, seed

    async def ajudge(self, context: str, response: str, *, seed: int) -> Verdict:
        """One judgement; the same seed gives the same judgement."""
        clean = self.bias[0] + self.bias[1] * float(self.quality(context, response))
        drawn = clean + self.noise * float(check_seed(seed).standard_normal())
        own = self.noise**2 if self.variance_method in ("logprobs", "interval") else None
        return Verdict(min(1.0, max(0.0, drawn)), variance=None if own is None else min(own, 0.25))

    async def acompare_once(self, context: str, first: str, second: str, *, seed: int) -> Verdict:
        """Compare two judgements with noise from the seed: 1, 0.5 or 0."""
        a = await self.ajudge(context, first, seed=call_seed(seed, "first"))
        b = await self.ajudge(context, second, seed=call_seed(seed, "second"))
        return Verdict(0.5 if a.score == b.score else float(a.score > b.score))

    def identity(self) -> dict[str, JSON]:
        return {
            "provider": self.provider,
            "quality": function_name(self.quality),
            "bias": list(self.bias),
            "noise": self.noise,
            "variance": self.variance_method,
            "seed": self.seed,
        }


class DeterministicJudge(BaseJudge):
    """Any scorer as a judge with variance 0.

    Parameters
    ----------
    scorer : callable or object with ``score(context, response)``
        Returns a number on [0, 1], or a `JudgeScore` whose mean is used; another judge is asked for
        one judgement.

    Examples
    --------
    >>> DeterministicJudge(lambda context, response: 0.5).score("a", "b")
    JudgeScore(mean=0.5, variance=0.0)
    """

    provider = "deterministic"

    def __init__(self, scorer: Any, *, name: str = "judge") -> None:
        function = getattr(scorer, "score", scorer)
        if not callable(function):
            raise CJEError("a scorer must be a function of (context, response)", value=scorer)
        self._function, self.name = function, name
        self._judge: Judge | None = scorer if hasattr(scorer, "ajudge") else None

    async def ajudge(self, context: str, response: str, *, seed: int) -> Verdict:
        """The scorer's number."""
        if self._judge is not None:  # its score() would wait for the running loop
            return await self._judge.ajudge(context, response, seed=seed)
        value = self._function(context, response)
        return Verdict(float(value.mean if isinstance(value, JudgeScore) else value))

    def identity(self) -> dict[str, JSON]:
        return {"provider": self.provider, "scorer": function_name(self._function)}
