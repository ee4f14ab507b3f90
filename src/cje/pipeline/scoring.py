"""`score_file`: log-probs of logged responses under several policies, as columns of one file.

The function behind `cje score`. Finished scores are kept in a store beside the output, keyed by
model, template, sampling and text, so a stopped run (even by ``kill -9``) resumes where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cje.data.field_names import SYNONYMS
from cje.errors import CJEError
from cje.hints import option_hint
from cje.models import ModelCallError
from cje.pipeline.hashing import CallKeys
from cje.pipeline.lock import WorkFolderLock
from cje.pipeline.progress import NoProgress, Reporter, TokenMoment
from cje.pipeline.records import CallRecord
from cje.pipeline.scored_file import BASE, ScoredFile, value_of, write_scored
from cje.pipeline.stages.dataset import read_records
from cje.pipeline.store import CallStore
from cje.policies import LogProb, PolicyConfig, make_multi_sampler

__all__ = ["score_file"]

STAGE = "score"
WINDOW = 20_000  # calls that are planned together
REPLICATES = 20  # rows scored again in another batch, to measure the engine's noise


@dataclass(frozen=True)
class _Row:
    context: str
    response: str
    token_ids: tuple[int, ...] | None
    complete: bool
    ending: str | None
    end_text: str | None

    @property
    def extra(self) -> dict[str, Any]:
        return {"token_ids": self.token_ids, "complete": self.complete, "ending": self.ending,
                "end_text": self.end_text}  # fmt: skip


def score_file(
    source: str | Path,
    policies: Sequence[PolicyConfig | Mapping[str, Any]],
    out: str | Path,
    *,
    logging: str | None = None,
    context_field: str | None = None,
    response_field: str | None = None,
    work_dir: str | Path | None = None,
    reporter: Reporter | None = None,
) -> ScoredFile:
    """Add one log-prob column per policy to a file of logged responses.

    Parameters
    ----------
    source : path
        Logged rows (.jsonl, .csv, .parquet) with a context, a response and any further columns.
    policies : sequence of PolicyConfig or mapping
        With ``provider: transformers``, and distinct names.
    out : path
        The file to write: .parquet or .jsonl.
    logging : str, optional
        The policy that wrote the responses. By default, the one in the file's `policy` column; the
        file's ``base_policy_logprob`` is kept if that is not one of `policies`.
    work_dir : path, optional
        The folder of the store; by default beside `out`.

    Raises
    ------
    CJEError
        If the file cannot be read, or nothing says which policy wrote the responses.
    """
    out = Path(out)
    if out.suffix.lower() not in (".parquet", ".jsonl"):
        raise CJEError("the output must be .parquet or .jsonl", value=str(out))
    records = list(read_records(Path(source)))
    if not records:
        raise CJEError("the data file has no rows", where=str(source))
    rows = _rows(records, str(source), context_field, response_field)
    configs = [PolicyConfig.parse(policy) for policy in policies]
    base = _logging_policy(records, [config.name for config in configs], logging, str(source))
    for config in configs:
        if not config.is_local:
            raise CJEError(
                "cje score computes open weights on this machine", where=config.name,
                value=config.provider,
                hint="use provider: transformers; for a server, use `cje run`",
            )  # fmt: skip
    sampler = make_multi_sampler(configs)
    folder = Path(work_dir) if work_dir is not None else out.with_name(f"{out.name}.store")
    with WorkFolderLock(folder):
        store = CallStore(folder / "store.sqlite")
        try:
            work = _Work(store, sampler.runners, rows, reporter or NoProgress())
            answers, replicates = work.run(0 if base is None else sampler.names.index(base))
        finally:
            store.close()
    return write_scored(
        records, answers, replicates, sampler.names, base, out, work.reused
    )  # fmt: skip


def _rows(
    records: Sequence[Mapping[str, Any]], where: str, context: str | None, response: str | None
) -> list[_Row]:
    """Context and response of each record; a record without text is an error that names it."""
    names = {
        "prompt": context or _column(records[0], "prompt", where, "context_field"),
        "response": response or _column(records[0], "response", where, "response_field"),
    }
    made = []
    for number, record in enumerate(records, start=1):
        for name in names.values():
            if not isinstance(record.get(name), str):
                raise CJEError(
                    f"'{name}' is not text", where=f"{where}, row {number}", value=record.get(name)
                )
        ids = record.get("token_ids")
        finish = record.get("finish_reason")
        made.append(
            _Row(
                record[names["prompt"]], record[names["response"]],
                None if ids is None else tuple(ids),
                bool(record.get("complete", finish != "length")),
                record.get("ending"), record.get("end_text"),
            )
        )  # fmt: skip
    return made


def _column(record: Mapping[str, Any], role: str, where: str, argument: str) -> str:
    for name in (role, *SYNONYMS[role]):
        if name in record:
            return name
    raise CJEError(
        f"no column for the {role}", where=where, value=sorted(record),
        hint=f"name it: {option_hint(argument, 'COLUMN')}",
    )  # fmt: skip


def _logging_policy(
    records: Sequence[Mapping[str, Any]], names: Sequence[str], given: str | None, where: str
) -> str | None:
    """The policy that wrote the responses; None if the file already has its log-probs."""
    if given is not None:
        if given not in names:
            raise CJEError("not one of the policies", value=given, hint=f"use {', '.join(names)}")
        return given
    wrote = {record.get("policy") for record in records}
    if len(wrote) == 1 and (only := wrote.pop()) in names:
        return str(only)
    if all(record.get(BASE) is not None for record in records):
        return None
    raise CJEError(
        "it is not known which policy wrote the logged responses", where=where,
        hint=f"add {option_hint('logging', 'NAME')} ({' or '.join(names)})",
    )  # fmt: skip


class _Work:
    """Calls, their keys, and the answers so far."""

    def __init__(
        self, store: CallStore, runners: Sequence[Any], rows: Sequence[_Row], reporter: Reporter
    ) -> None:
        self.store, self.runners, self.rows, self.reporter = store, runners, rows, reporter
        self.keys = [CallKeys(STAGE, runner.identity()) for runner in runners]
        for keys in self.keys:
            store.register(keys)
        self.failures: dict[bytes, ModelCallError] = {}
        self.reused = self.tokens = 0

    def key(self, policy: int, row: _Row, repeat: int = 0) -> bytes:
        ids = None if row.token_ids is None else list(row.token_ids)
        end = f"{row.ending or ''}:{row.end_text or ''}"
        return self.keys[policy].key(row.context, row.response, ids, int(row.complete), end, repeat)

    def run(self, base: int) -> tuple[list[list[LogProb | ModelCallError]], list[float]]:
        """Scores by policy and row, and the second scores of the first rows under `base`."""
        wanted: dict[bytes, tuple[int, _Row, int]] = {}
        for row in self.rows:
            for policy in range(len(self.runners)):
                wanted.setdefault(self.key(policy, row), (policy, row, 0))
        for row in self.rows[:REPLICATES]:
            wanted.setdefault(self.key(base, row, 1), (base, row, 1))
        known = self.store.get_many(list(wanted))
        self.reused = len(known)
        self._answer([(key, *call) for key, call in wanted.items() if key not in known])
        found = known | self.store.get_many([key for key in wanted if key not in known])
        answers = [
            [self._answer_of(self.key(policy, row), found) for row in self.rows]
            for policy in range(len(self.runners))
        ]
        again = [self._answer_of(self.key(base, r, 1), found) for r in self.rows[:REPLICATES]]
        return answers, [value_of(answer) for answer in again]

    def _answer_of(
        self, key: bytes, found: Mapping[bytes, dict[str, Any]]
    ) -> LogProb | ModelCallError:
        return LogProb.from_json(found[key]) if key in found else self.failures[key]

    def _answer(self, todo: Sequence[tuple[bytes, int, _Row, int]]) -> None:
        total = len(self.rows)
        self.reporter.start(STAGE, total)
        done, began = 0, time.monotonic()
        share = total / max(1, self.reused + len(todo))
        for window in _windows(todo):
            calls = [
                self.runners[policy].score_call(row.context, row.response, repeat=repeat,
                                                **row.extra)
                for _, policy, row, repeat in window
            ]  # fmt: skip
            for part in self.runners[0].answer_calls(calls):
                self.store.put_many([self._record(window[i], answer) for i, answer in part])
                done += len(part)
                rows = min(total, int(share * (self.reused + done)))
                self.reporter.update(
                    STAGE,
                    TokenMoment(
                        rows, total, done, self.reused, len(self.failures), 0, 0, 0.0,
                        tokens=self.tokens, rows_here=int(share * done),
                    ),
                )  # fmt: skip
        seconds = max(time.monotonic() - began, 1e-9)
        self.reporter.done(
            STAGE, f"{total} rows, {int(share * done) / seconds:.0f} rows/s, "
            f"{self.tokens / seconds:.0f} tokens/s",
        )  # fmt: skip

    def _record(
        self, call: tuple[bytes, int, _Row, int], answer: LogProb | ModelCallError
    ) -> CallRecord:
        key, policy, _, _ = call
        recipe = self.keys[policy].digest
        if isinstance(answer, ModelCallError):
            self.failures[key] = answer
            return CallRecord(key, recipe, {}, reason=answer.reason, message=str(answer))
        self.tokens += answer.usage.prompt_tokens
        return CallRecord(key, recipe, answer.to_json(), prompt_tokens=answer.usage.prompt_tokens)


def _windows(
    todo: Sequence[tuple[bytes, int, _Row, int]],
) -> Iterator[list[tuple[bytes, int, _Row, int]]]:
    """Calls in groups that are planned together; all policies of a row are in one group."""
    calls = iter(todo)
    while lot := list(islice(calls, WINDOW)):
        yield lot
