"""Stage 5: teacher forcing. The logged response is scored under every target policy.

Without this step every importance weight is exp(0) = 1 and every estimate is the logging policy's
own value. It cannot be left out (the estimation stage takes its rows from this one), cannot fall
back to a default (a call without a usable log-prob makes an error row), and is checked by
`validate_target_policy_computation` and the canaries.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import polars as pl

from cje.errors import CJEError
from cje.pipeline.chunks import Row, chunk_exists, chunk_path, load_chunk, parquet_bytes
from cje.pipeline.config import PipelineConfig
from cje.pipeline.disk import write_atomically
from cje.pipeline.hashing import compute_contexts_hash, fingerprint
from cje.pipeline.request import Answer, Outcome, Passes, Recipe, Request
from cje.pipeline.stages.base import IN_PROCESS, CallStage
from cje.policies import MultiTargetSampler, PolicyConfig, PolicyRunner, make_multi_sampler
from cje.policies.sampler import Planned

__all__ = ["TargetPolicyStage", "TeacherForcing", "validate_target_policy_computation"]

KEPT = "target_logprobs"  # chunks of `TargetPolicyStage`


class TeacherForcing(CallStage):
    """log p_k(response | context) for K targets and, through the same engine, the logging policy.

    Scoring both sides with one engine keeps tokenisation, templates and numerical noise the same in
    numerator and denominator of the weight. All K + 1 calls of all rows in a chunk are in flight
    together.
    """

    name = "target_policy"
    version = 3
    inputs = (
        "row_id", "context", "response", "token_ids", "complete", "ending", "end_text", "error",
    )  # fmt: skip

    def __init__(self, config: PipelineConfig) -> None:
        self.config = config
        logging = config.logging_policy
        self._rescore = config.target_policy.rescore_logging and logging is not None
        # A function gives the same number again; only servers have noise.
        noisy = self._rescore and logging is not None and logging.provider not in IN_PROCESS
        self._replicates = config.target_policy.replicates if noisy else 0
        policies = [*([logging] if self._rescore and logging else []), *config.target_policies]
        self.sampler: MultiTargetSampler = make_multi_sampler(policies)
        self._recipes = tuple(
            self._recipe(runner, policy)
            for runner, policy in zip(self.sampler.runners, policies, strict=True)
        )

    def _recipe(self, runner: PolicyRunner, policy: PolicyConfig) -> Recipe:
        async def score(request: Request, seed: int) -> Answer:
            context, response = request.texts
            return await runner.alog_prob(context, response, **request.extra)

        passes = None
        if isinstance(runner, Planned):

            def plan(request: Request, _: int) -> Any:
                return runner.score_call(*request.texts, **request.extra)

            passes = Passes(plan, runner.answer_calls)
        return self.make_recipe(
            runner.identity(), runner.provider, score, model=policy.model, max_tokens=1,
            place=self.config.place_of(policy),
            passes=passes,
        )  # fmt: skip

    @property
    def recipes(self) -> Sequence[Recipe]:
        return self._recipes

    def settings(self) -> Mapping[str, Any]:
        return {
            "policies": [runner.identity() for runner in self.sampler.runners],
            "rescore_logging": self._rescore,
            "replicates": self._replicates,
        }

    def requests(self, row: Row) -> list[Request]:
        if row["error"] is not None:
            return []
        texts = (row["context"], row["response"])
        extra = {name: row[name] for name in ("token_ids", "complete", "ending", "end_text")}
        made = [self._request(recipe, texts, extra, 0) for recipe in self._recipes]
        if row["row_id"] < self._replicates:
            made.append(self._request(self._recipes[0], texts, extra, 1))
        return made

    def _request(
        self, recipe: Recipe, texts: tuple[str, str], extra: dict[str, Any], repeat: int
    ) -> Request:
        end = f"{extra['ending']}:{extra['end_text'] or ''}"
        key = recipe.keys.key(*texts, extra["token_ids"], int(extra["complete"]), end, repeat)
        if (
            repeat and recipe.passes is not None
        ):  # a repeat must not share the pass of the first scoring
            extra = extra | {"repeat": repeat}
        return Request(recipe, key, texts, extra)

    def finish(self, row: Row, outcomes: Sequence[Outcome]) -> Row:
        row = {**row, "logp_logging": None, "logp_target_all": None, "logp_replicate": None,
               "inside_token": None, "logp_end": None}  # fmt: skip
        if not outcomes:
            return row
        values = []
        inside = 0  # scores that start at a token that also holds the end of the prompt
        for outcome in outcomes:
            if outcome.answer is None:
                return self.failed(row, outcome)
            values.append(float(outcome.answer["value"]))
            inside += outcome.answer["boundary"] == "inside_token"
        if (other := self._other_tokens(row, outcomes[0])) is not None:
            return self.failed(row, other)
        if row["row_id"] < self._replicates:
            row["logp_replicate"] = values.pop()
        if self._rescore and outcomes[0].answer is not None:
            row["logp_end"] = outcomes[0].answer.get("end")
        logging = values.pop(0) if self._rescore else _given(row)
        if logging is None:
            reason = "the row has no log-prob under the logging policy"
            return self.failed(row, Outcome(None, "missing_logging_logprob", reason))
        return row | {
            "logp_logging": logging, "logp_target_all": values, "inside_token": inside,
        }  # fmt: skip

    def _other_tokens(self, row: Row, logging: Outcome) -> Outcome | None:
        """The reason if a score is of other tokens than the sampled ones (servers without ids).

        llama-cpp-python reports each written token but its end, and scores the text in the tokens
        that its tokeniser makes of it; the number of tokens tells whether those are the sampled.
        """
        policy, answer = self.config.logging_policy, logging.answer
        if not self._rescore or policy is None or policy.provider != "llama-cpp" or answer is None:
            return None
        if row["logp_generated"] is None or answer["boundary"] == "inside_token":
            return None
        scored = answer["n_tokens"] - (answer.get("end") is not None)
        if row["token_ids"] is not None or scored == row["n_tokens"]:
            return None
        return Outcome(
            None, "other_tokens",
            f"the model wrote {row['n_tokens']} tokens, and its tokeniser makes {scored} of the "
            "text: without token ids from the server the sampled ones cannot be scored",
        )  # fmt: skip

    def expected_calls(self, n_rows: int) -> int:
        return n_rows * len(self._recipes) + min(n_rows, self._replicates)

    async def close(self) -> None:
        await self.sampler.aclose()


def _given(row: Row) -> float | None:
    """The logging log-prob of the data, otherwise the one reported while generating."""
    given: float | None = row["logp_given"]
    generated: float | None = row["logp_generated"]
    return generated if given is None else given


class TargetPolicyStage:
    """Teacher forcing for rows in memory, for notebooks and manual experiments.

    The pipeline itself streams through `TeacherForcing`; both score with `MultiTargetSampler`.

    Parameters
    ----------
    work_dir : path, optional
        Folder of finished results, so that the same rows and policies are scored only once.
    """

    def __init__(self, work_dir: str | Path | None = None) -> None:
        self._work_dir = None if work_dir is None else Path(work_dir)

    def run(
        self,
        rows: Sequence[Mapping[str, Any]],
        target_policies_config: Sequence[PolicyConfig | Mapping[str, Any]],
        contexts_hash: str | None = None,
    ) -> list[Row]:
        """`rows` with ``logp_target_all``: log p_k(response | context) of every target policy.

        Parameters
        ----------
        rows : sequence of mappings
            With ``context`` and ``response``; the given response is scored and nothing is sampled.
        target_policies_config : sequence
            One configuration per policy.
        contexts_hash : str, optional
            From `compute_contexts_hash`; computed when not given.
        """
        sampler = make_multi_sampler(target_policies_config)
        name = fingerprint(
            contexts_hash or compute_contexts_hash(rows),
            [runner.identity() for runner in sampler.runners],
        )
        matrix = self._kept(name)
        if matrix is None:
            matrix = sampler.logp_matrix(
                [row["context"] for row in rows], [row["response"] for row in rows]
            ).tolist()
            self._keep(name, matrix)
        scored = [
            {**row, "logp_target_all": logps} for row, logps in zip(rows, matrix, strict=True)
        ]
        validate_target_policy_computation(scored, sampler.K)
        return scored

    def _kept(self, name: str) -> list[list[float]] | None:
        if self._work_dir is None or not chunk_exists(self._work_dir, KEPT, name):
            return None
        return [row["logp_target_all"] for row in load_chunk(self._work_dir, KEPT, name)]

    def _keep(self, name: str, matrix: list[list[float]]) -> None:
        if self._work_dir is not None:
            data = parquet_bytes(pl.DataFrame({"logp_target_all": matrix}))
            write_atomically(chunk_path(self._work_dir, KEPT, name), data)


def validate_target_policy_computation(
    rows: Iterable[Mapping[str, Any]], n_policies: int | None = None
) -> int:
    """Check that teacher forcing happened on every row that carries no error.

    Each such row must have ``logp_target_all`` with one finite, non-positive number for each target
    policy, and the same number of them as every other row.

    Parameters
    ----------
    rows : iterable of mappings
        Rows after the target-policy stage.
    n_policies : int, optional
        The expected number of targets; by default the first row's.

    Returns
    -------
    int
        The number of rows checked.

    Raises
    ------
    CJEError
        Naming the row, the policy and the value.

    Examples
    --------
    >>> validate_target_policy_computation([{"logp_target_all": [-1.0, -2.5]}])
    1
    """
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise CJEError("rows must be a list of rows", value=rows)
    checked = 0
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise CJEError("a row must be a mapping", where=f"row {number}", value=row)
        if row.get("error") is not None:
            continue
        where = f"row {row.get('row_id', number)}"
        values = row.get("logp_target_all")
        if values is None:
            raise CJEError(
                "the row has no logp_target_all: its response was never scored under the target "
                "policies",
                where=where,
                hint="run the target_policy stage; without it every importance weight is 1",
            )
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Collection):
            raise CJEError("logp_target_all must be a list", where=where, value=values)
        n_policies = len(values) if n_policies is None else n_policies
        if len(values) != n_policies:
            raise CJEError(
                f"logp_target_all has {len(values)} values for {n_policies} policies", where=where
            )
        for index, value in enumerate(values):
            if not _is_log_prob(value):
                raise CJEError(
                    "a target log-prob is not a finite number of at most 0",
                    where=f"{where}, policy {index}",
                    value=value,
                )
        checked += 1
    return checked


def _is_log_prob(value: Any) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and -sys.float_info.max <= value <= 0.0
