"""The configuration of a run: one YAML file, checked in one place.

Every section refuses unknown keys. `PolicyConfig` and `JudgeConfig` come from the layers that use
them; this module adds the dataset, the oracle, the limits and the budget.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from cje.judges import JudgeConfig
from cje.pipeline.yaml_lines import key_lines, load_yaml
from cje.policies import PolicyConfig

__all__ = [
    "BudgetConfig",
    "CalibrationConfig",
    "DatasetConfig",
    "EstimationConfig",
    "FreshDrawsConfig",
    "LimitsConfig",
    "OracleConfig",
    "PairwiseConfig",
    "PipelineConfig",
    "PriceConfig",
    "RayConfig",
    "load_config",
]

FRESH_DRAWS_FROM = 1_000_000
Share = Annotated[float, Field(gt=0.0, le=1.0)]
Positive = Annotated[int, Field(ge=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatasetConfig(_Section):
    """The source of the contexts, and the roles of its columns.

    With ``response_field`` the logged responses are read instead of generated; with
    ``logprob_field`` their log-probs under the logging policy are read as well (then
    ``target_policy.rescore_logging`` decides whether they are used or only compared).
    """

    path: Path
    context_field: str = "context"
    id_field: str | None = None
    response_field: str | None = None
    logprob_field: str | None = None
    draws_per_context: Positive = 1
    first_draw: Annotated[int, Field(ge=0)] = 0
    limit: Positive | None = None


class OracleConfig(_Section):
    """The source of labels, and which rows get them: a random slice with recorded propensities.

    In a direct run `source` may also be ``page``: the labels file of `cje label`, whose own design
    chose the rows. A table (``csv``) then has a column ``policy`` beside the ids.
    """

    source: Literal["model", "csv", "callable", "page"] = "model"
    judge: JudgeConfig | None = None
    path: Path | None = None
    id_column: str = "prompt_id"
    label_column: str = "oracle_label"
    function: str | None = None
    scale: tuple[float, float] = (0.0, 1.0)
    fraction: Share | None = None
    count: Positive | None = None
    design: Literal["random", "stratified"] = "random"
    n_strata: Annotated[int, Field(ge=2, le=100)] = 5

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = {"model": "judge", "callable": "function"}.get(self.source, "path")
        if getattr(self, needed) is None:
            raise ValueError(f"source '{self.source}' needs the key '{needed}'")
        if self.fraction is not None and self.count is not None:
            raise ValueError("give 'fraction' or 'count', not both")
        if self.function is not None and ":" not in self.function:
            raise ValueError("'function' must be written as module:name")
        return self


class CalibrationConfig(_Section):
    """How judge scores become rewards: calibration mode and cross-fitting folds."""

    mode: str = "auto"
    n_folds: Annotated[int, Field(ge=2, le=50)] = 5


class TargetPolicyConfig(_Section):
    """Teacher forcing of the logged responses.

    ``rescore_logging`` scores the logging policy through the same engine as the targets. The first
    ``replicates`` rows are scored twice under it, to measure the server's own noise.
    """

    rescore_logging: bool = True
    replicates: Annotated[int, Field(ge=0, le=1000)] = 20


class FreshDrawsConfig(_Section):
    """Judged responses of the target policies themselves, which doubly robust estimators need."""

    draws_per_context: Positive = 1


class EstimationConfig(_Section):
    """Estimators of the run, and the guards on log-ratios."""

    estimators: tuple[str, ...] = ("calibrated-ips",)
    log_ratio_clip: Annotated[float, Field(gt=0.0)] = 20.0
    level: Annotated[float, Field(gt=0.5, lt=1.0)] = 0.95

    @field_validator("estimators", mode="before")
    @classmethod
    def _one_is_fine(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class PairwiseConfig(_Section):
    """Policies compared side by side (``estimators: [pairwise]``), and the order shown.

    ``baseline`` compares every other policy with the first one, ``all`` every pair. ``both`` shows
    each pair in both orders, which removes the position bias at twice the calls.
    """

    pairs: Literal["baseline", "all"] = "baseline"
    order: Literal["both", "random"] = "both"


class LimitsConfig(_Section):
    """Calls in flight per provider, and when to give up on it."""

    max_concurrency: Positive = 16
    requests_per_minute: Annotated[float, Field(gt=0.0)] | None = None
    max_attempts: Positive = 6
    retry_seconds: Annotated[float, Field(ge=0.0)] = 0.5
    breaker_failures: Positive = 20
    breaker_pause: Annotated[float, Field(ge=0.0)] = 5.0
    breaker_trips: Annotated[int, Field(ge=0)] = 5


class PriceConfig(_Section):
    """Price per million tokens."""

    prompt_per_million: Annotated[float, Field(ge=0.0)] = 0.0
    completion_per_million: Annotated[float, Field(ge=0.0)] = 0.0


class BudgetConfig(_Section):
    """Caps over all runs in this work folder. A missing key means no cap."""

    max_calls: Annotated[int, Field(ge=0)] | None = None
    max_cost: Annotated[float, Field(ge=0.0)] | None = None


class RayConfig(_Section):
    """The address of a Ray cluster, or none to start one on this machine.

    A stage that computes open weights gives each worker ``gpus_per_worker`` GPUs (by default one
    if the cluster has any); serve a model that is larger than one GPU from a server.
    """

    address: str | None = None
    workers: Positive = 2
    gpus_per_worker: Annotated[float, Field(ge=0.0)] | None = None


class PipelineConfig(_Section):
    """A whole run."""

    work_dir: Path
    seed: int = 0
    dataset: DatasetConfig
    logging_policy: PolicyConfig | None = None
    judge: JudgeConfig
    more_judges: tuple[JudgeConfig, ...] = ()
    oracle_config: OracleConfig | None = None
    calibration: CalibrationConfig = CalibrationConfig()
    target_policies: tuple[PolicyConfig, ...] = Field(min_length=1)
    target_policy: TargetPolicyConfig = TargetPolicyConfig()
    fresh_draws: FreshDrawsConfig | None = None
    estimation: EstimationConfig = EstimationConfig()
    pairwise: PairwiseConfig = PairwiseConfig()
    limits: dict[str, LimitsConfig] = Field(default_factory=dict)
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    budget: BudgetConfig = BudgetConfig()
    max_error_share: Annotated[float, Field(ge=0.0, le=1.0)] = 0.01
    chunk_rows: Annotated[int, Field(ge=1, le=100_000)] = 1000
    executor: Literal["local", "ray"] = "local"
    ray: RayConfig = RayConfig()
    durability: Literal["normal", "full"] = "normal"
    _file: str = PrivateAttr("")
    _lines: dict[str, int] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [policy.name for policy in self.target_policies]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two target policies are called {repeated[0]!r}")
        judges = [judge.name for judge in self.judges]
        if len(set(judges)) < len(judges):
            raise ValueError("several judges need names of their own: give each a 'name'")
        if self.is_direct:
            return self._consistent_direct()
        if self.logging_policy is None:
            if self.dataset.response_field is None:
                raise ValueError(
                    "without 'logging_policy' the responses must be in the data: "
                    "set 'dataset.response_field'"
                )
            if self.dataset.logprob_field is None:
                raise ValueError(
                    "without 'logging_policy' its log-probs must be in the data: "
                    "set 'dataset.logprob_field'"
                )
        oracle = self.oracle_config
        if oracle is not None and oracle.source == "page":
            raise ValueError("source: page (the labelling page) needs a direct run")
        if oracle is not None and oracle.source == "csv" and self.dataset.draws_per_context > 1:
            raise ValueError(
                "a table of labels is joined by prompt and cannot tell several draws of one prompt "
                "apart: set 'dataset.draws_per_context: 1'"
            )
        if self.dataset.response_field is not None and self.dataset.draws_per_context != 1:
            raise ValueError("logged responses cannot be drawn again: set 'draws_per_context: 1'")
        return self

    def _consistent_direct(self) -> Self:
        names = [policy.name for policy in self.policies]
        if len(set(names)) < len(names):
            raise ValueError("the logging policy is called like a target policy")
        return self

    @property
    def judges(self) -> tuple[JudgeConfig, ...]:
        """All judges; the scores of several judges are averaged."""
        return (self.judge, *self.more_judges)

    def judge_places(self) -> list[tuple[str, JudgeConfig]]:
        """Every judge with its section in the file."""
        more = [(f"more_judges.{i}", judge) for i, judge in enumerate(self.more_judges)]
        return [("judge", self.judge), *more]

    @property
    def is_direct(self) -> bool:
        """Whether the policies are compared by responses of their own, without log-probs."""
        return set(self.estimation.estimators) <= {"direct", "naive", "pairwise"}

    @property
    def is_pairwise(self) -> bool:
        """Whether the judge compares two responses side by side (a kind of direct run)."""
        return self.is_direct and "pairwise" in self.estimation.estimators

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of policies that a pairwise run compares."""
        names = [policy.name for policy in self.policies]
        last = 1 if self.pairwise.pairs == "baseline" else len(names)
        return [(a, b) for i, a in enumerate(names[:last]) for b in names[i + 1 :]]

    @property
    def labels_from_file(self) -> bool:
        """Whether labels are joined to the judged rows of all policies (a direct run)."""
        oracle = self.oracle_config
        return self.is_direct and oracle is not None and oracle.source in ("csv", "page")

    @property
    def policies(self) -> tuple[PolicyConfig, ...]:
        """Every policy: the logging policy, where there is one, and the targets."""
        first = () if self.logging_policy is None else (self.logging_policy,)
        return (*first, *self.target_policies)

    def line_of(self, place: str) -> str:
        """File and line of a section, or its dotted name for a configuration in code.

        Examples
        --------
        >>> load_config("config.yaml").line_of("judge")  # doctest: +SKIP
        'judge (config.yaml, line 12)'
        """
        line = self._lines.get(place)
        return place if line is None else f"{place} ({self._file}, line {line})"

    def place_of(self, policy: PolicyConfig) -> str:
        """The section that describes a policy."""
        names = [target.name for target in self.target_policies]
        if policy.name in names:
            return f"target_policies.{names.index(policy.name)}"
        return "logging_policy"

    def writers(self) -> list[tuple[str, PolicyConfig]]:
        """The policies that write responses in this run, each with its section in the file."""
        first = self.logging_policy is not None and self.dataset.response_field is None
        made: list[tuple[str, PolicyConfig]] = []
        if self.logging_policy is not None and (first or self.is_direct):
            made.append(("logging_policy", self.logging_policy))
        if self.is_direct or self.fresh_draws is not None:
            made += [(self.place_of(policy), policy) for policy in self.target_policies]
        return made

    def for_policy(self, index: int) -> PipelineConfig:
        """This run with policy number `index` as the only writer (a direct run).

        Draws of policy k are numbered from k million, so that two policies with the same
        configuration still write separate responses.
        """
        dataset = self.dataset.model_copy(
            update={"logprob_field": None, "first_draw": index * FRESH_DRAWS_FROM}
        )
        return self.model_copy(update={"dataset": dataset, "logging_policy": self.policies[index]})

    def for_fresh_draws(self, policy: PolicyConfig) -> PipelineConfig:
        """This run's first three stages with `policy` as the writer.

        Its draws are numbered from a million, so that a target configured like the logging policy
        still writes separate responses.
        """
        draws = 1 if self.fresh_draws is None else self.fresh_draws.draws_per_context
        dataset = self.dataset.model_copy(
            update={
                "response_field": None,
                "logprob_field": None,
                "draws_per_context": draws,
                "first_draw": FRESH_DRAWS_FROM,
            }
        )
        return self.model_copy(update={"dataset": dataset, "logging_policy": policy})

    def limits_for(self, provider: str) -> LimitsConfig:
        """Limits of a provider: its own entry, else ``default``, else the built-in ones."""
        return self.limits.get(provider) or self.limits.get("default") or LimitsConfig()

    def price_of(self, model: str | None) -> PriceConfig:
        """Price of a model; zero if the configuration does not name it."""
        return self.prices.get(model or "", PriceConfig())


def load_config(path: str | Path, **changes: Any) -> PipelineConfig:
    """Read a configuration; relative paths start from the folder of the file.

    Parameters
    ----------
    path : path
        The YAML file.
    **changes
        Top-level values to replace, such as ``executor="ray"``, and ``limit`` for a trial.
    """
    config = load_yaml(path, PipelineConfig)
    config._file, config._lines = Path(path).name, key_lines(path)
    base = Path(path).resolve().parent
    limit = changes.pop("limit", None)
    dataset = config.dataset.model_copy(
        update={"path": base / config.dataset.path}
        | ({"limit": limit} if limit is not None else {})
    )
    update: dict[str, Any] = {"work_dir": base / config.work_dir, "dataset": dataset, **changes}
    if config.oracle_config is not None and config.oracle_config.path is not None:
        update["oracle_config"] = config.oracle_config.model_copy(
            update={"path": base / config.oracle_config.path}
        )
    return config.model_copy(update=update)
