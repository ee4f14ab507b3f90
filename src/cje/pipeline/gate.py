"""Concurrent calls per provider: adaptive concurrency, pauses, and a circuit breaker.

Concurrency follows the additive-increase, multiplicative-decrease rule that keeps TCP fair: a
refusal (429) halves it, once for all the calls that were in flight together, and every round of
successes adds one, up to the configured limit (Chiu and Jain 1989, "Analysis of the increase and
decrease algorithms for congestion avoidance in computer networks").
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from cje.errors import CJEError

__all__ = ["GateSettings", "ProviderDownError", "ProviderGate"]

PROBE = -1  # ticket of the single call that tests whether a failed provider is back


class ProviderDownError(CJEError):
    """A provider failed too often in a row; the run stops and keeps all finished work."""


@dataclass(frozen=True)
class GateSettings:
    """Limits of one provider (see `cje.pipeline.config.LimitsConfig` for what each means)."""

    max_concurrency: int = 16
    requests_per_minute: float | None = None
    breaker_failures: int = 20
    breaker_pause: float = 5.0
    breaker_trips: int = 5


class ProviderGate:
    """Admits calls to one provider.

    `acquire` waits for a place and returns a ticket; exactly one of `succeeded`, `answered`,
    `refused` (rate limit), `failed` and `left` (no verdict) then releases the place.
    """

    def __init__(self, provider: str, settings: GateSettings) -> None:
        self.provider = provider
        self.settings = settings
        self.limit = float(settings.max_concurrency)
        self.in_flight = 0
        self.successes = 0
        self.closed: BaseException | None = None
        self._round = 0  # a new round starts at each decrease
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._paused_until = 0.0
        self._wake: asyncio.TimerHandle | None = None
        self._next_start = 0.0
        self._failures_in_a_row = 0
        self._trips = 0

    async def acquire(self) -> int:
        """Wait for a place and return a ticket: the round of the call, or `PROBE`."""
        while True:
            if self.closed is not None:
                raise self.closed
            if self._has_place():
                break
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        self.in_flight += 1
        ticket = PROBE if self._trips else self._round
        if self.settings.requests_per_minute is not None:
            await self._take_turn(60.0 / self.settings.requests_per_minute)
        return ticket

    def succeeded(self) -> None:
        """The call was answered."""
        self.successes += 1
        self.limit = min(self.settings.max_concurrency, self.limit + 1.0 / self.limit)
        self.answered()

    def answered(self) -> None:
        """The provider answered, but without a usable answer: this shows only that it is up."""
        self._failures_in_a_row = 0
        self._trips = 0
        self.left()

    def refused(self, ticket: int, retry_after: float | None) -> None:
        """The provider answered 429: slow down, and wait as long as it asks for."""
        if ticket == self._round:
            self.limit = max(1.0, self.limit / 2.0)
            self._round += 1
        if retry_after:
            self._pause(retry_after)
        self.left()

    def failed(self, ticket: int) -> bool:
        """The call broke (5xx, time-out, reset). Return whether it counts against the call.

        Failures while the breaker is open concern the provider and not the call, so they do not
        use up the call's attempts.
        """
        counts = self._trips == 0
        self._failures_in_a_row += 1
        too_many = self._failures_in_a_row >= self.settings.breaker_failures
        if ticket == PROBE or (counts and too_many):
            self._trip()
        self.left()
        return counts

    def close(self, error: BaseException) -> None:
        """Admit no more calls; those that wait end with `error`."""
        self.closed = self.closed or error
        self._wake_all()

    def left(self) -> None:
        """Release the place."""
        self.in_flight -= 1
        # One place is free; the limit may also have grown by one.
        for _ in range(2):
            while self._waiting and self._waiting[0].done():
                self._waiting.popleft()
            if self._waiting:
                self._waiting.popleft().set_result(None)

    def waiting(self) -> str:
        """Why no call is sent, as text; empty if calls are sent."""
        left = self._paused_until - asyncio.get_running_loop().time()
        if left <= 0.0:
            return f"{self.provider} is tried with one call" if self._trips else ""
        why = f"failed {self._failures_in_a_row} calls in a row" if self._trips else "asked to wait"
        return f"{self.provider} {why}, next call in {left:.0f} s"

    # -- inside --------------------------------------------------------------------------------

    def _has_place(self) -> bool:
        if self._paused_until and asyncio.get_running_loop().time() < self._paused_until:
            return False
        # An open breaker lets one probe through at a time.
        return self.in_flight < (1 if self._trips else int(self.limit))

    def _trip(self) -> None:
        self._trips += 1
        if self._trips > self.settings.breaker_trips:
            self.close(
                ProviderDownError(
                    f"provider '{self.provider}' failed {self._failures_in_a_row} calls in a row "
                    f"and stayed down through {self.settings.breaker_trips} pauses",
                    hint="check the server, then run the same command again: "
                    "finished calls are kept",
                )
            )
        else:
            self._pause(self.settings.breaker_pause * 2.0 ** (self._trips - 1))

    def _pause(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if until <= self._paused_until:
            return
        self._paused_until = until
        if self._wake is not None:
            self._wake.cancel()
        self._wake = loop.call_at(until, self._resume)

    def _resume(self) -> None:
        # The timer may fire slightly early: the pause ends with the timer, not by the clock.
        self._paused_until = 0.0
        self._wake_all()

    async def _take_turn(self, spacing: float) -> None:
        now = asyncio.get_running_loop().time()
        start = max(now, self._next_start)
        self._next_start = start + spacing
        if start > now:
            await asyncio.sleep(start - now)

    def _wake_all(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
