"""Reports, plots and notebook pieces of estimation results."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import cje.simulate as simulate
from cje.analysis import analyze_dataset
from cje.data import Dataset
from cje.errors import CJEError
from cje.estimators import EstimationResult
from cje.inference import Finding, InfluenceEstimate, Severity
from cje.report import Forest, ForestRow, HistogramPart, MatrixPart, SampleTable, Section
from cje.report.pictures import draw_forest
from cje.results.decimals import decimals_for_widths
from cje.results.report_answer import answer_of
from cje.results.report_evidence import _largest
from cje.results.report_parts import make_report


@pytest.fixture(scope="module")
def direct() -> EstimationResult:
    made = simulate.policies_on_shared_prompts(400, 3, 90, seed=2)
    n = len(made.dataset)
    data = made.dataset.with_columns(
        prompt=[f"question {i}" for i in range(n)],
        response=["word " * (i % 37 + 1) for i in range(n)],
        difficulty=np.arange(n) % 11 / 10.0,
        topic=[("maths", "code")[i % 2] for i in range(n)],
    )
    result = analyze_dataset(data, by="topic")
    return result.with_(metadata={"truth": {k: float(v) for k, v in made.truth.items()}})


@pytest.fixture(scope="module")
def logged() -> EstimationResult:
    targets = {"near": 0.85, "far": 0.03}
    made = simulate.logged_with_logprobs(1500, 400, targets=targets, seed=4)
    return analyze_dataset(logged_data=made.dataset)


def sections(result: EstimationResult) -> dict[str, object]:
    return {part.title: part for part in result.report_parts()}


def test_a_direct_report_has_every_section(direct: EstimationResult) -> None:
    found = sections(direct)
    assert {"Estimates", "Paired differences", "By topic", "Findings", "Residuals"} <= found.keys()
    assert {"Calibration of the judge", "Samples", "How it was made"} <= found.keys()
    residuals = found["Residuals"]
    assert isinstance(residuals, Section)
    assert [part.title for part in residuals.parts] == [
        "By judge score", "By policy", "By topic", "By difficulty", "By length of the response",
    ]  # fmt: skip
    facts = found["How it was made"]
    names = dict(facts.items)  # type: ignore[attr-defined]
    assert {"estimator", "level", "seed", "versions", "citation"} <= names.keys()
    assert re.fullmatch("[0-9a-f]{32}", names["fingerprint of the data"])


def test_forest_and_matrix_carry_the_results_numbers(direct: EstimationResult) -> None:
    found = sections(direct)
    forest, matrix = found["Estimates"], found["Paired differences"]
    assert isinstance(forest, Forest)
    assert isinstance(matrix, MatrixPart)
    for row, shown in zip(direct.rows(), forest.rows, strict=True):
        assert (shown.name, shown.value) == (row["policy"], row["estimate"])
        assert (shown.low, shown.high) == (row["low"], row["high"])
        assert shown.truth == direct.metadata["truth"][row["policy"]]
    place = {name: k for k, name in enumerate(matrix.names)}
    for c, p in direct.compare_all():
        cell = matrix.cells[place[c.a], place[c.b]]
        back = matrix.cells[place[c.b], place[c.a]]
        assert (cell.value, cell.low, cell.high, cell.p) == (c.difference, *c.interval, p)
        assert (back.value, back.low, back.high, back.p) == (-cell.value, -cell.high, -cell.low, p)


def test_residual_means_are_those_of_the_labelled_rows(direct: EstimationResult) -> None:
    evidence = direct.evidence
    assert evidence is not None
    data, rows = evidence.dataset, evidence.labelled
    residual = data.oracle_label[rows] - evidence.predicted
    part = sections(direct)["Residuals"].parts[1]  # type: ignore[attr-defined]
    for shown in part.rows:
        mine = residual[data.policy.codes[rows] == data.policy.code_of(shown.name)]
        assert shown.value == pytest.approx(mine.mean(), abs=1e-12)
        assert shown.mark == f"n = {len(mine)}"
        assert shown.low < shown.value < shown.high


def test_samples_are_the_largest_and_bounded(direct: EstimationResult) -> None:
    table = sections(direct)["Samples"]
    assert isinstance(table, SampleTable)
    assert len(table.rows) == 240
    evidence = direct.evidence
    assert evidence is not None
    gaps = np.abs(evidence.dataset.oracle_label[evidence.labelled] - evidence.predicted)
    names = [column.name for column in table.columns]
    shown = [abs(v) for row in table.rows if (v := row[names.index("residual")]) is not None]
    assert np.sort(shown)[-60:] == pytest.approx(np.sort(gaps)[-60:])
    assert max(len(str(row[names.index("response")])) for row in table.rows) <= 480


@pytest.mark.parametrize("n", [30, 60, 61, 500, 50_000])
@pytest.mark.parametrize("levels", [3, 40, 10**9])
def test_the_largest_are_the_largest_with_ties_to_the_earlier_rows(n: int, levels: int) -> None:
    values = np.random.default_rng(n).integers(levels, size=n).astype(float)
    expected = np.lexsort((np.arange(n), -values))[:60]
    assert sorted(_largest(values, 60).tolist()) == sorted(expected.tolist())


def test_weights_before_and_after_with_their_effective_sizes(logged: EstimationResult) -> None:
    part = sections(logged)["Weights and overlap"]
    assert isinstance(part, Section)
    histograms = [p for p in part.parts if isinstance(p, HistogramPart)]
    assert [h.title for h in histograms] == ["near", "far"]
    for histogram in histograms:
        assert [s.name for s in histogram.series] == ["raw weights", "projected on the judge score"]
        assert all(s.counts.sum() == 1500 for s in histogram.series)
    table = part.parts[-1]
    ess = logged.diagnostics["weights"]["near"]["ess"]
    assert table.rows[0][1] == f"{ess:,.0f}"  # type: ignore[union-attr]


def test_a_refused_policy_makes_no_claim(logged: EstimationResult) -> None:
    assert "far" in logged.refused()
    answer = answer_of(logged, logged.compare_all(), logged.rows())
    assert not [line for line in answer.can if "far" in line]
    assert [line for line in answer.cannot if "far" in line]
    assert [line for line in answer.next if "far" in line]
    matrix = sections(logged)["Paired differences"]
    assert {cell.verdict for cell in matrix.cells.values()} == {"refused"}  # type: ignore[attr-defined]


def made_of(values: list[float], gap_se: float, **fields: object) -> EstimationResult:
    names = [f"p{k}" for k in range(len(values))]
    cov = np.eye(len(values)) * gap_se**2 / 2
    estimate = InfluenceEstimate.from_covariance(names, values, cov, df=500)
    return EstimationResult("direct", estimate, **fields)  # type: ignore[arg-type]


def test_the_answer_has_the_significant_difference_first() -> None:
    clear = made_of([0.5, 0.7], 0.02)
    answer = answer_of(clear, clear.compare_all(), clear.rows())
    assert "better than" in answer.can[0]
    assert "highest" in answer.can[1]
    assert len(answer.cannot) == 1
    close = made_of([0.5, 0.51], 0.01)
    answer = answer_of(close, close.compare_all(), close.rows())
    assert "No significant difference" in answer.cannot[0]
    assert "3.9 times as many" in answer.next[0]  # (1.965 * 0.01 / 0.01)^2
    same = made_of([0.5, 0.5], 0.01)
    answer = answer_of(same, same.compare_all(), same.rows())
    assert "as equal for now" in answer.next[0]


def test_significant_means_the_same_in_the_matrix_and_in_sentences() -> None:
    result = made_of([0.5, 0.502, 0.7], 0.02)
    cells = sections(result)["Paired differences"].cells  # type: ignore[attr-defined]
    assert (cells[2, 0].verdict, cells[2, 0].tone) == ("better", "good")
    assert (cells[0, 2].verdict, cells[0, 2].tone) == ("worse", "bad")
    assert (cells[0, 1].verdict, cells[0, 1].tone) == ("no significant difference", "plain")


def test_non_inferiority_is_said_of_each_direction_by_its_own_test() -> None:
    result = made_of([0.5, 0.501], 0.01, metadata={"margin": 0.05})
    cells = sections(result)["Paired differences"].cells  # type: ignore[attr-defined]
    assert cells[1, 0].verdict == cells[0, 1].verdict == "non-inferior"
    answer = answer_of(result, result.compare_all(), result.rows())
    assert any("differ by less than 0.05" in line for line in answer.can)
    one_way = made_of([0.5, 0.52], 0.011, metadata={"margin": 0.03})
    cells = sections(one_way)["Paired differences"].cells  # type: ignore[attr-defined]
    assert cells[1, 0].verdict == "non-inferior"
    assert cells[0, 1].verdict == "no significant difference"
    answer = answer_of(one_way, one_way.compare_all(), one_way.rows())
    assert any("at most 0.03 worse than" in line for line in answer.can)


def test_a_difference_that_only_one_test_would_claim_is_not_claimed() -> None:
    """Ten pairs: each interval may exclude zero where Holm's adjustment does not."""
    result = made_of([0.5, 0.5, 0.5, 0.5, 0.522], 0.01)
    pairs = result.compare_all()
    assert any(c.interval.low > 0.0 and p > 0.05 for c, p in pairs)
    assert {c.verdict for c, _ in pairs} == {"inconclusive"}
    assert "better" in {c.alone().verdict for c, _ in pairs}
    answer = answer_of(result, pairs, result.rows())
    assert not [line for line in answer.can if "better than" in line]
    matrix = sections(result)["Paired differences"]
    assert {cell.verdict for cell in matrix.cells.values()} == {"no significant difference"}  # type: ignore[attr-defined]


