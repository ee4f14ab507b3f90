"""Stage `calibration`: reward models for the estimators, and the reward of every row.

A run fits the models only here. They are kept as JSON beside the stage's chunks, and the estimation
stage reads that file. `mrdr` weights the labels by the importance weights, so the stage follows
teacher forcing and the fresh draws.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cje.calibration.rewards.reward_model import CrossFittedRewardModel, RewardModel
from cje.calibration.rewards.selection import ModeSelection
from cje.errors import CJEError
from cje.estimators.offpolicy.base import OffPolicyEstimator
from cje.estimators.offpolicy.rewards import RewardModels
from cje.pipeline.chunks import RowStream
from cje.pipeline.config import PipelineConfig
from cje.pipeline.disk import write_atomically
from cje.pipeline.hashing import fingerprint
from cje.pipeline.stages.columns import fresh_dataset, logged_dataset
from cje.pipeline.stages.estimators import configured_estimators
from cje.pipeline.stages.noise import measured_noise

__all__ = ["calibrated_rewards", "calibration_fingerprint", "models_path", "stored_models"]

VERSION = 3
FORMAT, FORMAT_VERSION = "cje-reward-models", 1


def calibration_fingerprint(
    config: PipelineConfig, rows: RowStream, fresh: Mapping[str, RowStream] | None
) -> str:
    """Fingerprint of the stage: every reward depends on all labels, so on all input chunks."""
    settings: Mapping[str, Any] = {
        "calibration": config.calibration.model_dump(mode="json"),
        "estimation": config.estimation.model_dump(mode="json", exclude={"level"}),
        "seed": config.seed,
        "max_error_share": config.max_error_share,
    }
    drawn = {name: [c.sha256 for c in stream.chunks] for name, stream in (fresh or {}).items()}
    return fingerprint("calibration", VERSION, settings, [c.sha256 for c in rows.chunks], drawn)


def models_path(work_dir: Path, name: str) -> Path:
    """Path of the reward models with the fingerprint `name`."""
    return work_dir / "chunks" / "calibration" / f"{name}.json"


def stored_models(
    work_dir: Path,
    name: str,
    config: PipelineConfig,
    estimators: Callable[[], Mapping[str, OffPolicyEstimator]],
) -> RewardModels | None:
    """The reward models of this run: read from the file, or fitted by the estimators and saved.

    Without an oracle the rewards are the judge's own scores. None in a trial (`dataset.limit`)
    whose few labels cannot calibrate the judge.

    Raises
    ------
    CJEError
        Where there are too few labels, or the file is damaged.
    """
    path = models_path(work_dir, name)
    if not path.exists():
        try:
            models = _identity(config) if config.oracle_config is None else _fitted(estimators())
        except CJEError:
            if config.dataset.limit is None:
                raise
            return None
        head = {"format": FORMAT, "version": FORMAT_VERSION, "fingerprint": name}
        write_atomically(path, (json.dumps({**head, **models.to_dict()}) + "\n").encode())
    return _read(path, name)


def _fitted(estimators: Mapping[str, OffPolicyEstimator]) -> RewardModels:
    """The models of all estimators."""
    made = [estimator.calibrate() for estimator in estimators.values()]
    by_target = {name: model for models in made for name, model in models.by_target.items()}
    return RewardModels(made[0].shared, by_target)


def _identity(config: PipelineConfig) -> RewardModels:
    """Reward = judge score, in every fold and for every target."""
    line = RewardModel(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    model = CrossFittedRewardModel(
        line, (line,) * config.calibration.n_folds, ModeSelection.forced("monotone")
    )
    return RewardModels(model, {policy.name: model for policy in config.target_policies})


def _read(path: Path, name: str) -> RewardModels:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        head = [content[key] for key in ("format", "version", "fingerprint")]
        if head != [FORMAT, FORMAT_VERSION, name]:
            raise ValueError(f"unexpected header {head}")
        return RewardModels.from_dict(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CJEError(
            "the stored reward models are damaged", where=str(path), value=error,
            hint="delete the file and run the same command again: it is made again without a call",
        ) from error  # fmt: skip


def calibrated_rewards(
    work_dir: Path,
    name: str,
    rows: RowStream,
    config: PipelineConfig,
    fresh: Mapping[str, RowStream] | None,
) -> NDArray[np.float64]:
    """The reward of every row as the estimators use it, out of fold; NaN for error rows."""
    estimators = configured_estimators(
        logged_dataset(rows, config),
        None if fresh is None else fresh_dataset(fresh, config),
        config,
        noise=measured_noise(rows),
    )
    models = stored_models(work_dir, name, config, lambda: estimators)
    rewards = np.full(len(rows), np.nan)
    if models is not None:
        usable = rows.columns("error")["error"].is_null().to_numpy()
        first = next(iter(estimators.values()))
        rewards[usable] = first.prepare(models).rewards.out_of_fold
    return rewards
