"""The interface of judges: single judgements for the pipeline, batches for users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from cje.data.judge_score import JudgeScore, JudgeScores
from cje.errors import CJEError
from cje.judges.verdict import JudgedScore, VarianceMethod, Verdict, combine_verdicts
from cje.models import JSON, call_seed, gather_bounded, run_sync, with_retries

__all__ = ["BaseJudge", "Judge", "check_samples", "function_name"]


class Judge(Protocol):
    """A judge that makes one attempt per call; the caller combines `n_repeats` of them."""

    name: str
    provider: str
    n_repeats: int

    async def ajudge(self, context: str, response: str, *, seed: int) -> Verdict: ...

    async def acompare_once(
        self, context: str, first: str, second: str, *, seed: int
    ) -> Verdict: ...

    def combine(self, verdicts: Sequence[Verdict]) -> JudgedScore: ...

    def score(self, context: str, response: str) -> JudgeScore: ...

    def score_batch(self, samples: Sequence[Mapping[str, Any]]) -> JudgeScores: ...

    def identity(self) -> dict[str, JSON]: ...

    async def aclose(self) -> None: ...


class BaseJudge:
    """The synchronous methods of a judge, based on `ajudge`."""

    name: str
    provider: str
    n_repeats: int = 1
    variance_method: VarianceMethod = "none"
    concurrency: int = 16
    seed: int = 0

    async def ajudge(self, context: str, response: str, *, seed: int) -> Verdict:
        raise AssertionError("a judge must define ajudge")

    async def acompare_once(self, context: str, first: str, second: str, *, seed: int) -> Verdict:
        """Preference for the first response, shown in this order: one attempt.

        Raises
        ------
        CJEError
            For judges that score only single responses.
        """
        raise CJEError(
            "this judge scores single responses and cannot compare two", value=self.provider,
            hint="use a model with a comparative template, or the offline judge",
        )  # fmt: skip

    def combine(self, verdicts: Sequence[Verdict]) -> JudgedScore:
        """Combine several verdicts on one response into a mean and a variance."""
        return combine_verdicts(verdicts, self.variance_method)

    def score(self, context: str, response: str) -> JudgeScore:
        """Judge one response."""
        return self.judge_all([(context, response)])[0].score

    def score_batch(self, samples: Sequence[Mapping[str, Any]]) -> JudgeScores:
        """Judge many: mappings with ``context`` and ``response``; results in order.

        Raises
        ------
        ModelCallError
            If a response cannot be judged after several attempts.
        """
        return JudgeScores.from_scores(j.score for j in self.judge_all(check_samples(samples)))

    def judge_all(self, pairs: Sequence[tuple[str, str]]) -> list[JudgedScore]:
        """Judge (context, response) pairs: `n_repeats` independent calls each."""
        calls = [
            partial(self._attempts, context, response, call_seed(self.seed, row, repeat))
            for row, (context, response) in enumerate(pairs)
            for repeat in range(self.n_repeats)
        ]
        verdicts = run_sync(gather_bounded(calls, self.concurrency))
        step = self.n_repeats
        return [self.combine(verdicts[at : at + step]) for at in range(0, len(verdicts), step)]

    async def _attempts(self, context: str, response: str, seed: int) -> Verdict:
        return await with_retries(partial(self.ajudge, context, response, seed=seed), seed=seed)

    async def aclose(self) -> None:
        """Close connections; does nothing unless a judge holds some."""


def check_samples(samples: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(context, response) of each sample; the error names sample and field."""
    pairs = []
    for row, sample in enumerate(samples):
        for field in ("context", "response"):
            value = sample.get(field) if isinstance(sample, Mapping) else None
            if not isinstance(value, str):
                raise CJEError(
                    f"a sample needs '{field}' as text", where=f"sample {row}", value=value,
                    hint="samples are dicts with 'context' and 'response'",
                )  # fmt: skip
        pairs.append((sample["context"], sample["response"]))
    return pairs


def function_name(function: Any) -> str:
    """``module:name`` of a user's function or callable object, for an identity."""
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{getattr(function, '__module__', '')}:{name}"