def test_an_uncalibrated_result_claims_nothing() -> None:
    data = simulate.policies_on_shared_prompts(200, 2, 50, seed=1).dataset
    result = analyze_dataset(data, estimator="naive")
    answer = answer_of(result, result.compare_all(), result.rows())
    assert answer.can == ()
    assert answer.cannot[0].startswith("No result here supports a decision")
    assert "random slice" in answer.next[0]
    assert "<h2>Samples</h2>" in result.to_html()


def test_every_refusal_and_warning_has_its_step() -> None:
    findings = [Finding("a", "bad", Severity.REFUSE, "do this", "p0"),
                Finding("b", "worse", Severity.WARNING, "do that", "p1"),
                Finding("c", "so", Severity.INFO, "not this")]  # fmt: skip
    result = made_of([0.5, 0.9], 0.01, findings=tuple(findings))
    steps = " ".join(answer_of(result, result.compare_all(), result.rows()).next)
    assert "do this" in steps
    assert "do that" in steps
    assert "not this" not in steps


def test_hundreds_of_policies_stay_readable_and_small() -> None:
    result = made_of(list(np.linspace(0, 1, 120)), 0.01)
    page = result.to_html()
    assert len(page) < 300_000
    assert page.count('class="forest-row"') == 2 * 60  # values, and differences
    assert "The 60 highest of 120 versions are shown." in page


