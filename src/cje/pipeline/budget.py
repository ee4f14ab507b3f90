"""Caps on calls and money that hold even with many calls in flight."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from cje.errors import CJEError

__all__ = ["FREE", "Budget", "BudgetError", "Price"]

_RAISE_IT = "raise it and run the same command again: finished calls are kept"


class BudgetError(CJEError):
    """The configured budget is used up; finished calls are kept."""


@dataclass(frozen=True)
class Price:
    """Price per million tokens, in the currency of the budget."""

    prompt_per_million: float = 0.0
    completion_per_million: float = 0.0

    def of(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Price of one call (of an average call if the tokens are means)."""
        return (
            prompt_tokens * self.prompt_per_million
            + completion_tokens * self.completion_per_million
        ) / 1e6


FREE = Price()


class Budget:
    """Counts attempts and money; refuses an attempt that could exceed a cap.

    Each attempt reserves the most it can cost before it starts, and settles its actual cost
    afterwards. An attempt that fits only after others have settled waits for them.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_cost: float | None = None,
        *,
        calls: int = 0,
        cost: float = 0.0,
    ) -> None:
        self.max_calls, self.max_cost = max_calls, max_cost
        self.calls, self.cost = calls, cost
        self._reserved = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._closed: Exception | None = None

    def close(self, error: Exception) -> None:
        """Admit no more attempts; those that wait for budget end with `error`."""
        self._closed = self._closed or error
        self._wake()

    async def reserve(self, bound: float) -> None:
        """Reserve one attempt that costs at most `bound`, or raise `BudgetError`."""
        if self._closed is not None:
            raise self._closed
        if self.max_calls is not None and self.calls >= self.max_calls:
            raise BudgetError(
                f"the budget of {self.max_calls} calls is used up",
                where="budget.max_calls",
                hint=_RAISE_IT,
            )
        if self.max_cost is not None:
            while self.cost + self._reserved + bound > self.max_cost:
                if not self._reserved:
                    raise BudgetError(
                        f"the next call could cost {bound:.6f}, and {self.cost:.6f} of the budget "
                        f"of {self.max_cost:g} is spent",
                        where="budget.max_cost",
                        hint=_RAISE_IT,
                    )
                waiter = asyncio.get_running_loop().create_future()
                self._waiting.append(waiter)
                await waiter
                if self._closed is not None:
                    raise self._closed
            self._reserved += bound
        self.calls += 1

    def settle(self, bound: float, cost: float, requests: int = 1) -> None:
        """Release the reservation and book the cost of the attempt.

        One attempt may be several requests to the server: a first score is preceded by a probe.
        """
        self.cost += cost
        self.calls += requests - 1
        if self.max_cost is not None:
            # Exactly zero when nothing is in flight: sums of floats would leave rounding errors.
            self._reserved = max(0.0, self._reserved - bound)
            if self._reserved < 1e-12:
                self._reserved = 0.0
            self._wake()

    def release(self, bound: float) -> None:
        """Release an attempt that was never made."""
        self.settle(bound, 0.0, requests=0)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)
