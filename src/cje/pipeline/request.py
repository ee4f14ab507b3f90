"""Requests of a stage to a model, and their outcomes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cje.pipeline.budget import FREE, Price
from cje.pipeline.hashing import CallKeys

__all__ = ["Answer", "Outcome", "Passes", "Recipe", "Request"]


class Answer(Protocol):
    """The result of a judge or policy, as JSON."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Passes:
    """Calls of models in this process that are answered together, in planned passes.

    Attributes
    ----------
    make : callable
        (request, seed) -> the call, as `answer` takes it.
    answer : callable
        Calls -> answers with their positions, as passes finish. The function is the same for all
        recipes, and may block: it runs in a thread.
    """

    make: Callable[[Request, int], Any]
    answer: Callable[[Sequence[Any]], Iterator[list[tuple[int, Any]]]]


@dataclass(frozen=True)
class Recipe:
    """The common part of all calls of one stage to one model."""

    keys: CallKeys
    provider: str
    call: Callable[[Request, int], Awaitable[Answer]]  # (request, seed) -> answer; one attempt
    price: Price = FREE
    max_completion_tokens: int = 0
    inline: bool = False  # a function of this process: it never waits, so it needs no task
    place: str = ""  # the section of the configuration that describes the model
    passes: Passes | None = None  # a model of this process: its calls are answered together

    def cost_bound(self, request: Request) -> float:
        """The most that one attempt can cost: no token is shorter than one byte."""
        price = self.price
        if not (price.prompt_per_million or price.completion_per_million):
            return 0.0
        bytes_in = len(self.keys.identity.encode("utf-8", "surrogatepass")) + sum(
            len(part.encode("utf-8", "surrogatepass")) for part in request.texts
        )
        return price.of(bytes_in, self.max_completion_tokens)


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a stage: its recipe, its store key, and its own arguments."""

    recipe: Recipe
    key: bytes
    texts: tuple[str, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer as JSON, or the reason why there is none."""

    answer: dict[str, Any] | None
    reason: str | None = None
    message: str = ""
