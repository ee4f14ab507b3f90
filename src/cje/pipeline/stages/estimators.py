"""The configured estimators, built on the rows of a run: for calibration and for estimation."""

from __future__ import annotations

from cje.data import Dataset, PrecomputedSampler
from cje.errors import CJEError
from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.registry import find_estimator
from cje.judges.template import load_template
from cje.pipeline.config import PipelineConfig

__all__ = ["check_estimators", "configured_estimators", "same_as_logging"]


def check_estimators(config: PipelineConfig) -> None:
    """Raise, before money is spent, if an estimator is unknown or will lack its inputs."""
    if config.is_direct:
        _check_direct(config)
        return
    for name in config.estimation.estimators:
        needs = find_estimator(name).needs
        if needs == "fresh":
            raise CJEError(
                f"the estimator '{name}' does not use the log, and others here do",
                where="estimation.estimators",
                hint=f"give [{name}] alone: then every policy writes its own responses; or choose "
                "calibrated-ips, snips, ips, or a doubly robust one with fresh_draws",
            )
        if needs == "both" and config.fresh_draws is None:
            raise CJEError(
                f"the estimator '{name}' needs responses of the target policies themselves",
                where="estimation.estimators",
                hint="add the section fresh_draws, or choose one that works from the log alone, "
                "such as calibrated-ips",
            )


def _check_direct(config: PipelineConfig) -> None:
    oracle = config.oracle_config
    if config.fresh_draws is not None or config.dataset.response_field is not None:
        raise CJEError(
            "in a direct run every policy writes its own responses",
            where="estimation.estimators",
            hint="leave out fresh_draws and dataset.response_field",
        )
    if config.is_pairwise:
        _check_pairwise(config)
    if oracle is None and "direct" in config.estimation.estimators:
        raise CJEError(
            "the estimator 'direct' calibrates the judge on labels, and there is no oracle_config",
            where="estimation.estimators",
            hint="add an oracle_config: a model, a table of labels, or source: page (`cje label`)",
        )


def _check_pairwise(config: PipelineConfig) -> None:
    if config.estimation.estimators != ("pairwise",):
        raise CJEError(
            "the estimator 'pairwise' reads comparisons and the others read scores",
            where="estimation.estimators", value=list(config.estimation.estimators),
            hint="give [pairwise] alone, and a second file with another work_dir for the others",
        )  # fmt: skip
    if len(config.policies) < 2:
        raise CJEError("a comparison needs two policies", where="target_policies")
    oracle = config.oracle_config
    if oracle is not None and oracle.source not in ("model", "csv"):
        raise CJEError(
            "labels of comparisons come from a model or from a table",
            where="oracle_config.source", value=oracle.source,
            hint="use source: model, or source: csv with model_a, model_b, the prompt's id and "
            "human_winner; for a labelling page, run without oracle_config and use "
            "`cje label --pairs`",
        )  # fmt: skip
    judges = config.judge_places()
    if oracle is not None and oracle.judge is not None and oracle.source == "model":
        judges.append(("oracle_config.judge", oracle.judge))
    for place, judge in judges:
        offline = judge.provider == judge.in_process
        if not offline and load_template(judge.template).kind != "comparative":
            raise CJEError(
                "a pairwise run needs a comparative template", where=config.line_of(place),
                value=judge.template, hint="set template: comparative",
            )  # fmt: skip


def configured_estimators(
    logged: Dataset, fresh: Dataset | None, config: PipelineConfig, *, noise: float
) -> dict[str, OffPolicyEstimator]:
    """The configured estimators by name, built on the rows and the targets' fresh draws.

    `noise` is the standard deviation of a log-prob between scorings (`measured_noise`).
    """
    sampler = PrecomputedSampler(logged, log_ratio_clip=config.estimation.log_ratio_clip)
    same = zip(config.target_policies, same_as_logging(config), strict=True)
    options = {
        "level": config.estimation.level,
        "seed": config.seed,
        "n_folds": config.calibration.n_folds,
        "calibration_mode": config.calibration.mode,
        "same_as_logging": [policy.name for policy, equal in same if equal],
        "logprob_noise": noise,
    }
    return {
        name: find_estimator(name).build(fresh, sampler, **options)
        for name in config.estimation.estimators
    }


def same_as_logging(config: PipelineConfig) -> list[bool]:
    """Targets that are configured exactly like the logging policy (A/A checks)."""
    logging = config.logging_policy
    return [
        logging is not None and policy.same_distribution(logging)
        for policy in config.target_policies
    ]
