"""`MultiTargetSampler`: the log-probs of logged responses under several policies, in one pass."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cje.errors import CJEError, require_extra
from cje.kernels.arrays import FloatArray
from cje.models import JSON, ModelCallError, gather_bounded, run_sync, with_retries
from cje.policies.answers import Ending, Generation, LogProb
from cje.policies.config import PolicyConfig
from cje.policies.ngram import NgramPolicy, read_corpus
from cje.policies.ngram_model import NgramModel

__all__ = ["MultiTargetSampler", "Planned", "PolicyRunner", "make_multi_sampler", "make_runner"]


class PolicyRunner(Protocol):
    """A policy that samples responses and scores given ones. One attempt per call."""

    name: str
    provider: str

    async def agenerate(self, context: str, *, seed: int) -> Generation: ...

    async def alog_prob(
        self,
        context: str,
        response: str,
        *,
        token_ids: Sequence[int] | None = None,
        complete: bool = True,
        ending: Ending | None = None,
        end_text: str | None = None,
    ) -> LogProb: ...

    def log_prob(self, context: str, response: str) -> float: ...

    def identity(self) -> dict[str, JSON]: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class Planned(Protocol):
    """A runner that answers calls together, in planned passes of its model."""

    def score_call(self, context: str, response: str, **more: Any) -> Any: ...

    def generate_call(self, context: str, *, seed: int) -> Any: ...

    def answer_calls(self, calls: Sequence[Any]) -> Iterator[list[tuple[int, Any]]]: ...


class MultiTargetSampler:
    """K policies that score the same logged responses.

    Parameters
    ----------
    runners : sequence of PolicyRunner
        One per target policy, with distinct names.
    concurrency : int
        Rows in flight at a time; the K requests of a row are sent together.

    Examples
    --------
    >>> policies = [NgramPolicy(name="a"), NgramPolicy(name="b", temperature=2.0)]
    >>> sampler = MultiTargetSampler(policies)
    >>> sampler.K, sampler.logp_matrix(["Can you help me?"], [" I do not know."]).shape
    (2, (1, 2))
    """

    def __init__(self, runners: Sequence[PolicyRunner], *, concurrency: int = 16) -> None:
        if not runners:
            raise CJEError("a MultiTargetSampler needs at least one policy")
        self.runners = tuple(runners)
        self.names = tuple(runner.name for runner in self.runners)
        if len(set(self.names)) != len(self.names):
            raise CJEError("two target policies have the same name", value=self.names)
        if concurrency < 1:
            raise CJEError("concurrency must be at least 1", value=concurrency)
        self.concurrency = concurrency
        self.K = len(self.runners)

    async def alogp_many(
        self,
        context: str,
        response: str,
        *,
        token_ids: Sequence[int] | None = None,
        complete: bool = True,
    ) -> list[LogProb | ModelCallError]:
        """All K log-probs of one response, requested together; a failure takes its place."""
        answers = await asyncio.gather(
            *(
                runner.alog_prob(context, response, token_ids=token_ids, complete=complete)
                for runner in self.runners
            ),
            return_exceptions=True,
        )
        checked: list[LogProb | ModelCallError] = []
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, ModelCallError):
                raise answer
            checked.append(answer)
        return checked

    def logp_many(self, context: str, response: str) -> list[float]:
        """log pi_k(response | context) for every policy k."""
        row: list[float] = self.logp_matrix([context], [response])[0].tolist()
        return row

    def logp_matrix(self, contexts: Sequence[str], responses: Sequence[str]) -> FloatArray:
        """The (n, K) matrix of log pi_k(response_i | context_i).

        Raises
        ------
        ModelCallError
            At the first log-prob that cannot be computed. There is no default value.
        """
        _check_texts("contexts", contexts)
        _check_texts("responses", responses)
        if len(contexts) != len(responses):
            raise CJEError(
                f"{len(contexts)} contexts but {len(responses)} responses",
                hint="teacher forcing scores the logged responses: give one response per context",
            )
        matrix = np.full((len(contexts), self.K), np.nan)
        self._fill_planned(matrix, contexts, responses)
        others = [k for k, runner in enumerate(self.runners) if not isinstance(runner, Planned)]
        if others:
            calls = [
                partial(self._row, i, context, response, [self.runners[k] for k in others])
                for i, (context, response) in enumerate(zip(contexts, responses, strict=True))
            ]
            rows = run_sync(gather_bounded(calls, self.concurrency))
            matrix[:, others] = np.array(rows, dtype=np.float64).reshape(len(calls), len(others))
        return matrix

    def _fill_planned(
        self, matrix: FloatArray, contexts: Sequence[str], responses: Sequence[str]
    ) -> None:
        """The columns of models in this process: one planned pass per model for all rows."""
        runners = [(k, r) for k, r in enumerate(self.runners) if isinstance(r, Planned)]
        places, calls = [], []
        for k, runner in runners:
            for row, (context, response) in enumerate(zip(contexts, responses, strict=True)):
                places.append((row, k))
                calls.append(runner.score_call(context, response))
        if not calls:
            return
        for part in runners[0][1].answer_calls(calls):
            for index, answer in part:
                if isinstance(answer, ModelCallError):
                    raise answer
                matrix[places[index]] = answer.value

    def log_prob(self, contexts: Sequence[str], responses: Sequence[str]) -> FloatArray:
        """The founding document's name for `logp_matrix`; it scores given responses only."""
        return self.logp_matrix(contexts, responses)

    async def _row(
        self, index: int, context: str, response: str, runners: Sequence[PolicyRunner]
    ) -> list[float]:
        scored = await asyncio.gather(
            *(
                with_retries(partial(runner.alog_prob, context, response), seed=index)
                for runner in runners
            )
        )
        return [answer.value for answer in scored]

    async def aclose(self) -> None:
        for runner in self.runners:
            await runner.aclose()


