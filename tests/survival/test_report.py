"""`survival_report` takes what people have and reports what a reviewer asks for."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cje.cli.survival import app
from cje.errors import CJEError
from cje.survival import (
    calibration_in_the_large,
    compare_survival,
    net_benefit,
    paired_difference,
    survival_report,
)
from cje.survival.assessed import SurvivalReport
from tests.survival.r_values import r_values, table

GBSG, MGUS2 = table("gbsg"), table("mgus2")
GRID = np.linspace(0.1, 4.0, 40)


def _data(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    eta = 0.8 * rng.normal(size=n)
    latent, limit = rng.exponential(np.exp(-eta)), rng.uniform(0.5, 3.9, n)
    matrix = np.exp(-np.exp(eta)[:, None] * GRID)
    return matrix, np.minimum(latent, limit), (latent <= limit).astype(int), eta


def _values(report: SurvivalReport) -> dict[str, float]:
    return {m.label: m.value for m in report.metrics}


def test_every_form_of_prediction_gives_the_same_numbers() -> None:
    pd = pytest.importorskip("pandas")
    matrix, time, event, _ = _data()
    horizons = [GRID[4], GRID[9]]
    wanted = _values(survival_report(matrix, (time, event), horizons, times=GRID))
    assert {"O/E", "Harrell C", "ICI at 0.5", "ICI at 1", "E50 at 1", "Emax at 0.5"} <= set(wanted)
    structured = np.array(
        list(zip(event == 1, time, strict=True)), dtype=[("cens", "?"), ("t", "<f8")]
    )
    steps = [SimpleNamespace(x=GRID, y=row) for row in matrix]
    curves = [
        (pd.DataFrame(matrix.T, index=GRID), (time, event)),  # lifelines, pycox
        (pd.DataFrame(matrix, columns=GRID), pd.DataFrame({"T": time, "E": event})),
        (steps, structured),  # scikit-survival
        (np.array(steps, dtype=object), {"duration": time, "status": event}),
    ]
    for predictions, y in curves:
        assert _values(survival_report(predictions, y, horizons)) == pytest.approx(wanted)
    del wanted["O/E"]  # needs curves
    at: Any = {t: matrix[:, j] for t, j in zip(horizons, (4, 9), strict=True)}
    for predictions in (at, matrix[:, [4, 9]]):
        assert _values(survival_report(predictions, (time, event), horizons)) == pytest.approx(
            wanted
        )


def test_lifelines_and_scikit_survival_predictions_are_read_as_they_come() -> None:
    pd = pytest.importorskip("pandas")
    lifelines = pytest.importorskip("lifelines")
    ensemble = pytest.importorskip("sksurv.linear_model")
    util = pytest.importorskip("sksurv.util")
    _, time, event, eta = _data()
    frame = pd.DataFrame({"eta": eta, "T": time, "E": event})
    model = lifelines.CoxPHFitter().fit(frame, "T", "E")
    first = survival_report(model.predict_survival_function(frame), frame[["T", "E"]], [1.0])
    y = util.Surv.from_arrays(event == 1, time)
    other = ensemble.CoxPHSurvivalAnalysis(ties="efron").fit(eta[:, None], y)
    second = survival_report(other.predict_survival_function(eta[:, None]), y, [1.0])
    assert _values(first) == pytest.approx(_values(second), abs=2e-4)
    assert float(first["O/E"]) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("predictions", "y", "match"),
    [
        (np.full((5, 3), 0.5), (np.arange(1.0, 6), np.ones(5)), "one column per horizon"),
        (np.full((5, 1), 0.5), "rubbish", "not recognised as follow-up"),
        (np.full((5, 1), 0.5), {"a": [1], "b": [2]}, "no column is recognised"),
        ({2.0: np.full(5, 0.5)}, (np.arange(1.0, 6), np.ones(5)), "lack a horizon"),
    ],
)
def test_what_is_not_recognised_is_refused(predictions: Any, y: Any, match: str) -> None:
    with pytest.raises(CJEError, match=match):
        survival_report(predictions, y, [3.0])


def test_curves_that_rise_or_end_early_are_refused() -> None:
    matrix, time, event, eta = _data()
    with pytest.raises(CJEError, match="increases with time"):
        survival_report(1 - matrix, (time, event), [1.0], times=GRID)
    with pytest.raises(CJEError, match="after the last time"):
        survival_report(matrix[:, :5], (time, event), [1.0], times=GRID[:5])
    fine = np.linspace(0.02, 3.4, 170)
    curves = np.exp(-np.exp(eta)[:, None] * fine)
    nearly = survival_report(curves, (time, event), [1.0], times=fine)
    assert "curve-ends-early" in [f.code for f in nearly.findings]
    assert float(nearly["O/E"]) == pytest.approx(1.0, abs=0.15)


def test_two_horizons_have_distinct_labels_on_the_page() -> None:
    matrix, time, event, _ = _data()
    report = survival_report(matrix, (time, event), [0.5, 1.0], times=GRID)
    labels = [m.label for m in report.metrics]
    assert len(set(labels)) == len(labels)
    page = report.to_html()
    for label in ("ICI at 0.5", "ICI at 1", "Brier score at 1"):
        assert label in page
    assert "Net benefit, t = 1" in page
    assert json.loads(report.to_json())["metrics"][0]["label"] == labels[0]
    assert "AUC at 1" in str(report)
    with pytest.raises(CJEError, match="available metrics"):
        report["nothing"]


def test_competing_risks_and_delayed_entry_omit_only_what_they_must() -> None:
    competing = survival_report(
        {60: 1 - MGUS2["fg60"], 120: 1 - MGUS2["fg120"]}, (MGUS2["time"], MGUS2["status"]),
        [60, 120], cause=1,
    )  # fmt: skip
    assert competing.n_competing == int((MGUS2["status"] == 2).sum())
    assert set(competing.omitted) == {"Harrell C", "O/E"}
    assert float(competing["O/E at 120"]) == pytest.approx(r_values()["mgus2"]["oe"][1], abs=1e-9)
    late = survival_report(
        GBSG["s3"], (GBSG["entry"], GBSG["years"], GBSG["event"]), 3.0, risk_scores=GBSG["lp"]
    )
    assert set(late.omitted) == {
        "O/E", "Brier score at 3", "IPA at 3", "AUC at 3", "net benefit at 3",
    }  # fmt: skip
    slope = r_values()["gbsg"]["slope_entry"]["coef"]
    assert float(late["calibration slope"]) == pytest.approx(slope, abs=1e-9)
    assert "does not support delayed entry" in late.omitted["Brier score at 3"]


def test_net_benefit_on_gbsg_equals_its_definition_in_r() -> None:
    (result,) = net_benefit(GBSG["s5"], GBSG["years"], GBSG["event"], 5.0, thresholds=[0.23])
    assert result.value == pytest.approx(r_values()["gbsg"]["net_benefit_23"], abs=1e-9)
    assert result.value in result.interval
    with pytest.raises(CJEError, match="threshold"):
        net_benefit(GBSG["s5"], GBSG["years"], GBSG["event"], 5.0, thresholds=[1.0])


def test_paired_differences_equal_risk_regressions_contrasts() -> None:
    result = compare_survival(
        1 - MGUS2["cs120"], 1 - MGUS2["fg120"], (MGUS2["time"], MGUS2["status"]), [120], cause=1,
        names=("cs", "fg"),
    )  # fmt: skip
    mine = {d.name: d for d in result.differences}
    contrast = r_values()["mgus2"]["contrast"]
    brier = next(r for r in contrast["brier"] if r["model"] == "cs" and r["reference"] == "fg")
    assert mine["Brier score at 120"].value == pytest.approx(brier["delta.Brier"], abs=1e-10)
    assert mine["Brier score at 120"].standard_error == pytest.approx(brier["se"], rel=0.01)
    assert mine["Brier score at 120"].p_value == pytest.approx(brier["p"], abs=0.01)
    auc = contrast["auc"][0]
    assert mine["AUC at 120"].value == pytest.approx(auc["delta.AUC"], abs=1e-10)
    assert mine["AUC at 120"].standard_error == pytest.approx(auc["se"], rel=0.01)
    assert "cs against fg" in result.report().to_html()
    assert "cs minus fg" in str(result)


def test_a_model_does_not_differ_from_itself_and_different_rows_are_refused() -> None:
    matrix, time, event, _ = _data()
    result = compare_survival(matrix, matrix, (time, event), [1.0], times=GRID)
    for difference in result.differences:
        assert difference.value == 0.0
        assert difference.p_value == 1.0
        assert 0.0 in difference.interval
    a = calibration_in_the_large(matrix[:, 4], event)
    b = calibration_in_the_large(matrix[:-1, 4], event[:-1])
    with pytest.raises(CJEError, match="same rows"):
        paired_difference(a, b)
    with pytest.raises(CJEError, match="different metrics"):
        paired_difference(a, result.first["Harrell C"])


def _file(folder: Path) -> Path:
    matrix, time, event, _ = _data()
    path = folder / "preds.csv"
    columns = {"t": time, "e": event, "risk_0.5": 1 - matrix[:, 4], "risk_1": 1 - matrix[:, 9],
               "old_0.5": 1 - matrix[:, 4] ** 3, "old_1": 1 - matrix[:, 9] ** 3}  # fmt: skip
    rows = np.column_stack(list(columns.values()))
    np.savetxt(path, rows, delimiter=",", header=",".join(columns), comments="", fmt="%.17g")
    return path


def test_the_command_checks_one_model_and_compares_two(tmp_path: Path) -> None:
    path, page = _file(tmp_path), tmp_path / "page.html"
    usual = ["check", str(path), "--time", "t", "--event", "e", "--horizons", "0.5,1"]
    done = CliRunner().invoke(app, [*usual, "--report", str(page)])
    assert done.exit_code == 0, done.output
    assert "ICI at 0.5" in done.output
    assert "Horizon t = 1" in page.read_text(encoding="utf-8")
    done = CliRunner().invoke(app, [*usual, "--json"])
    assert {m["label"] for m in json.loads(done.stdout)["metrics"]} >= {"O/E at 1", "AUC at 0.5"}
    both = CliRunner().invoke(app, [*usual, "--risk", "risk_{t}", "--risk", "old_{t}"])
    assert "risk_{t} minus old_{t}" in both.output


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (["--time", "nothing"], "available columns"),
        (["--horizons", "soon"], "separated by commas"),
        (["--risk", "p_{t}"], "no such column"),
        (["--risk", "risk_1"], "needs {t}"),
    ],
)
def test_the_command_names_what_is_wrong(tmp_path: Path, change: list[str], match: str) -> None:
    usual = ["check", str(_file(tmp_path)), "--time", "t", "--event", "e", "--horizons", "0.5,1"]
    done = CliRunner().invoke(app, [*usual, *change])
    assert isinstance(done.exception, CJEError)
    assert match in str(done.exception)
