"""The calibration stage is the one place where a run calibrates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cje import analyze_dataset
from cje.errors import CJEError
from cje.pipeline import CJEPipeline, PipelineResult
from cje.pipeline.chunks import Chunk, RowStream, load_chunk
from cje.pipeline.config import PipelineConfig, load_config
from cje.pipeline.stages.columns import fresh_dataset, logged_dataset
from tests.pipeline.scenes import ngram_settings, write_config, write_prompts

ESTIMATORS = ("calibrated-ips", "snips", "dr-cpo", "mrdr", "tmle", "tr-cpo", "stacked-dr")


def _config(folder: Path, **changes: Any) -> PipelineConfig:
    settings = {
        **ngram_settings(),
        "fresh_draws": {"draws_per_context": 1},
        "estimation": {"estimators": list(ESTIMATORS)},
    }
    return load_config(write_config(folder, settings, **changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[PipelineConfig, PipelineResult]:
    folder = tmp_path_factory.mktemp("run")
    write_prompts(folder, 120)
    config = _config(folder)
    return config, CJEPipeline(config).run()


def _stream(config: PipelineConfig, entry: str, stage: str) -> RowStream:
    """The rows that a stage left in the work folder."""
    manifest = json.loads((Path(config.work_dir) / "manifest.json").read_text())
    chunks = tuple(Chunk(stage=stage, bytes=0, **c) for c in manifest["stages"][entry]["chunks"])
    return RowStream(Path(config.work_dir), stage, chunks)


def _models(config: PipelineConfig) -> Path:
    (path,) = (Path(config.work_dir) / "chunks" / "calibration").glob("*.json")
    return path


def test_a_corrupted_reward_model_moves_every_estimate_that_uses_rewards(tmp_path: Path) -> None:
    write_prompts(tmp_path, 120)
    config = _config(tmp_path)
    before = CJEPipeline(config).run()
    path = _models(config)
    content = json.loads(path.read_text())
    for model in (content["shared"], *content["by_target"].values()):
        for part in (model["full"], *model["folds"]):
            part["y_knots"] = [y**2 for y in part["y_knots"]]
    path.write_text(json.dumps(content))
    after = CJEPipeline(config).run()
    for name in ESTIMATORS:
        moved = np.abs(after.results[name].estimates - before.results[name].estimates)
        assert (moved > 1e-6).all(), name


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_run_and_analyze_dataset_agree_to_the_last_bit(
    name: str, finished: tuple[PipelineConfig, PipelineResult]
) -> None:
    config, result = finished
    logged = logged_dataset(_stream(config, "target_policy", "target_policy"), config)
    fresh = fresh_dataset(
        {p.name: _stream(config, f"fresh judged of {p.name}", "judge")
         for p in config.target_policies},
        config,
    )  # fmt: skip
    both = name not in ("calibrated-ips", "snips")
    found = analyze_dataset(
        fresh if both else None,
        logged_data=logged,
        estimator=name,
        seed=config.seed,
        level=config.estimation.level,
        estimator_options={"n_folds": config.calibration.n_folds},
    )
    ours = result.results[name]
    assert found.estimates.tobytes() == ours.estimates.tobytes()
    assert found.robust_standard_errors.tobytes() == ours.robust_standard_errors.tobytes()
    assert found.ci() == ours.ci()


def test_the_reward_column_is_what_the_estimators_used(
    finished: tuple[PipelineConfig, PipelineResult],
) -> None:
    config, result = finished
    rows = _stream(config, "calibration", "calibration")
    reward = rows.columns("reward", "oracle_label")
    evidence = result.first.evidence
    assert evidence is not None
    used = reward["reward"].to_numpy()[evidence.labelled]
    np.testing.assert_array_equal(used, evidence.predicted)


def test_stored_models_carry_the_fingerprint_of_their_stage(
    finished: tuple[PipelineConfig, PipelineResult],
) -> None:
    config, _ = finished
    manifest = json.loads((Path(config.work_dir) / "manifest.json").read_text())
    content = json.loads(_models(config).read_text())
    assert content["fingerprint"] == manifest["stages"]["calibration"]["fingerprint"]
    assert set(content["by_target"]) == {"near", "far"}  # of mrdr
    for stage in ("dataset", "logging_policy", "judge", "oracle", "target_policy", "calibration"):
        assert manifest["stages"][stage]["rows"] == 120
    first = manifest["stages"]["calibration"]["chunks"][0]["name"]
    assert "reward" in load_chunk(Path(config.work_dir), "calibration", first)[0]


@pytest.mark.parametrize("damage", ["{", '{"format": "other"}', "[]"])
def test_a_damaged_model_file_is_refused_with_its_path(tmp_path: Path, damage: str) -> None:
    write_prompts(tmp_path, 60)
    config = _config(tmp_path, estimation={"estimators": ["snips"]}, fresh_draws=None)
    CJEPipeline(config).run()
    _models(config).write_text(damage)
    with pytest.raises(CJEError, match="reward models are damaged"):
        CJEPipeline(config).run()
    _models(config).unlink()
    assert np.isfinite(CJEPipeline(config).run().first.estimates).all()
