"""`NgramPolicy`: a policy in this process whose probabilities are known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cje.checks import check_seed
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray
from cje.models import JSON, BadOutputError, Usage
from cje.policies.answers import Ending, Generation, LogProb
from cje.policies.ngram_model import EOS_ID, UNK_ID, NgramModel

__all__ = ["NgramPolicy", "read_corpus"]


class NgramPolicy:
    """A word n-gram model as a policy: sampled and scored exactly, EOS included.

    A response ends with EOS or is cut at `max_tokens`; a cut response has no EOS term. The
    probabilities of all possible responses therefore sum to one (`distribution`).

    Parameters
    ----------
    model : NgramModel, optional
        Default: order 3 on the embedded corpus.
    temperature, top_p : float
        The sampling distribution, which `log_prob` scores.

    Examples
    --------
    >>> policy = NgramPolicy(NgramModel(["yes .", "no ."], order=2), max_tokens=3)
    >>> texts, log_probs = policy.distribution("Well?")
    >>> round(float(np.exp(log_probs).sum()), 12)
    1.0
    """

    provider = "ngram"

    def __init__(
        self,
        model: NgramModel | None = None,
        *,
        name: str = "ngram",
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 16,
    ) -> None:
        if not temperature >= 0.0 or not 0.0 < top_p <= 1.0 or max_tokens < 1:
            raise CJEError(
                "temperature must be >= 0, top_p in (0, 1], max_tokens >= 1",
                value=(temperature, top_p, max_tokens),
            )
        self.model = NgramModel() if model is None else model
        self.name, self.temperature, self.top_p = name, float(temperature), float(top_p)
        self.max_tokens = max_tokens

    # one response -------------------------------------------------------------------------------

    async def agenerate(self, context: str, *, seed: int) -> Generation:
        """Sample one response."""
        return self.generate(context, seed=seed)

    async def alog_prob(
        self,
        context: str,
        response: str,
        *,
        token_ids: Sequence[int] | None = None,
        complete: bool = True,
        ending: Ending | None = None,
        end_text: str | None = None,
    ) -> LogProb:
        """Exact log p(response | context); only an ending by EOS is part of the event."""
        complete = complete if ending is None else ending == "eos"
        ids = self.model.encode(response) if token_ids is None else list(token_ids)
        return self._score(context, ids, response, complete)

    def generate(self, context: str, *, seed: int) -> Generation:
        """Sample one response."""
        rng = check_seed(seed)
        prompt = self.model.encode(context)
        ids: list[int] = []
        logs: list[float] = []
        ended = False
        while len(ids) < self.max_tokens and not ended:
            log_p = self._next(self.model.history(prompt + ids))
            token = _draw(log_p, rng.random())
            logs.append(float(log_p[token]))
            ended = token == EOS_ID
            if not ended:
                ids.append(token)
        return Generation(
            text=self.model.decode(ids),
            finish_reason="stop" if ended else "length",
            token_ids=tuple(ids),
            logprob=min(math.fsum(logs), 0.0),
            n_tokens=len(ids) + ended,
            logprob_has_eos=ended,
            ending="eos" if ended else "open",
            usage=Usage(len(prompt), len(ids) + ended),
        )

    def log_prob(self, context: str, response: str) -> float:
        """log p(response | context); a response of `max_tokens` tokens is cut and has no EOS."""
        return self._score(context, self.model.encode(response), response, True).value

    def _score(self, context: str, ids: list[int], response: str, complete: bool) -> LogProb:
        if UNK_ID in ids or any(not 0 <= i < len(self.model.vocabulary) for i in ids):
            raise BadOutputError(
                f"policy {self.name}: the response has words this model cannot produce",
                reason="out_of_vocabulary", raw=response,
            )  # fmt: skip
        if len(ids) > self.max_tokens:
            raise BadOutputError(
                f"policy {self.name}: the response has {len(ids)} tokens and this policy never "
                f"writes more than {self.max_tokens}",
                reason="too_long", raw=response,
            )  # fmt: skip
        prompt = self.model.encode(context)
        # At max_tokens the policy stops without EOS, for responses of any origin.
        scored = [*ids, EOS_ID] if complete and len(ids) < self.max_tokens else ids
        total = math.fsum(
            self._next(self.model.history(prompt + scored[:at]))[token]
            for at, token in enumerate(scored)
        )
        if not math.isfinite(total):
            raise BadOutputError(
                f"policy {self.name} gives the response probability zero (top_p or temperature "
                "cuts one of its words)",
                reason="zero_probability", raw=response,
            )  # fmt: skip
        return LogProb(min(total, 0.0), len(scored), "exact", Usage(len(prompt) + len(scored), 0))

    def _next(self, history: tuple[int, ...]) -> FloatArray:
        return self.model.next_log_probs(history, self.temperature, self.top_p)

    # the whole distribution ---------------------------------------------------------------------

    def distribution(
        self, context: str, *, max_responses: int = 2_000_000
    ) -> tuple[list[str], FloatArray]:
        """Every possible response and its log-prob, by enumeration; for short `max_tokens`."""
        prompt = self.model.encode(context)
        open_ids: list[tuple[int, ...]] = [()]
        open_logs = [0.0]
        texts: list[str] = []
        logs: list[float] = []
        for _ in range(self.max_tokens):
            grown_ids: list[tuple[int, ...]] = []
            grown_logs: list[float] = []
            for ids, log_p in zip(open_ids, open_logs, strict=True):
                following = self._next(self.model.history([*prompt, *ids]))
                for token in np.flatnonzero(np.isfinite(following)).tolist():
                    total = log_p + float(following[token])
                    if token == EOS_ID:
                        texts.append(self.model.decode(ids))
                        logs.append(total)
                    else:
                        grown_ids.append((*ids, token))
                        grown_logs.append(total)
            if len(grown_ids) + len(texts) > max_responses:
                raise CJEError(
                    "too many possible responses to enumerate", value=len(grown_ids) + len(texts),
                    hint="lower max_tokens, or use monte_carlo_value",
                )  # fmt: skip
            open_ids, open_logs = grown_ids, grown_logs
        texts += [self.model.decode(ids) for ids in open_ids]
        return texts, np.array(logs + open_logs)

    def sample(self, context: str, n: int, *, seed: int) -> list[str]:
        """`n` independent responses, drawn together; rows with the same history share a table."""
        rng = check_seed(seed)
        prompt = self.model.encode(context)
        tokens = np.full((n, self.max_tokens), EOS_ID, dtype=np.int64)
        alive = np.arange(n)
        for step in range(self.max_tokens):
            uniforms = rng.random(len(alive))
            for history, rows in self._groups(tokens[:, :step], alive):
                mass = np.cumsum(np.exp(self._next(self.model.history(prompt + history))))
                drawn = np.searchsorted(mass, uniforms[rows] * mass[-1], side="right")
                tokens[alive[rows], step] = np.minimum(drawn, len(mass) - 1)
            alive = alive[tokens[alive, step] != EOS_ID]
            if not len(alive):
                break
        distinct, inverse = np.unique(tokens, axis=0, return_inverse=True)
        texts = [self.model.decode(row[: _length(row)].tolist()) for row in distinct]
        return [texts[i] for i in inverse.reshape(-1).tolist()]

    def _groups(
        self, tokens: NDArray[np.int64], alive: NDArray[np.int64]
    ) -> Iterator[tuple[list[int], NDArray[np.int64]]]:
        """Rows with the same history: the history and their positions."""
        recent = tokens[:, max(0, tokens.shape[1] - self.model.order + 1) :]
        code = np.zeros(len(alive), dtype=np.int64)
        for column in range(recent.shape[1]):
            pair = code * len(self.model.vocabulary) + recent[alive, column]
            code = np.unique(pair, return_inverse=True)[1].reshape(-1)  # keeps the codes small
        order = np.argsort(code, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            yield recent[alive[rows[0]]].tolist(), rows

    def exact_value(self, contexts: Sequence[str], reward: Callable[[str, str], float]) -> float:
        """The policy's true value: mean over contexts of sum over responses of p times reward."""
        values = []
        for context in contexts:
            texts, log_probs = self.distribution(context)
            rewards = np.array([reward(context, text) for text in texts])
            values.append(float(np.exp(log_probs) @ rewards))
        return math.fsum(values) / len(values)

    def monte_carlo_value(
        self,
        contexts: Sequence[str],
        reward: Callable[[str, str], float],
        *,
        draws: int,
        seed: int,
    ) -> tuple[float, float]:
        """The true value by brute force, and its Monte Carlo standard error."""
        means, variances = [], []
        for number, context in enumerate(contexts):
            texts = self.sample(context, draws, seed=seed + number)
            memo = {text: reward(context, text) for text in set(texts)}
            rewards = np.array([memo[text] for text in texts])
            means.append(float(rewards.mean()))
            variances.append(float(rewards.var()) / draws)
        count = len(means)
        return math.fsum(means) / count, math.sqrt(math.fsum(variances)) / count

    def identity(self) -> dict[str, JSON]:
        return {
            "provider": self.provider, "temperature": self.temperature, "top_p": self.top_p,
            "max_tokens": self.max_tokens, **self.model.identity(),
        }  # fmt: skip

    async def aclose(self) -> None:
        """Nothing to close."""


def _draw(log_p: FloatArray, uniform: float) -> int:
    mass = np.cumsum(np.exp(log_p))
    # Scaling by the total guards against a sum a rounding error below one.
    return min(int(np.searchsorted(mass, uniform * mass[-1], side="right")), len(log_p) - 1)


def _length(row: NDArray[np.int64]) -> int:
    ends = np.flatnonzero(row == EOS_ID)
    return int(ends[0]) if len(ends) else len(row)


def read_corpus(path: str | Path) -> tuple[str, ...]:
    """Lines of a training text (``question<TAB>answer``, or plain lines)."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CJEError("cannot read the corpus", where=str(file), hint=str(error)) from error
    return tuple(line for line in text.splitlines() if line.strip())
