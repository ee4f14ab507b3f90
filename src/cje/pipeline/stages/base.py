"""The interface of a stage: the calls a row needs, and the row once they are answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from cje.data.surrogates import storable_text
from cje.pipeline.budget import Price
from cje.pipeline.chunks import Chunk, Row
from cje.pipeline.config import PipelineConfig
from cje.pipeline.hashing import CallKeys, fingerprint
from cje.pipeline.request import Answer, Outcome, Passes, Recipe, Request

__all__ = ["CallStage", "chunk_name", "schema_after"]

# Columns that each stage adds, in order. Types are names in polars, so that this table is data.
_COLUMNS: dict[str, dict[str, str]] = {
    "dataset": {
        "row_id": "Int64",
        "prompt_id": "String",
        "draw_idx": "Int64",
        "context": "String",
        "response": "String",
        "logp_given": "Float64",
        "error": "String",
    },
    "logging_policy": {
        "logp_generated": "Float64",
        "generated_eos": "Boolean",
        "n_tokens": "Int64",
        "token_ids": "List[Int64]",
        "finish_reason": "String",
        "complete": "Boolean",
        "ending": "String",
        "end_text": "String",
    },
    "judge": {
        "judge_score": "Float64",
        "judge_variance": "Float64",
        "judge_scores": "List[Float64]",
    },
    "oracle_slice": {"oracle_selected": "Boolean", "label_propensity": "Float64"},
    "oracle": {"oracle_label": "Float64"},
    "target_policy": {
        "logp_logging": "Float64",
        "logp_target_all": "List[Float64]",
        "logp_replicate": "Float64",
        "inside_token": "Int64",
        "logp_end": "Float64",
    },
    "calibration": {"reward": "Float64"},
}
ORDER = tuple(_COLUMNS)
# Stages of a pairwise run, after every policy has written its responses.
_PAIR_COLUMNS: dict[str, dict[str, str]] = {
    "pairs": {
        "row_id": "Int64",
        "prompt_id": "String",
        "draw_idx": "Int64",
        "context": "String",
        "response": "String",
        "other": "String",
        "policy_a": "String",
        "policy_b": "String",
        "error": "String",
    },
    "pair_judge": {
        "judge_score": "Float64",
        "preferred_first": "Float64",
        "preferred_second": "Float64",
    },
    "pair_slice": {"oracle_selected": "Boolean", "label_propensity": "Float64"},
    "pair_oracle": {"oracle_label": "Float64"},
}
# Providers that are functions of this process: no server, no key, no waiting, no retry.
IN_PROCESS = frozenset({"ngram", "offline", "deterministic", "callable", "csv"})


def schema_after(stage: str) -> dict[str, Any]:
    """Column types of a row after `stage` (without an oracle its columns are null)."""
    import polars as pl

    def resolve(name: str) -> Any:
        if name.startswith("List["):
            return pl.List(getattr(pl, name[5:-1]))
        return getattr(pl, name)

    chain = _PAIR_COLUMNS if stage in _PAIR_COLUMNS else _COLUMNS
    order = tuple(chain)
    done = order[: order.index(stage) + 1]
    return {column: resolve(kind) for name in done for column, kind in chain[name].items()}


def chunk_name(stage_fingerprint: str, source: Chunk) -> str:
    """Name of the chunk that a stage makes from `source`."""
    return fingerprint(stage_fingerprint, source.sha256)


class CallStage(ABC):
    """A stage that makes model calls. It does not handle stores, retries or machines."""

    name: ClassVar[str]
    config: PipelineConfig  # arguments of the stage, from which another machine rebuilds it
    #: The columns that `requests` reads; planning loads no others.
    inputs: ClassVar[tuple[str, ...]]
    version: ClassVar[int] = 1  # increased when the same inputs would give other rows

    @property
    @abstractmethod
    def recipes(self) -> Sequence[Recipe]:
        """The kinds of calls that this stage makes."""

    @abstractmethod
    def settings(self) -> Mapping[str, Any]:
        """All settings that determine this stage's rows."""

    @abstractmethod
    def requests(self, row: Row) -> list[Request]:
        """The calls that `row` needs; none for an error row."""

    @abstractmethod
    def finish(self, row: Row, outcomes: Sequence[Outcome]) -> Row:
        """`row` with this stage's columns added; a failed call becomes `error`, never a number."""

    @abstractmethod
    def expected_calls(self, n_rows: int) -> int:
        """Number of calls that `n_rows` rows will need."""

    def make_recipe(
        self,
        identity: Mapping[str, Any],
        provider: str,
        call: Callable[[Request, int], Awaitable[Answer]],
        *,
        model: str | None,
        max_tokens: int,
        place: str,
        inline: bool | None = None,
        passes: Passes | None = None,
    ) -> Recipe:
        """One kind of call of this stage, with the price of its model.

        `place` is the section of the configuration that describes the model.

        It is made in place (`inline`) where the provider is a function of this process, unless
        the stage knows better, and together with others where the model has `passes`.
        """
        price = self.config.price_of(model)
        return Recipe(
            CallKeys(self.name, identity),
            provider,
            call,
            Price(price.prompt_per_million, price.completion_per_million),
            max_tokens,
            provider in IN_PROCESS if inline is None else inline,
            self.config.line_of(place),
            passes=passes,
        )

    async def close(self) -> None:  # noqa: B027 - a stage without connections has nothing to close
        """Close connections."""

    @property
    def fingerprint(self) -> str:
        """A digest that changes exactly when the rows could change."""
        return fingerprint(self.name, self.version, dict(self.settings()))

    def failed(self, row: Row, outcome: Outcome) -> Row:
        """`row` as an error row, with the stage that gave up and the reason."""
        said = storable_text(f"{self.name}: {outcome.reason}: {outcome.message}")
        return {**row, "error": said[:500]}
