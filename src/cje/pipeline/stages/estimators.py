"""The configured estimators, built on the rows of a run: for calibration and for estimation."""

from __future__ import annotations

from cje.data import Dataset, PrecomputedSampler
from cje.errors import CJEError
from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.registry import find_estimator
from cje.pipeline.config import PipelineConfig

__all__ = ["check_estimators", "configured_estimators", "same_as_logging"]


def check_estimators(config: PipelineConfig) -> None:
    """Before anything is paid for: every estimator exists and will get what it needs."""
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
    if oracle is None and "direct" in config.estimation.estimators:
        raise CJEError(
            "the estimator 'direct' calibrates the judge on labels, and there is no oracle_config",
            where="estimation.estimators",
            hint="add an oracle_config: a model, a table of labels, or source: page (`cje label`)",
        )


def configured_estimators(
    logged: Dataset, fresh: Dataset | None, config: PipelineConfig, *, noise: float
) -> dict[str, OffPolicyEstimator]:
    """Every configured estimator by name, on the finished rows and the targets' fresh draws.

    `noise` is what scoring again moves a log-prob by (`measured_noise`).
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
    """Which targets are configured exactly like the logging policy (A/A checks)."""
    logging = config.logging_policy
    return [
        logging is not None and policy.same_distribution(logging)
        for policy in config.target_policies
    ]