def test_one_policy_makes_a_report() -> None:
    page = made_of([0.5], 0.02).to_html()
    assert "Paired differences" not in page
    assert "has a mean label of 0.500 (95%" in page


def test_a_saved_result_still_makes_a_report(direct: EstimationResult, tmp_path: Path) -> None:
    direct.to_json(tmp_path / "result.json")
    loaded = EstimationResult.from_json(tmp_path / "result.json")
    assert loaded.evidence is None
    titles = [part.title for part in loaded.report_parts()]
    assert "Calibration of the judge" in titles
    assert "Residuals" in titles
    assert "Samples" not in titles
    loaded.to_html(tmp_path / "report.html")


def test_evidence_stays_out_of_the_json(direct: EstimationResult) -> None:
    assert "evidence" not in json.loads(direct.to_json())


def test_the_report_is_the_same_every_time(direct: EstimationResult) -> None:
    assert direct.to_html() == make_report(direct).to_html()


def test_a_large_table_makes_a_small_page() -> None:
    n = 100_000
    rng = np.random.default_rng(0)
    score = rng.random(n)
    label = np.where(rng.random(n) < 0.02, np.clip(score + 0.1 * rng.normal(size=n), 0, 1), np.nan)
    text = pl.Series(["<&>" * 400] * n)
    data = Dataset.from_arrays(
        prompt_id=np.arange(n) // 4, policy=np.array(["a", "b", "c", "d"])[np.arange(n) % 4],
        judge_score=score, oracle_label=label, prompt=text, response=text,
    )  # fmt: skip
    assert len(analyze_dataset(data).to_html().encode()) < 1_500_000


