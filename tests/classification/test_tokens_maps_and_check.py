"""Token log-probs of judges, saved recalibration maps and `cje classifier check`."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from cje import classification as c
from cje.classification.rows import check_rows
from cje.cli.main import app
from cje.errors import CJEError
from cje.judges import Verdict, combine_verdicts

GRADES = [1, 2, 3, 4, 5]


def test_listed_tokens_of_one_verdict_are_added_and_others_left_out():
    listed = {"4": np.log(0.5), " 4": np.log(0.1), '"5"': np.log(0.2), "The": np.log(0.15)}
    found = c.verdict_distribution([listed], GRADES)
    assert found.listed[0] == pytest.approx(0.8)
    assert found.missing[0] == pytest.approx(0.05)
    p = found.probability[0]
    assert p[3] / p[4] == pytest.approx(3.0)
    # Three grades are not listed: an even share of the missing mass, 0.05 / 3 < 0.1.
    assert p[0] == p[1] == p[2] == pytest.approx(0.05 / 3 / 0.85)
    assert p.sum() == pytest.approx(1.0)


def test_a_verdict_that_is_not_listed_is_no_likelier_than_the_least_listed_token():
    short = {"4": np.log(0.6), "5": np.log(0.01)}
    p = c.verdict_distribution([short], GRADES).probability[0]
    assert p[0] == pytest.approx(p[4])
    assert p[0] < p[3] / 50


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"yes": -0.1}, "spells a verdict"),
        ({"4": 0.5}, "at most 0"),
        ({"4": np.nan}, "at most 0"),
        ({"4": "x"}, "at most 0"),
        ({"4": -0.1, "5": -0.1}, "more than one"),
        ([("4", -0.1)], "must map"),
        ({}, "spells a verdict"),
    ],
)
def test_impossible_log_probs_are_refused(entry, words):
    with pytest.raises(CJEError, match=words):
        c.verdict_distribution([entry], GRADES)


def test_a_verdict_calibrator_takes_log_probs_as_they_come():
    rng = np.random.default_rng(0)
    z = 2.0 * rng.standard_normal((1500, 3))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    truth_p = np.exp(0.4 * z) / np.exp(0.4 * z).sum(axis=1, keepdims=True)
    truth = (truth_p.cumsum(axis=1) > rng.random(1500)[:, None]).argmax(axis=1)
    names = np.array(["bad", "fair", "good"])
    listed = [
        {f" {n.title()}": float(np.log(0.98 * q)) for n, q in zip(names, row, strict=True)}
        for row in p
    ]
    values = {"bad": 0.0, "fair": 0.5, "good": 1.0}
    by_token = c.VerdictCalibrator(values, calibrator="beta").fit(listed[:500], names[truth[:500]])
    by_matrix = c.VerdictCalibrator(values, calibrator="beta").fit(p[:500], names[truth[:500]])
    np.testing.assert_allclose(
        by_token.scores(listed[500:]).mean, by_matrix.scores(p[500:]).mean, atol=1e-9
    )


def test_a_judges_verdict_keeps_the_tokens_it_weighed():
    verdict = Verdict(0.75, "4", "structured", 0.01, token_logprobs={"4": -0.2, "5": -1.8})
    again = Verdict.from_json(json.loads(json.dumps(verdict.to_json())))
    assert again == verdict
    old = {k: v for k, v in verdict.to_json().items() if k != "token_logprobs"}
    assert Verdict.from_json(old).token_logprobs is None  # stored before they were kept
    joined = combine_verdicts([verdict, Verdict(0.5)], "logprobs")
    assert joined.token_logprobs == ({"4": -0.2, "5": -1.8},)


# ---- maps and the command -----------------------------------------------------------------------


def _overconfident(n=1500, k=3, seed=1):
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.standard_normal((n, k))
    chance = np.exp(0.5 * z) / np.exp(0.5 * z).sum(axis=1, keepdims=True)
    y = (chance.cumsum(axis=1) > rng.random(n)[:, None]).argmax(axis=1)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return y, p


@pytest.mark.parametrize("calibrator", ["isotonic", "beta", "temperature", "venn_abers"])
def test_a_saved_map_calibrates_as_the_calibrator_does(calibrator, tmp_path):
    y, p = _overconfident()
    new_y, new = _overconfident(seed=2)
    fitted = c.RecalibrationMap.fit(check_rows("top", y, p), calibrator)
    fitted.save(tmp_path / "map.json")
    loaded = c.RecalibrationMap.load(tmp_path / "map.json")
    label, score = new.argmax(axis=1), new.max(axis=1)
    after = loaded.predict(score, label)
    np.testing.assert_array_equal(after, fitted.predict(score, label))
    assert c.top_label_ece(new_y, (label, after)) < 0.5 * c.top_label_ece(new_y, new)
    with pytest.raises(CJEError, match="predicted label"):
        loaded.predict(score)
    with pytest.raises(CJEError, match="never seen"):
        loaded.predict(score, np.full(len(score), 9))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "x"}, "not a recalibration map"),
        ({"version": 2}, "another version"),
        ({"maps": [{"label": None}]}, "lacks a field"),
        ({"maps": [{"label": None, "x": [1.0, 0.0], "y": [0.1, 0.2]}]}, "increase"),
    ],
)
def test_a_file_that_is_not_a_map_is_refused(change, words, tmp_path):
    y, p = _overconfident()
    data = c.RecalibrationMap.fit(check_rows("top", y, p)).to_json() | change
    path = tmp_path / "map.json"
    path.write_text(json.dumps(data))
    with pytest.raises(CJEError, match=words):
        c.RecalibrationMap.load(path)


def test_the_command_prints_metrics_classes_and_findings_and_writes_map_and_page(tmp_path):
    y, p = _overconfident()
    names = np.array(["low", "medium", "high"])
    frame = pl.DataFrame(p, schema=[f"p_{n}" for n in names]).with_columns(
        pl.Series("label", names[y]), pl.Series("site", np.array(["x", "y"])[np.arange(1500) % 2])
    )
    path, page, saved = tmp_path / "preds.csv", tmp_path / "page.html", tmp_path / "map.json"
    frame.write_csv(path)
    done = CliRunner().invoke(
        app,
        ["classifier", "check", str(path), "--by", "site", "--report", str(page), "--map",
         str(saved), "--bins", "10"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    value = c.top_label_ece(names[y], p, 10, labels=names)
    assert f"top_label_ece = {value:.4f}" in done.output
    assert "[warning] top label ece is" in done.output
    assert all(name in done.output for name in names)
    assert c.RecalibrationMap.load(saved).labels == ["low", "medium", "high"]
    written = page.read_text(encoding="utf-8")
    for title in ("Predicted classes", "Subgroups: top label ece", "Findings"):
        assert title in written


def test_a_pair_and_a_probability_are_read_too(tmp_path):
    y, p = _overconfident(k=2)
    pair = pl.DataFrame({"label": y, "predicted": p.argmax(axis=1), "confidence": p.max(axis=1)})
    found = c.check_predictions(pair)
    assert found.assessments[0].value == pytest.approx(c.top_label_ece(y, p), abs=1e-12)
    words = np.array(["no", "yes"])[y]
    one = pl.DataFrame({"label": words, "probability": p[:, 1]})
    binary = c.check_predictions(one, pos_label="yes", groups=None)
    assert binary.assessments[0].value == pytest.approx(
        c.expected_calibration_error(y, p[:, 1]), abs=1e-12
    )
    assert binary.map.labels == [None]
    one.write_parquet(tmp_path / "p.parquet")
    again = c.check_predictions(tmp_path / "p.parquet", pos_label="yes")
    assert again.text() == binary.text()


def test_files_and_columns_that_are_not_there_are_named(tmp_path):
    y, p = _overconfident(50)
    frame = pl.DataFrame({"label": y, "p_0": p[:, 0]})
    (tmp_path / "x.txt").write_text("a")
    for source, options, words in (
        (tmp_path / "no.csv", {}, "cannot read"),
        (tmp_path / "x.txt", {}, "kind is not known"),
        (frame, {}, "no predictions"),
        (frame, {"label": "truth"}, "no such column"),
        (frame.with_columns(pl.lit(None).alias("label")), {}, "missing values"),
    ):
        with pytest.raises(CJEError, match=words):
            c.check_predictions(source, **options)
