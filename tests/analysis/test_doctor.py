"""The doctor says what a file is, what it supports, what blocks it, and what is wrong with it."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from typer.testing import CliRunner

from cje import CJEError, analyze_dataset, simulate
from cje.analysis.doctor import examine, examine_together
from cje.cli.main import app
from cje.diagnostics import judge_biases, labelling_tests

RUNNER = CliRunner()


def rows_of(data, **columns):
    rows = []
    for i in range(len(data)):
        row = {
            "prompt_id": data.prompt_id.names[data.prompt_id.codes[i]],
            "policy": data.policy.names[data.policy.codes[i]],
            "judge_score": float(data.judge_score[i]),
            "oracle_label": None if np.isnan(data.oracle_label[i]) else float(data.oracle_label[i]),
        }
        if data.base_policy_logprob is not None:
            row["base_policy_logprob"] = float(data.base_policy_logprob[i])
            row["target_policy_logprobs"] = dict(
                zip(data.target_policies, data.target_policy_logprobs[i].tolist(), strict=True)
            )
        rows.append(row | {name: values[i] for name, values in columns.items()})
    return rows


def codes_of(diagnosis):
    return {finding.code for finding in diagnosis.findings}


def supported(diagnosis):
    return {c.estimator for c in diagnosis.capabilities if c.supported}


def test_a_healthy_file_has_no_findings_and_a_command_that_runs(tmp_path):
    sim = simulate.policies_on_shared_prompts(300, 3, 90, seed=4)
    path = tmp_path / "evals.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows_of(sim.dataset)))
    found = examine(path)
    assert codes_of(found) == set()
    assert {"naive", "direct"} <= supported(found)
    assert found.facts["prompts_shared_by_all_policies"] == 300
    command = next(c.command for c in found.capabilities if c.estimator == "direct")
    assert RUNNER.invoke(app, command.split()[1:]).exit_code in (0, 2)
    assert RUNNER.invoke(app, ["doctor", str(path)]).exit_code == 0


def biased_by(found):
    return {f.details["factor"] for f in found.findings if f.code == "judge-bias"}


def test_labels_chosen_by_score_are_reported_unless_the_recorded_propensities_explain_them():
    sim = simulate.monotone_judge(2000, 300, seed=1, labelling="mar")
    rows = rows_of(sim.dataset)
    top = sorted(rows, key=lambda r: -r["judge_score"])
    for i, row in enumerate(top):
        row["oracle_label"] = 0.5 if i < 300 else None
    assert {"labels-not-random", "labels-selected"} & set(codes_of(examine(rows)))
    wrong = [row | {"label_propensity": 0.15} for row in rows]
    assert "labels-not-random" in codes_of(examine(wrong))
    rng = np.random.default_rng(0)
    for row in rows:
        row["label_propensity"] = 0.05 + 0.4 * row["judge_score"]
        row["oracle_label"] = 0.5 if rng.random() < row["label_propensity"] else None
    assert "labels-not-random" not in codes_of(examine(rows))


def test_random_labels_are_rarely_called_not_random():
    """At a level of 0.1% per policy: at most 2 false alarms in 60 (probability 0.03%)."""
    alarms = 0
    for seed in range(60):
        sim = simulate.policies_on_shared_prompts(200, 2, 50, seed=seed)
        alarms += "labels-not-random" in codes_of(examine(sim.dataset))
    assert alarms <= 2


def test_a_length_biased_judge_is_found_from_a_column_and_from_the_text():
    sim = simulate.length_biased_judge(1500, 500, seed=3, bias=0.3)
    length = sim.dataset.covariates["response_length"]
    column = rows_of(sim.dataset, response_length=length.tolist())
    assert "response_length" in biased_by(examine(column))
    text = rows_of(sim.dataset, response=["x" * int(20 * v) for v in length])
    assert "response_length" in biased_by(examine(text))


def test_an_unbiased_judge_gets_no_bias_finding():
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(100):
        error, length = rng.normal(size=200), rng.normal(size=200)
        codes = rng.integers(0, 3, 200)
        biases = judge_biases(error, {"length": length}, {"policy": (codes, ("a", "b", "c"))})
        alarms += any(b.p_adjusted < 0.05 for b in biases)
    assert alarms <= 13  # 5% family-wise, 99.9% binomial bound


def test_a_position_effect_is_found():
    rng = np.random.default_rng(1)
    quality, position = rng.random(800), rng.integers(0, 2, 800)
    rows = [
        {"prompt_id": f"p{i}", "policy": "a", "judge_score": min(1.0, 0.8 * q + 0.2 * s),
         "oracle_label": float(q), "position": ["first", "second"][s]}
        for i, (q, s) in enumerate(zip(quality, position, strict=True))
    ]  # fmt: skip
    assert "position" in biased_by(examine(rows))


def test_unlabelled_policies_and_files_are_distinguished():
    sim = simulate.policies_on_shared_prompts(100, 2, 30, seed=4)
    rows = rows_of(sim.dataset)
    for row in rows[100:]:
        row["oracle_label"] = None
    assert "borrowed-calibration" in codes_of(examine(rows))
    for row in rows:
        row["oracle_label"] = None
    found = examine(rows)
    assert "no-labels" in codes_of(found)
    assert supported(found) == {"naive"}
    assert "label a random slice" in next(
        c.unblock for c in found.capabilities if c.estimator == "direct"
    )


def test_logged_rows_support_off_policy_estimates_and_bad_overlap_is_reported():
    sim = simulate.logged_with_logprobs(
        600, 200, seed=2, targets={"near": 0.9, "far": 0.01}, fresh_draws=0
    )
    found = examine(rows_of(sim.dataset))
    assert "calibrated-ips" in supported(found)
    assert any(f.code == "low-ess" and f.subject == "far" for f in found.findings)


def test_a_forgotten_teacher_forcing_step_is_found():
    sim = simulate.logged_with_logprobs(100, 50, seed=2, targets={"t": 0.9}, fresh_draws=0)
    rows = rows_of(sim.dataset)
    for row in rows:
        row["target_policy_logprobs"] = {"t": row["base_policy_logprob"]}
    assert "identical-weights" in codes_of(examine(rows))


def test_two_files_that_complete_each_other_unblock_the_doubly_robust_family(tmp_path):
    sim = simulate.logged_with_logprobs(200, 80, seed=2, targets={"t": 0.9})
    logged, fresh = tmp_path / "logged.jsonl", tmp_path / "fresh.jsonl"
    logged.write_text("\n".join(json.dumps(r) for r in rows_of(sim.dataset)))
    fresh.write_text("\n".join(json.dumps(r) for r in rows_of(sim.fresh)))
    out = RUNNER.invoke(app, ["doctor", str(fresh), str(logged), "--json"])
    both = json.loads(out.output)
    stacked = next(c for c in both[0]["capabilities"] if c["estimator"] == "stacked-dr")
    assert stacked["supported"]
    run = RUNNER.invoke(app, stacked["command"].split()[1:])
    assert run.exit_code in (0, 2), run.output


def test_a_command_names_files_so_that_a_shell_finds_them_and_says_what_a_pair_lacks(tmp_path):
    sim = simulate.logged_with_logprobs(200, 80, seed=2, targets={"t": 0.9, "u": 0.8})
    logged, fresh = tmp_path / "my log.jsonl", tmp_path / "fresh draws.jsonl"
    logged.write_text("\n".join(json.dumps(r) for r in rows_of(sim.dataset)))
    rows = rows_of(sim.fresh)
    fresh.write_text("\n".join(json.dumps(r) for r in rows))
    command = next(
        c.command for c in examine(logged).capabilities if c.estimator == "calibrated-ips"
    )
    assert RUNNER.invoke(app, shlex.split(command)[1:]).exit_code in (0, 2)
    both = examine_together(examine(fresh), examine(logged))
    stacked = next(c for c in both.capabilities if c.estimator == "stacked-dr")
    assert RUNNER.invoke(app, shlex.split(stacked.command)[1:]).exit_code in (0, 2)
    fresh.write_text("\n".join(json.dumps(r) for r in rows if r["policy"] == "t"))
    both = examine_together(examine(fresh), examine(logged))
    stacked = next(c for c in both.capabilities if c.estimator == "stacked-dr")
    assert not stacked.supported
    assert "add fresh draws of u" in stacked.unblock


def test_ratios_beyond_the_clip_are_reported():
    sim = simulate.logged_with_logprobs(200, 50, seed=2, targets={"t": 0.9}, fresh_draws=0)
    rows = rows_of(sim.dataset)
    for row in rows[:100]:
        row["base_policy_logprob"] -= 60.0
    found = [f for f in examine(rows).findings if f.code == "clipped-ratios"]
    assert [str(f.severity) for f in found] == ["refuse"]


def test_constant_judges_and_single_rows_are_refused():
    rows = [{"prompt_id": f"p{i}", "policy": "a", "judge_score": 0.5} for i in range(10)]
    rows.append({"prompt_id": "p0", "policy": "b", "judge_score": 0.5})
    assert {"constant-judge", "one-row"} <= codes_of(examine(rows))


def test_a_file_that_cannot_be_read_is_an_error_with_exit_code_1(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(CJEError):
        examine(empty)


def test_the_doctor_and_the_analysis_agree_on_what_runs():
    sim = simulate.policies_on_shared_prompts(100, 2, 30, seed=4)
    assert "direct" in supported(examine(sim.dataset))
    assert analyze_dataset(sim.dataset).estimator == "direct"


def test_labelling_tests_find_a_category_that_is_labelled_more():
    labelled = np.r_[np.ones(80, bool), np.zeros(120, bool)]
    tests = labelling_tests(
        labelled, {}, {"domain": np.r_[np.zeros(100), np.ones(100)].astype(int)}
    )
    assert tests[0].p_adjusted < 1e-6
    assert tests[0].effect == pytest.approx(0.4)


def test_a_large_file_is_examined_without_holding_its_text(tmp_path, monkeypatch):
    from cje.analysis import doctor

    sim = simulate.length_biased_judge(1500, 500, seed=3, bias=0.3)
    length = sim.dataset.covariates["response_length"]
    rows = rows_of(sim.dataset, response=["x" * int(20 * v) for v in length])
    path = tmp_path / "large.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    monkeypatch.setattr(doctor, "_LARGE_BYTES", 1000)
    monkeypatch.setattr(doctor, "_LENGTH_ROWS", 2000)
    assert "response_length" in biased_by(examine(path))


# ---- labels from elsewhere ----------------------------------------------------------------------


@pytest.fixture
def scored(tmp_path):
    """A file without labels, and a table of labels for a third of its rows."""
    sim = simulate.policies_on_shared_prompts(300, 2, 100, seed=4)
    rows = rows_of(sim.dataset)
    labels = [r for r in rows if r["oracle_label"] is not None]
    (tmp_path / "human labels.jsonl").write_text(
        "\n".join(
            json.dumps({k: r[k] for k in ("prompt_id", "policy", "oracle_label")}) for r in labels
        )
    )
    path = tmp_path / "evals.jsonl"
    texts = ({**r, "oracle_label": None, "response": f"answer {i}"} for i, r in enumerate(rows))
    path.write_text("\n".join(json.dumps(row) for row in texts))
    return path


def test_labels_of_a_table_are_examined_with_the_data_and_stand_in_the_command(scored):
    labels = scored.with_name("human labels.jsonl")
    assert "direct" not in supported(examine(scored))
    keys = ["--labels", str(labels), "--on", "prompt_id", "--on", "policy"]
    shown = RUNNER.invoke(app, ["doctor", str(scored), *keys, "--json"])
    assert shown.exit_code == 0, shown.output
    (found,) = json.loads(shown.stdout)
    assert sum(found["facts"]["labels"].values()) == 200
    command = next(c["command"] for c in found["capabilities"] if c["estimator"] == "direct")
    assert shlex.split(command)[1:] == ["analyze", str(scored), *keys]
    assert RUNNER.invoke(app, shlex.split(command)[1:]).exit_code == 0


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "single"])
def test_a_labels_file_of_cje_label_is_examined_with_its_data(scored, pairs):
    from cje.data import read
    from cje.label.study import Study, StudyOptions

    data = read(scored, text=True, require=(), min_rows=1)
    labels = scored.with_name("labels.db")
    baseline, candidate = data.policies
    options = StudyOptions(count=60, pairs=pairs, baseline=baseline, candidate=candidate)
    study = Study.create(labels, data, options)
    for k in range(60):
        item = study.next_item("rater", "tab")
        word = ("A", "B")[k % 2] if pairs else ("pass", "fail")[k % 2]
        study.store.answer("rater", item.id, word=word, revision=item.revision, key=f"key-{k}")
    study.store.close()
    found = examine(scored, labels=labels)
    facts = found.facts
    assert (facts["side_by_side_answers"] if pairs else sum(facts["labels"].values())) == 60
    estimator = "pairwise" if pairs else "direct"
    command = next(c.command for c in found.capabilities if c.estimator == estimator)
    assert RUNNER.invoke(app, shlex.split(command)[1:]).exit_code == 0
    other = scored.with_name("other.jsonl")
    other.write_text(scored.read_text().replace('"prompt_id": "', '"prompt_id": "new-'))
    refused = RUNNER.invoke(app, ["doctor", str(other), "--labels", str(labels)])
    assert refused.exit_code == 1
    assert "the data do not have" in str(refused.exception or refused.output)


def test_labels_for_several_files_are_refused_with_what_to_do(scored):
    words = ["doctor", str(scored), str(scored), "--labels", str(scored)]
    with pytest.raises(CJEError, match="the folder of the files"):
        RUNNER.invoke(app, words, catch_exceptions=False)