def test_the_command_writes_the_report_with_its_texts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = []
    for i in range(120):
        score = float(rng.random())
        rows += [
            {"prompt_id": f"p{i}", "policy": policy, "judge_score": score, "prompt": "a question",
             "response": f"a rare answer {i}", "oracle_label": score if i % 2 else None}
            for policy in ("a", "b")
        ]  # fmt: skip
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    command = [sys.executable, "-m", "cje.cli.main", "analyze", "data.jsonl", "--report", "r.html"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 2), done.stderr
    assert "report: r.html" in done.stderr
    assert "a rare answer 7" in (tmp_path / "r.html").read_text()


def test_the_notebook_piece_is_short_and_escaped() -> None:
    result = made_of([0.5, 0.9], 0.01)
    result = EstimationResult("direct", result.influence.renamed(["<b>x</b>", "y"]))
    piece = result._repr_html_()
    assert "&lt;b&gt;x" in piece
    assert "<b>x" not in piece
    assert "<script" not in piece


# ---- pictures -----------------------------------------------------------------------------------


def test_plots_take_axes_and_give_them_back(
    direct: EstimationResult, logged: EstimationResult
) -> None:
    from matplotlib.figure import Figure

    for plot in (direct.plot_estimates, direct.plot_calibration, direct.plot_transport,
                 logged.plot_estimates, logged.plot_calibration, logged.plot_weights):  # fmt: skip
        ax = Figure().subplots()
        assert plot(ax) is ax
        plot().figure.canvas.draw()


def test_the_plotted_points_are_the_estimates(direct: EstimationResult) -> None:
    ax = direct.plot_estimates()
    drawn = [float(bar[0].get_xdata()[0]) for bar in ax.containers]
    assert drawn == direct.estimates.tolist()
    labels = [t.get_text().partition("\n")[0] for t in ax.get_yticklabels()]
    assert labels == list(direct.policies)


def test_dollar_signs_in_a_name_are_drawn_as_they_are() -> None:
    from matplotlib.text import Text

    name = "$\\frac{$"
    rows = Forest(name, tuple(made_of([0.5], 0.1).report_parts()[0].rows))  # type: ignore[union-attr]
    figure = draw_forest(rows).figure
    figure.canvas.draw()
    shown = {text.get_text() for text in figure.findobj(Text)}
    assert name.replace("$", r"\$") in shown
    assert name not in shown


def test_plots_that_cannot_be_drawn_say_why(
    direct: EstimationResult, logged: EstimationResult
) -> None:
    bare = made_of([0.5], 0.1)
    for plot in (bare.plot_calibration, bare.plot_transport, bare.plot_weights,
                 direct.plot_weights, logged.plot_transport):  # fmt: skip
        with pytest.raises(CJEError, match="this result"):
            plot()
    with pytest.raises(CJEError, match="no such quantity"):
        logged.plot_weights(policy="nobody")


def test_a_run_writes_its_report_with_every_estimator(logged: EstimationResult) -> None:
    from cje.pipeline.stages.estimation import PipelineResult

    finding = Finding("canary", "the log-probs look odd", Severity.WARNING, "look at them")
    run = PipelineResult(
        {"calibrated-ips": logged, "again": logged}, [], (finding,), 1500, 0, {"judge": "offline"}
    )
    page = run.files()["report.html"].decode()
    assert "All estimators of the run" in page
    assert "the log-probs look odd" in page
    assert "truth 0.432" not in page
    assert "truth 0.432" in run.report({"near": 0.4321, "far": 0.5})


@pytest.mark.parametrize("width", [0.0031, 0.0999, 0.1, 0.46, 0.57, 3.2, 41.0])
def test_a_forest_shows_the_decimals_of_the_tables_and_sentences(width: float) -> None:
    forest = Forest("t", (ForestRow("a", 0.0, -width / 2, width / 2),))
    assert forest.decimals() == decimals_for_widths([width])
