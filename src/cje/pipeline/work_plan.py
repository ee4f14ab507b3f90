"""The remaining work of a run: planned calls minus recorded calls.

A stage with complete input is counted exactly, by looking up the keys of its rows in the store. A
stage whose input does not exist yet is counted from the number of rows, and marked as estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from cje.pipeline.chunks import Chunk, RowStream, find_chunk
from cje.pipeline.config import PipelineConfig
from cje.pipeline.stages.base import CallStage, chunk_name
from cje.pipeline.stages.calls import make_call_stage
from cje.pipeline.stages.dataset import count_rows, dataset_chunks, dataset_fingerprint, read_rows
from cje.pipeline.stages.oracle import slice_fingerprint
from cje.pipeline.stages.pairs import found_pairs
from cje.pipeline.store import CallStore, RecipeTotals
from cje.pipeline.trials import trials

__all__ = ["RunPlan", "StagePlan", "make_plan"]

CHARACTERS_PER_TOKEN = 4.0  # typical for English; replaced by measured means when available
TEMPLATE_TOKENS = 150.0
_SLICES = {"oracle": "oracle_slice", "pair_oracle": "pair_slice"}  # the labels are drawn by these


@dataclass(frozen=True)
class StagePlan:
    """The calls of one stage."""

    stage: str
    calls: int
    done: int
    exact: bool
    prompt_tokens: float  # of the calls still to make
    completion_tokens: float
    cost: float

    @property
    def todo(self) -> int:
        """Calls still to make."""
        return self.calls - self.done


@dataclass(frozen=True)
class RunPlan:
    """The calls of a whole run."""

    rows: int
    stages: tuple[StagePlan, ...]

    @property
    def todo(self) -> int:
        """Calls still to make."""
        return sum(stage.todo for stage in self.stages)

    @property
    def cost(self) -> float:
        """Expected cost of the calls still to make."""
        return sum(stage.cost for stage in self.stages)

    def text(self) -> str:
        """A table in plain text."""
        lines = [
            f"{self.rows} rows",
            f"{'stage':<15}{'calls':>10}{'done':>10}{'to do':>10}{'tokens in':>13}"
            f"{'tokens out':>13}{'cost':>12}",
        ]
        for s in self.stages:
            about = "" if s.exact else "  (estimated)"
            lines.append(
                f"{s.stage:<15}{s.calls:>10}{s.done:>10}{s.todo:>10}{s.prompt_tokens:>13.0f}"
                f"{s.completion_tokens:>13.0f}{s.cost:>12.4f}{about}"
            )
        lines.append(f"{'total':<15}{'':>20}{self.todo:>10}{'':>26}{self.cost:>12.4f}")
        return "\n".join(lines)


def make_plan(config: PipelineConfig, store: CallStore | None = None) -> RunPlan:
    """Count planned and finished calls of a run, without writing or calling a model."""
    return _Planner(config, store).plan()


class _Planner:
    def __init__(self, config: PipelineConfig, store: CallStore | None) -> None:
        self._config, self._store = config, store
        self._work_dir = Path(config.work_dir)
        self._totals = [] if store is None else store.totals()

    def plan(self) -> RunPlan:
        if self._config.is_pairwise:
            plan = self._plan_pairwise()
        else:
            plan = self._plan_direct() if self._config.is_direct else self._plan_logged()
        return replace(plan, stages=(*self._checks(), *plan.stages))

    def _checks(self) -> Iterator[StagePlan]:
        """The trial calls: one to each model that writes, judges or labels."""
        made = trials(self._config)
        if not made:
            return
        keys = [trial.request.key for trial in made]
        done = 0 if self._store is None else self._store.count_known(keys)
        cost = sum(
            trial.request.recipe.price.of(
                TEMPLATE_TOKENS, trial.request.recipe.max_completion_tokens
            )
            for trial in made
        )
        todo = len(made) - done
        completion = sum(trial.request.recipe.max_completion_tokens for trial in made)
        share = todo / len(made)
        yield StagePlan(
            "check", len(made), done, True, todo * TEMPLATE_TOKENS, completion * share, cost * share
        )

    def _plan_logged(self) -> RunPlan:
        stream = self._dataset()
        rows = count_rows(self._config.dataset) if stream is None else len(stream)
        plans = self._stages(("logging_policy", "judge", "oracle", "target_policy"), stream, rows)
        return RunPlan(rows, (*plans, *self._fresh_draws()))

    def _plan_direct(self) -> RunPlan:
        """Plan of a direct run: every policy writes, is judged, and is labelled on a slice."""
        plans: list[StagePlan] = []
        rows = 0
        for index, policy in enumerate(self._config.policies):
            planner = _Planner(self._config.for_policy(index), self._store)
            stream = planner._dataset()
            n_rows = count_rows(planner._config.dataset) if stream is None else len(stream)
            made = planner._stages(("logging_policy", "judge", "oracle"), stream, n_rows)
            words = {"logging_policy": "write", "judge": "judge", "oracle": "label"}
            plans += [replace(p, stage=f"{words[p.stage]} {policy.name}"[:14]) for p in made]
            rows += n_rows
        return RunPlan(rows, tuple(plans))

    def _plan_pairwise(self) -> RunPlan:
        """Plan of a pairwise run: every policy writes; pairs are compared; a slice is labelled."""
        plans: list[StagePlan] = []
        written: dict[str, RowStream | None] = {}
        rows = 0
        for index, policy in enumerate(self._config.policies):
            planner = _Planner(self._config.for_policy(index), self._store)
            stream = planner._dataset()
            rows = count_rows(planner._config.dataset) if stream is None else len(stream)
            stage = make_call_stage("logging_policy", planner._config)
            calls, done, written[policy.name] = planner._count(stage, stream, rows)
            made = planner._priced(stage, calls, done, stream is not None)
            plans.append(replace(made, stage=f"write {policy.name}"[:14]))
        words = {"pair_judge": "judge", "pair_oracle": "label"}
        for pair in self._config.pairs:
            stages = self._stages(tuple(words), self._found_pairs(pair, written), rows)
            plans += [replace(p, stage=f"{words[p.stage]} {pair[1]}"[:14]) for p in stages]
        return RunPlan(rows * len(written), tuple(plans))

    def _found_pairs(
        self, pair: tuple[str, str], written: Mapping[str, RowStream | None]
    ) -> RowStream | None:
        a, b = (written[name] for name in pair)
        if a is None or b is None or self._store is None:
            return None
        return found_pairs(self._work_dir, self._store, pair, a, b)

    def _stages(self, names: Sequence[str], stream: RowStream | None, rows: int) -> list[StagePlan]:
        plans = []
        for name in names:
            without = self._config.oracle_config is None or self._config.labels_from_file
            labels = name in _SLICES
            if labels and without:
                continue
            if labels:
                stream = self._slice(stream, _SLICES[name])
            stage = make_call_stage(name, self._config)
            calls, done, stream_after = self._count(stage, stream, rows)
            plans.append(self._priced(stage, calls, done, stream is not None))
            stream = stream_after
        return plans

    def _fresh_draws(self) -> Iterator[StagePlan]:
        """Plan of each target's own responses: written, then judged."""
        if self._config.fresh_draws is None:
            return
        for policy in self._config.target_policies:
            planner = _Planner(self._config.for_fresh_draws(policy), self._store)
            yield replace(planner.first_stages(), stage=f"fresh {policy.name}"[:14])

    def first_stages(self) -> StagePlan:
        """Writing and judging, as one entry."""
        stream = self._dataset()
        rows = count_rows(self._config.dataset) if stream is None else len(stream)
        parts = []
        for name in ("logging_policy", "judge"):
            stage = make_call_stage(name, self._config)
            calls, done, after = self._count(stage, stream, rows)
            parts.append(self._priced(stage, calls, done, stream is not None))
            stream = after
        a, b = parts
        return StagePlan(
            "fresh_draws",
            a.calls + b.calls,
            a.done + b.done,
            a.exact and b.exact,
            a.prompt_tokens + b.prompt_tokens,
            a.completion_tokens + b.completion_tokens,
            a.cost + b.cost,
        )

    def _dataset(self) -> RowStream | None:
        if self._store is None:
            return None
        name = dataset_fingerprint(self._config.dataset, self._config.chunk_rows)
        chunks = dataset_chunks(self._work_dir, self._store, name)
        return None if chunks is None else RowStream(self._work_dir, "dataset", chunks)

    def _slice(self, rows: RowStream | None, stage: str) -> RowStream | None:
        """The drawn oracle slice, if it is complete."""
        if rows is None or self._store is None:
            return None
        name = slice_fingerprint(self._config, rows)
        names = [chunk_name(name, chunk) for chunk in rows.chunks]
        return self._complete(
            stage,
            [find_chunk(self._work_dir, self._store, stage, each) for each in names],
        )

    def _complete(self, stage: str, chunks: Sequence[Chunk | None]) -> RowStream | None:
        found = tuple(chunk for chunk in chunks if chunk is not None)
        return RowStream(self._work_dir, stage, found) if len(found) == len(chunks) else None

    def _count(
        self, stage: CallStage, rows: RowStream | None, n_rows: int
    ) -> tuple[int, int, RowStream | None]:
        """(calls, finished calls, the stage's output if it is complete)."""
        if rows is None or self._store is None:
            return stage.expected_calls(n_rows), 0, None
        calls = done = 0
        fingerprint = stage.fingerprint
        chunks: list[Chunk | None] = []
        for source in rows.chunks:
            name = chunk_name(fingerprint, source)
            chunk = find_chunk(self._work_dir, self._store, stage.name, name)
            chunks.append(chunk)
            if chunk is not None and chunk.settled(source):
                calls += chunk.calls
                done += chunk.calls
                continue
            given = rows.part(source, stage.inputs)
            keys = {r.key for row in given for r in stage.requests(row)}
            calls += len(keys)
            done += self._store.count_known(list(keys))
        return calls, done, self._complete(stage.name, chunks)

    def _priced(self, stage: CallStage, calls: int, done: int, exact: bool) -> StagePlan:
        """Tokens and cost of the remaining calls, from measured means (at first: a guess)."""
        todo = calls - done
        n = max(1, len(stage.recipes))
        tokens_in = tokens_out = cost = 0.0
        for recipe in stage.recipes:
            share = todo / n
            prompt, completion = self._tokens_per_call(stage.name, recipe.keys.digest)
            completion = min(completion, recipe.max_completion_tokens or completion)
            tokens_in += share * prompt
            tokens_out += share * completion
            cost += share * recipe.price.of(prompt, completion)
        return StagePlan(stage.name, calls, done, exact, tokens_in, tokens_out, cost)

    def _tokens_per_call(self, stage: str, digest: bytes) -> tuple[float, float]:
        measured: list[RecipeTotals] = [t for t in self._totals if t.digest == digest and t.calls]
        if measured:
            t = measured[0]
            return t.prompt_tokens / t.calls, t.completion_tokens / t.calls
        context = self._context_tokens()
        longest = self._config.logging_policy.max_tokens if self._config.logging_policy else 256
        if stage == "logging_policy":
            return context, float(longest)
        if stage == "target_policy":
            return context + longest, 1.0
        return context + longest + TEMPLATE_TOKENS, float(self._config.judge.max_tokens)

    def _context_tokens(self) -> float:
        sample = [len(row["context"]) for row in islice(read_rows(self._config.dataset), 200)]
        return sum(sample) / len(sample) / CHARACTERS_PER_TOKEN
