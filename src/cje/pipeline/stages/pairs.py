"""The stages of a pairwise run: two policies' responses side by side, judged and labelled.

`preferred_first` and `preferred_second` are the judges' preferences for policy a when its response
is shown first and second. The order that was not asked is null, which records the order shown.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from cje.errors import CJEError
from cje.judges import Judge
from cje.models import call_seed
from cje.pipeline.chunks import Chunk, Row, RowStream, find_chunk, read_frame, write_frame
from cje.pipeline.config import FRESH_DRAWS_FROM, PipelineConfig
from cje.pipeline.hashing import fingerprint
from cje.pipeline.request import Answer, Outcome, Request
from cje.pipeline.stages.base import schema_after
from cje.pipeline.stages.judge import JudgeCalls
from cje.pipeline.store import CallStore

__all__ = ["PairJudgeStage", "PairOracleStage", "found_pairs", "made_pairs", "write_pairs"]

_A_FIRST, _B_FIRST = True, False


class _SideBySide(JudgeCalls):
    """Judges that see two responses; each call shows them in one order."""

    inputs: ClassVar[tuple[str, ...]] = (
        "prompt_id", "draw_idx", "context", "response", "other", "policy_a", "policy_b", "error",
    )  # fmt: skip

    async def ask(self, judge: Judge, texts: Sequence[str], seed: int) -> Answer:
        context, first, second = texts
        return await judge.acompare_once(context, first, second, seed=seed)

    @abstractmethod
    def orders(self, row: Row) -> tuple[bool, ...]:
        """The orders in which a row is shown: True means policy a first."""

    def _asked(self, row: Row) -> Iterator[Request]:
        a, b = (row["policy_a"], row["response"]), (row["policy_b"], row["other"])
        for judge, recipe in zip(self._judges, self._recipes, strict=True):
            for a_first in self.orders(row):
                (one, first), (two, second) = (a, b) if a_first else (b, a)
                texts = (row["context"], first, second)
                for repeat in range(judge.n_repeats):
                    key = recipe.keys.key(
                        *texts, row["prompt_id"], row["draw_idx"], one, two, repeat
                    )
                    yield Request(recipe, key, texts)

    def _preferences(self, row: Row, outcomes: Sequence[Outcome]) -> dict[bool, float] | Outcome:
        """Preference for policy a in each order, or the call that failed."""
        left = iter(outcomes)
        found: dict[bool, list[float]] = {}
        for judge in self._judges:
            for a_first in self.orders(row):
                scores = []
                for _ in range(judge.n_repeats):
                    outcome = next(left)
                    if outcome.answer is None:
                        return outcome
                    scores.append(float(outcome.answer["score"]))
                ahead = math.fsum(scores) / len(scores)
                found.setdefault(a_first, []).append(ahead if a_first else 1.0 - ahead)
        return {a_first: math.fsum(each) / len(each) for a_first, each in found.items()}


class PairJudgeStage(_SideBySide):
    """Every judge compares the two responses, in both orders or in one random order."""

    name = "pair_judge"

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        self._prepare(config.judge_places())

    def settings(self) -> Mapping[str, Any]:
        each = [{"judge": j.identity(), "n_repeats": j.n_repeats} for j in self._judges]
        order = self.config.pairwise.order
        seed = self.config.seed if order == "random" else None
        return {"judges": each, "order": order, "seed": seed}

    def orders(self, row: Row) -> tuple[bool, ...]:
        if self.config.pairwise.order == "both":
            return (_A_FIRST, _B_FIRST)
        names = (row["policy_a"], row["policy_b"])
        drawn = call_seed("order", self.config.seed, row["prompt_id"], row["draw_idx"], *names)
        return (drawn % 2 == 0,)

    def requests(self, row: Row) -> list[Request]:
        return [] if row["error"] is not None else list(self._asked(row))

    def finish(self, row: Row, outcomes: Sequence[Outcome]) -> Row:
        row = {**row, "judge_score": None, "preferred_first": None, "preferred_second": None}
        if not outcomes:
            return row
        found = self._preferences(row, outcomes)
        if isinstance(found, Outcome):
            return self.failed(row, found)
        return row | {
            "judge_score": math.fsum(found.values()) / len(found),
            "preferred_first": found.get(_A_FIRST),
            "preferred_second": found.get(_B_FIRST),
        }

    def expected_calls(self, n_rows: int) -> int:
        orders = 2 if self.config.pairwise.order == "both" else 1
        return n_rows * orders * sum(judge.n_repeats for judge in self._judges)


class PairOracleStage(_SideBySide):
    """A trusted model compares the drawn pairs, in both orders: a label without position bias."""

    name = "pair_oracle"
    inputs = (*_SideBySide.inputs, "oracle_selected")

    def __init__(self, config: PipelineConfig) -> None:
        oracle = config.oracle_config
        if oracle is None or oracle.judge is None:
            raise CJEError("there is no oracle_config with a judge", hint="leave the stage out")
        self.config, self._drawn = config, oracle
        self._prepare([("oracle_config.judge", oracle.judge)])

    def settings(self) -> Mapping[str, Any]:
        return {"oracle": self._judges[0].identity(), "n_repeats": self._judges[0].n_repeats}

    def orders(self, row: Row) -> tuple[bool, ...]:
        return (_A_FIRST, _B_FIRST)

    def requests(self, row: Row) -> list[Request]:
        if row["error"] is not None or not row["oracle_selected"]:
            return []
        return list(self._asked(row))

    def finish(self, row: Row, outcomes: Sequence[Outcome]) -> Row:
        row = {**row, "oracle_label": None}
        if not outcomes:
            return row
        found = self._preferences(row, outcomes)
        if isinstance(found, Outcome):
            return self.failed(row, found)
        return row | {"oracle_label": math.fsum(found.values()) / len(found)}

    def expected_calls(self, n_rows: int) -> int:
        share = round(n_rows * (self._drawn.fraction or 1.0))
        drawn = share if self._drawn.count is None else min(n_rows, self._drawn.count)
        return 2 * drawn * self._judges[0].n_repeats


def found_pairs(
    work_dir: Path, store: CallStore, pair: tuple[str, str], a: RowStream, b: RowStream
) -> RowStream | None:
    """The rows of a pair, if an earlier run wrote them."""
    names = [_name(pair, left, right) for left, right in zip(a.chunks, b.chunks, strict=True)]
    chunks = [find_chunk(work_dir, store, "pairs", name) for name in names]
    known = tuple(chunk for chunk in chunks if chunk is not None)
    return RowStream(work_dir, "pairs", known) if len(known) == len(chunks) else None


def made_pairs(pair: tuple[str, str], a: RowStream, b: RowStream) -> str:
    """Fingerprint of a pair's rows."""
    return fingerprint(
        "pairs", [_name(pair, left, right) for left, right in zip(a.chunks, b.chunks, strict=True)]
    )


