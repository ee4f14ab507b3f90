"""`analyze_dataset` with logged data: every estimator from files, labels, covariates, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import cje.simulate as simulate
from cje import CJEError, analyze_dataset
from cje.data import Dataset
from cje.estimators import REGISTRY, EstimationResult

SIM = simulate.logged_with_logprobs(400, 150, seed=2, targets={"near": 0.9, "far": 0.6})


def _table(data: Dataset) -> pl.DataFrame:
    columns = {
        "prompt_id": data.prompt_id.decode(),
        "policy": data.policy.decode(),
        "judge_score": data.judge_score,
        "oracle_label": pl.Series(data.oracle_label).fill_nan(None),
        "response_length": np.arange(len(data)) % 37 + 1.0,
    }
    frame = pl.DataFrame(columns)
    if data.target_policy_logprobs is None:
        return frame
    ratios = {name: data.target_policy_logprobs[:, k] for k, name in enumerate(("near", "far"))}
    return frame.with_columns(
        base_policy_logprob=pl.Series(data.base_policy_logprob),
        target_policy_logprobs=pl.DataFrame(ratios).to_struct(),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("data")
    assert SIM.fresh is not None
    _table(SIM.dataset).write_ndjson(folder / "logged.jsonl")
    _table(SIM.fresh).write_ndjson(folder / "fresh.jsonl")
    return folder / "logged.jsonl", folder / "fresh.jsonl"


@pytest.mark.parametrize(
    "name", [entry.name for entry in REGISTRY.values() if entry.needs in ("logged", "both")]
)
def test_every_off_policy_estimator_runs_from_files_and_survives_json(
    name: str, files: tuple[Path, Path]
) -> None:
    logged, fresh = files
    needs_fresh = REGISTRY[name].needs == "both"
    result = analyze_dataset(fresh if needs_fresh else None, logged_data=logged, estimator=name)
    assert result.metadata["target_policies"] == ["near", "far"]
    again = EstimationResult.from_json(result.to_json())
    assert again.ci() == result.ci()
    assert again.compare_policies("far", "near").interval == (
        result.compare_policies("far", "near").interval
    )
    assert [str(f) for f in again.findings] == [str(f) for f in result.findings]
    for policy, (low, high) in zip(result.policies, result.ci(), strict=True):
        assert low - 0.06 < SIM.truth[policy] < high + 0.06


def test_labels_from_a_file_of_their_own_join_the_logged_rows(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    logged, _ = files
    rows = pl.read_ndjson(logged)
    labels = tmp_path / "labels.csv"
    rows.select("prompt_id", "oracle_label").drop_nulls().write_csv(labels)
    bare = tmp_path / "bare.jsonl"
    rows.drop("oracle_label").write_ndjson(bare)
    joined = analyze_dataset(logged_data=bare, labels=labels, on="prompt_id")
    whole = analyze_dataset(logged_data=logged)
    np.testing.assert_allclose(joined.estimates, whole.estimates, atol=1e-12)


def test_covariates_reach_the_calibration(files: tuple[Path, Path]) -> None:
    logged, fresh = files
    options = {"calibration_mode": "two_stage"}
    plain, helped = (
        analyze_dataset(
            fresh,
            logged_data=logged,
            estimator="dr-cpo",
            covariates=covariates,
            estimator_options=options,
        )
        for covariates in ((), ("response_length",))
    )
    assert (plain.estimates != helped.estimates).all()


def test_calibration_data_an_estimator_cannot_use_are_not_ignored(
    files: tuple[Path, Path],
) -> None:
    logged, fresh = files
    with pytest.raises(CJEError, match="no use for further calibration data"):
        analyze_dataset(fresh, logged_data=logged, calibration_data=logged, estimator="tmle")


def test_a_refusal_within_a_subgroup_stays_on_its_value_and_a_tiny_level_costs_only_itself() -> (
    None
):
    sim = simulate.logged_with_logprobs(900, 300, seed=1, targets={"near": 0.9, "far": 0.002})
    sizes = ["a"] * 500 + ["b"] * 390 + ["tiny"] * 10
    logged = sim.dataset.with_columns(domain=sizes)
    part = analyze_dataset(logged_data=logged, estimator="snips", by="domain").subgroups["domain"]
    assert part.policies == ("near | a", "far | a", "near | b", "far | b")
    assert set(part.refused()) == {"far | a", "far | b"}
    left = [f for f in part.findings if f.code == "subgroup-left-out"]
    assert [f.subject for f in left] == ["domain=tiny"]
