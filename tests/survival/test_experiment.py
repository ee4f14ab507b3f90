"""The experiment: the truth comes out calibrated, runs resume, tables and figures appear."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cje.errors import CJEError, MissingExtraError
from cje.survival import fit_baseline
from cje.survival.experiment import (
    DEFAULT_SEEDS,
    CoxPHBaseline,
    ExperimentConfig,
    KnownRisk,
    MetricEvaluator,
    NeuralCox,
    RandomSurvivalForestBaseline,
    load_config,
    run_experiment,
    simulate_survival,
)
from cje.survival.experiment import runner as runner_module
from cje.survival.experiment.paired import paired_effects, threshold_regions
from cje.survival.experiment.runner import pending, plan, run_one


def _config(out: Path, **changes: Any) -> ExperimentConfig:
    settings: dict[str, Any] = {
        "out": out,
        "scenarios": ["gaussian"],
        "models": ["true_risk", "cox"],
        "seeds": [42, 123],
        "n": 300,
    }
    return ExperimentConfig.model_validate(settings | changes)


def test_the_default_seeds_are_the_twenty_of_the_study() -> None:
    assert len(set(DEFAULT_SEEDS)) == 20
    assert DEFAULT_SEEDS[:5] == [42, 123, 456, 789, 1011]
    assert ExperimentConfig(out=Path("x")).seeds == tuple(DEFAULT_SEEDS)


@pytest.mark.parametrize("scenario", ["gaussian", "lognormal", "categorical", "nonlinear"])
@pytest.mark.parametrize("target", [0.0, 0.3, 0.8])
def test_censoring_meets_its_target(scenario: Any, target: float) -> None:
    shares = [
        1 - simulate_survival(scenario, 2000, seed=s, censoring=target).event.mean()
        for s in range(3)
    ]
    assert np.mean(shares) == pytest.approx(target, abs=0.02)


def test_the_copula_is_used_and_categories_carry_signal() -> None:
    gaussian = simulate_survival("gaussian", 20_000, seed=1, correlation=0.6)
    assert np.corrcoef(gaussian.x[:, 0], gaussian.x[:, 1])[0, 1] == pytest.approx(0.6, abs=0.03)
    assert np.corrcoef(gaussian.x[:, 0], gaussian.x[:, 2])[0, 1] == pytest.approx(0.36, abs=0.03)
    lognormal = simulate_survival("lognormal", 20_000, seed=1, correlation=0.6)
    assert np.corrcoef(lognormal.x[:, 0], lognormal.x[:, 1])[0, 1] > 0.3
    independent = simulate_survival("gaussian", 20_000, seed=1, correlation=0.0)
    weights = np.linalg.lstsq(independent.x, independent.log_risk, rcond=None)[0]
    np.testing.assert_allclose(weights[10:], 0.0, atol=1e-10)
    assert np.abs(weights[:10]).max() <= 1
    categorical = simulate_survival("categorical", 5000, seed=1)
    assert categorical.x.shape == (5000, 50)
    np.testing.assert_array_equal(categorical.x.reshape(5000, 5, 10).sum(axis=2), 1.0)
    for variable in range(5):
        block = categorical.x[:, 10 * variable : 10 * variable + 10]
        means = block.T @ categorical.log_risk / block.sum(axis=0)
        assert means.std() > 0.2


def test_true_linear_predictor_with_a_training_baseline_is_calibrated() -> None:
    rows = []
    for seed in range(25):
        data = simulate_survival("gaussian", 1000, seed=seed)
        train, test = np.arange(600), np.arange(600, 1000)
        eta = data.log_risk[:, None]
        model = KnownRisk().fit(eta[train], data.time[train], data.event[train])
        evaluator = MetricEvaluator(data.time[train], data.event[train])
        result = model.evaluate(eta[test], data.time[test], data.event[test], evaluator)
        rows.append([result.calibration_in_the_large, result.oe_at_horizon,
                     result.calibration_slope, result.ici, result.ici_null])  # fmt: skip
    oe, horizon, slope, ici, null = np.mean(rows, axis=0)
    assert oe == pytest.approx(1.0, abs=0.05)
    assert horizon == pytest.approx(1.0, abs=0.05)
    assert slope == pytest.approx(1.0, abs=0.04)
    assert ici < 1.25 * null  # the baseline is estimated too


def test_cox_baseline_equals_lifelines() -> None:
    pd = pytest.importorskip("pandas")
    lifelines = pytest.importorskip("lifelines")
    data = simulate_survival("gaussian", 400, seed=3)
    frame = pd.DataFrame(data.x).add_prefix("x").assign(T=data.time, E=data.event)
    other = lifelines.CoxPHFitter().fit(frame, "T", "E", fit_options={"precision": 1e-12})
    mine = CoxPHBaseline(ridge=0.0).fit(data.x, data.time, data.event)
    times = np.sort(data.time[data.event])[[20, 100, 200]]  # lifelines interpolates in between
    np.testing.assert_allclose(
        mine.predict_survival(data.x[:20], times),
        other.predict_survival_function(frame.iloc[:20], times=times).to_numpy().T,
        atol=1e-6,
    )
    np.testing.assert_allclose(mine.coef_ / mine.scale_, other.params_.to_numpy(), atol=1e-5)


def test_forest_and_network_predict_survival_and_evaluate() -> None:
    pytest.importorskip("sksurv")
    pytest.importorskip("torch")
    data = simulate_survival("nonlinear", 400, seed=4)
    train, test = data.rows(np.arange(250)), data.rows(np.arange(250, 400))
    evaluator = MetricEvaluator(train.time, train.event)
    for model in (RandomSurvivalForestBaseline(20, 10), NeuralCox(8, epochs=40)):
        model.fit(train.x, train.time, train.event)
        times = np.array([0.0, 0.5, 1.0, 5.0])
        survival = model.predict_survival(test.x, times)
        assert survival[:, 0] == pytest.approx(1.0)
        assert (np.diff(survival, axis=1) <= 1e-12).all()
        own = model.predict_own_survival(test.x, test.time)
        full = model.predict_survival(test.x, test.time)
        np.testing.assert_allclose(own, np.diag(full), atol=1e-12)
        result = model.evaluate(test.x, test.time, test.event, evaluator)
        assert result.reasons == {}
        assert result.c_index is not None
        assert result.c_index > 0.55
        assert result.ici is not None
        assert result.calibration_slope is not None


def test_the_network_is_reproducible_and_fits_more_when_wider() -> None:
    pytest.importorskip("torch")
    data = simulate_survival("gaussian", 200, seed=5)
    first, second = (NeuralCox(16, epochs=30).fit(data.x, data.time, data.event) for _ in "ab")
    np.testing.assert_array_equal(first.predict_log_risk(data.x), second.predict_log_risk(data.x))
    wide = NeuralCox(200, epochs=200).fit(data.x, data.time, data.event)
    narrow = NeuralCox(1, epochs=200).fit(data.x, data.time, data.event)
    assert wide.loss_ < narrow.loss_ - 0.5
    assert narrow.n_parameters(20) == 22


def test_an_undefined_metric_is_none_with_its_reason() -> None:
    data = simulate_survival("gaussian", 200, seed=6)
    evaluator = MetricEvaluator(data.time, data.event)

    class Constant:
        def predict_survival(self, x: Any, times: Any) -> Any:
            return np.full((len(x), len(times)), 0.5)

        def predict_own_survival(self, x: Any, time: Any) -> Any:
            return np.full(len(x), 0.5)

    result = evaluator.evaluate(Constant(), data.x, data.time, data.event)
    assert result.calibration_slope is None
    assert "the same" in result.reasons["calibration_slope"]
    assert result.c_index == 0.5


def test_finished_runs_are_on_disk_and_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = _config(tmp_path / "out")
    calls: list[str] = []

    def counted(run: Any) -> dict[str, Any]:
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(run.key)
        return run_one(run)

    monkeypatch.setattr(runner_module, "run_one", counted)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(config)
    assert len(list((tmp_path / "out" / "runs").glob("*.json"))) == 2
    assert len(pending(config)) == len(plan(config)) - 2
    monkeypatch.setattr(runner_module, "run_one", run_one)
    run_experiment(config)
    interrupted = (tmp_path / "out" / "runs.csv").read_bytes()
    assert pending(config) == []
    straight = _config(tmp_path / "straight")
    run_experiment(straight)
    assert (tmp_path / "straight" / "runs.csv").read_bytes() == interrupted
    # a damaged record is redone, and a changed setting is another run
    damaged = next((tmp_path / "out" / "runs").glob("*.json"))
    damaged.write_text("{")
    assert len(pending(config)) == 1
    assert len(pending(_config(tmp_path / "out", n=301))) == len(plan(config))


def test_processes_do_not_change_the_numbers(tmp_path: Path) -> None:
    one, two = _config(tmp_path / "one"), _config(tmp_path / "two", processes=2)
    run_experiment(one)
    run_experiment(two)
    for name in ("runs.csv", "summary.csv"):
        assert (one.out / name).read_bytes() == (two.out / name).read_bytes()


def test_a_failed_run_is_named_and_withholds_no_table_or_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cje.cli.survival import app

    config = _config(tmp_path)

    def fails(run: Any) -> dict[str, Any]:
        if run.model == "cox":
            raise CJEError("the Cox model did not converge")
        return run_one(run)

    monkeypatch.setattr(runner_module, "run_one", fails)
    paths = run_experiment(config)
    with paths["failures"].open() as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 2
    assert all("did not converge" in row["reason"] for row in rows)
    with paths["runs"].open() as handle:
        assert {row["model"] for row in csv.DictReader(handle)} == {"true_risk"}
    assert paths["models"].is_file()
    assert len(pending(config)) == 2
    path = tmp_path / "c.yaml"
    path.write_text(
        f"out: {tmp_path}\nscenarios: [gaussian]\nmodels: [true_risk, cox]\n"
        "seeds: [42, 123]\nn: 300\n"
    )
    done = CliRunner().invoke(app, ["run", str(path)])
    assert done.exit_code == 2
    assert "failures.csv" in done.output
    monkeypatch.setattr(runner_module, "run_one", run_one)
    assert "failures" not in run_experiment(config)
    assert not (tmp_path / "failures.csv").exists()
    monkeypatch.setattr(runner_module, "run_one", lambda run: fails(replace(run, model="cox")))
    with pytest.raises(CJEError, match="every run failed"):
        run_experiment(_config(tmp_path / "new"))


def test_two_penalties_and_two_models_are_compared_seed_by_seed() -> None:
    rows = [
        {"scenario": "gaussian", "split": "test", "model": model, "width": width,
         "weight_decay": penalty, "seed": seed, "ici": base + 0.1 * seed + gain * (1 + 0.1 * seed),
         "c_index": 0.7, "ibs": None, "calibration_slope": 0.5, "calibration_in_the_large": 1.0}
        for model, width, penalty, base, gain in (
            ("cox", None, None, 0.0, 0.0), ("forest", None, None, 0.0, 0.01),
            ("neural", 8, 0.0, 0.0, 0.0), ("neural", 8, 0.1, 0.0, -0.02),
            ("neural", 16, 0.0, 0.0, 0.3),
        )
        for seed in range(10)
    ]  # fmt: skip
    effects = paired_effects(rows)
    ici = {(e["first"], e["second"]): e for e in effects if e["metric"] == "ici"}
    assert set(ici) == {
        ("cox", "forest"),
        ("neural-8 (weight decay 0)", "neural-8 (weight decay 0.1)"),
    }
    effect = ici[("neural-8 (weight decay 0)", "neural-8 (weight decay 0.1)")]
    gaps = 0.02 * (1 + 0.1 * np.arange(10))
    assert effect["difference"] == pytest.approx(gaps.mean())
    stats = pytest.importorskip("scipy.stats")
    assert effect["p"] == pytest.approx(stats.ttest_1samp(gaps, 0.0).pvalue)
    assert effect["low"] < effect["difference"] < effect["high"]
    assert effect["p_holm"] == pytest.approx(min(1.0, 2 * effect["p"]))
    for row in effects:
        if row["metric"] == "c_index":
            assert row["p"] == 1.0
        if row["metric"] == "ibs":
            assert (row["n"], row["p"]) == (0, None)


def test_the_threshold_region_is_measured_on_the_training_fit() -> None:
    summary = [
        {"scenario": "gaussian", "width": width, "weight_decay": 0.0, "split": "train",
         "metric": "c_index", "mean": mean, "n_parameters": 10 * width, "n_train_events": 60.0}
        for width, mean in ((1, 0.7), (2, 0.96), (4, 0.99), (8, 0.9995))
    ]  # fmt: skip
    (region,) = threshold_regions(summary)
    assert (region["counted_low"], region["counted_high"]) == (30.0, 120.0)
    assert (region["measured_low"], region["measured_high"]) == (20, 80)
    assert threshold_regions(summary[:1])[0]["measured_low"] is None


def test_the_number_of_levels_is_configurable() -> None:
    data = simulate_survival("categorical", 400, seed=1, levels=4)
    assert data.x.shape == (400, 20)
    with pytest.raises(ValueError, match="levels"):
        ExperimentConfig(out=Path("x"), levels=1)
    settings = json.loads(plan(_config(Path("x"), levels=4))[0].settings)
    assert settings["levels"] == 4


def test_a_network_trained_until_its_risks_are_hundreds_apart_is_still_assessed() -> None:
    rng = np.random.default_rng(0)
    log_risk = 400.0 * rng.normal(size=60)
    time, event = rng.exponential(size=60), np.ones(60, dtype=bool)
    baseline = fit_baseline(log_risk, time, event)
    own = baseline.own_survival(log_risk, time)
    assert np.isfinite(own).all()
    # each death's hazard increments sum to the number of deaths over all rows (Breslow)
    hazard = np.exp(log_risk + baseline._log_at(time))
    assert hazard.sum() == pytest.approx(60.0)


def test_command_writes_tables_and_figures(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from cje.cli.main import app

    path = tmp_path / "config.yaml"
    path.write_text(
        "out: results\nscenarios: [gaussian]\nmodels: [true_risk, neural]\nseeds: [1, 2]\n"
        "n: 200\nneural: {widths: [2, 40], epochs: 20}\n"
    )
    result = CliRunner().invoke(app, ["survival", "run", str(path)])
    assert result.exit_code == 0, result.output
    out = tmp_path / "results"
    with (out / "runs.csv").open() as handle:
        runs = list(csv.DictReader(handle))
    assert len(runs) == 2 * 3 * 3  # seeds x (true + two widths) x splits
    for name in ("calibration_in_the_large", "calibration_slope", "ici", "c_index", "ibs"):
        assert all(row[name] for row in runs if row["model"] == "true_risk")
    with (out / "summary.csv").open() as handle:
        summary = list(csv.DictReader(handle))
    line = next(
        r for r in summary
        if r["metric"] == "ici" and r["model"] == "true_risk" and r["split"] == "test"
    )  # fmt: skip
    values = [float(r["ici"]) for r in runs if r["model"] == "true_risk" and r["split"] == "test"]
    assert float(line["mean"]) == pytest.approx(np.mean(values))
    assert float(line["sd"]) == pytest.approx(np.std(values, ddof=1))
    assert float(line["se"]) == pytest.approx(np.std(values, ddof=1) / np.sqrt(2))
    assert line["n"] == "2"
    for name in ("models.png", "width_gaussian.png"):
        assert (out / "figures" / name).read_bytes().startswith(b"\x89PNG")


def test_example_configuration_is_valid(tmp_path: Path) -> None:
    from cje.cli.main import app

    text = CliRunner().invoke(app, ["survival", "example"]).output
    path = tmp_path / "c.yaml"
    path.write_text(text)
    assert load_config(path).out == tmp_path / "survival-results"


@pytest.mark.parametrize(
    "text",
    [
        "", "[1, 2]", "out: x\nseed: 3", "out: x\nscenarios: [weird]", "out: x\nn: -5",
        "out: x\nseeds: [1, 1]", "out: x\nneural: {widths: []}", "{", "n: 100",
        "out: x\ntrain_share: 0.8\nvalidation_share: 0.4", "out: x\nseeds: [-1]",
    ],
)  # fmt: skip
def test_bad_configurations_are_refused_with_the_field(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(CJEError, match=r"c\.yaml"):
        load_config(path)
    with pytest.raises(CJEError, match="cannot be read"):
        load_config(tmp_path)


def test_records_hold_no_nan(tmp_path: Path) -> None:
    record = run_one(plan(_config(tmp_path))[0])
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_what_would_stop_a_later_run_is_reported_before_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sksurv.ensemble", None)
    config = _config(tmp_path / "out", models=["cox", "forest"])
    with pytest.raises(MissingExtraError, match=r"forest.*survival"):
        run_experiment(config)
    assert len(pending(config)) == len(plan(config))
    (tmp_path / "file").write_text("")
    with pytest.raises(CJEError, match="folder cannot be made"):
        run_experiment(_config(tmp_path / "file"))


def test_the_network_is_in_the_default_plan_only_where_torch_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cje.survival.experiment.config.find_spec", lambda name: None)
    assert ExperimentConfig(out=Path("x")).models == ("true_risk", "cox", "forest")
    monkeypatch.setattr("cje.survival.experiment.config.find_spec", lambda name: name)
    assert ExperimentConfig(out=Path("x")).models[-1] == "neural"


def test_a_killed_command_leaves_no_workers_and_resumes_without_repeating(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "out: out\nscenarios: [gaussian]\nmodels: [true_risk]\nn: 200\nprocesses: 2\n"
        f"seeds: {list(range(60))}\n"
    )
    command = [sys.executable, "-m", "cje.cli.main", "survival", "run", str(path)]
    records = tmp_path / "out" / "runs"
    # the workers inherit this pipe: it ends when the last of them has
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(records.glob("*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    config = load_config(path)
    before = {p.name: p.stat().st_mtime_ns for p in records.glob("*.json")}
    assert 3 <= len(before) < 60
    assert len(pending(config)) == 60 - len(before)
    run_experiment(config.model_copy(update={"processes": 1}))
    after = {p.name: p.stat().st_mtime_ns for p in records.glob("*.json")}
    assert len(after) == 60
    assert {name: after[name] for name in before} == before