def write_pairs(
    work_dir: Path, store: CallStore, pair: tuple[str, str], a: RowStream, b: RowStream
) -> RowStream:
    """One row per prompt and draw, with the responses of both policies."""
    chunks = []
    for left, right in zip(a.chunks, b.chunks, strict=True):
        one, two = (
            read_frame(work_dir, part.stage, part.name, sha256=part.sha256)
            for part in (left, right)
        )
        frame = _side_by_side(pair, one, two)
        chunks.append(write_frame(work_dir, store, "pairs", _name(pair, left, right), frame))
    return RowStream(work_dir, "pairs", tuple(chunks))


def _name(pair: tuple[str, str], left: Chunk, right: Chunk) -> str:
    return fingerprint("pairs", list(pair), left.sha256, right.sha256)


def _side_by_side(pair: tuple[str, str], a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    if a["prompt_id"].to_list() != b["prompt_id"].to_list():
        raise CJEError(
            f"{pair[0]} and {pair[1]} did not answer the same prompts",
            hint="delete the work folder's chunks and run the same command again",
        )
    both: Mapping[str, Callable[[], Any]] = {
        # Draws of policy k are numbered from k million, so draws are matched by rank.
        "draw_idx": lambda: a["draw_idx"] % FRESH_DRAWS_FROM,
        "other": lambda: b["response"],
        "policy_a": lambda: pl.Series([pair[0]] * len(a), dtype=pl.String),
        "policy_b": lambda: pl.Series([pair[1]] * len(a), dtype=pl.String),
        "error": lambda: a["error"].fill_null(b["error"]),
    }
    return pl.DataFrame(
        {
            name: (both[name]() if name in both else a[name]).cast(kind)
            for name, kind in schema_after("pairs").items()
        }
    )