def _check_texts(name: str, texts: Sequence[str]) -> None:
    if isinstance(texts, str):  # its characters would count as rows
        raise CJEError(f"{name} must be a list of texts", value=texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise CJEError(f"{name} must hold texts", where=f"row {row}", value=text)


def make_runner(config: PolicyConfig | Mapping[str, Any]) -> PolicyRunner:
    """The runner that a config describes.

    `NgramPolicy` or `cje.policies.local.LocalPolicy` in this process, or `APIPolicyRunner`.
    """
    parsed = PolicyConfig.parse(config)
    if parsed.is_local:
        require_extra("torch", "local", "provider: transformers")
        from cje.policies.local.runner import LocalPolicy

        return LocalPolicy(parsed)
    if parsed.provider != "ngram":
        from cje.policies.api import APIPolicyRunner

        return APIPolicyRunner(parsed)
    model = NgramModel(
        None if parsed.corpus is None else read_corpus(parsed.corpus),
        order=parsed.order,
        smoothing=parsed.smoothing,
        boost=parsed.boost,
    )
    return NgramPolicy(
        model,
        name=parsed.name,
        temperature=parsed.temperature,
        top_p=parsed.top_p,
        max_tokens=parsed.max_tokens,
    )


def make_multi_sampler(
    configs: Sequence[PolicyConfig | Mapping[str, Any]], *, concurrency: int = 16
) -> MultiTargetSampler:
    """One sampler for several policy configs, which must agree on EOS and BOS.

    A ratio of probabilities is meaningful only if both are of the same event.
    """
    runners = [make_runner(config) for config in configs]
    # A runner's configuration has its tokeniser's value for `auto`.
    parsed = [
        getattr(runner, "config", PolicyConfig.parse(config))
        for runner, config in zip(runners, configs, strict=True)
    ]
    for field in ("eos_text", "bos"):
        values = {config.name: getattr(config, field) for config in parsed}
        if len(set(values.values())) > 1:
            raise CJEError(
                f"the policies disagree on {field.removesuffix('_text')}: {values}",
                hint="set the same eos and bos for the logging policy and all targets",
            )
    return MultiTargetSampler(runners, concurrency=concurrency)
