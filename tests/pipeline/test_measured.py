"""What a run measures on the way and passes on: the server's noise, and who judged."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from cje.diagnostics import JudgeIdentity
from cje.diagnostics.judge_card import JudgeCards
from cje.findings.running import KNOWN_NOISE
from cje.judges.template import load_template
from cje.pipeline.chunks import RowStream
from cje.pipeline.config import PipelineConfig, load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.stages.columns import logged_dataset
from cje.pipeline.stages.estimators import configured_estimators
from cje.pipeline.stages.noise import measured_noise
from tests.pipeline.scenes import ngram_settings, server_settings, write_config, write_prompts
from tests.server.quirks import Quirks
from tests.server.running import TestServer


def _noisy_run(folder: Path, noise: float) -> tuple[CJEPipeline, Any]:
    write_prompts(folder, 60)
    with TestServer(quirk=Quirks(noise=noise)) as server:
        settings = server_settings(server.base_url)
        settings["oracle_config"]["fraction"] = 0.5
        settings["target_policy"] = {"replicates": 40}
        settings["estimation"] = {"estimators": ["ips"]}
        run = CJEPipeline(load_config(write_config(folder, settings)))
        return run, run.run()


def test_noise_measured_by_scoring_twice_is_taken_out_of_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RowStream] = []

    def watched(rows: RowStream) -> float:
        seen.append(rows)
        return measured_noise(rows)

    monkeypatch.setattr("cje.pipeline.stages.estimation.measured_noise", watched)
    run, result = _noisy_run(tmp_path, 0.05)
    note = result.first.metadata["logprob_noise"]
    assert note["sd"] == pytest.approx(0.05, rel=0.4)
    assert note["n_scored_twice"] == 40
    assert note["factor"] == math.exp(note["sd"] ** 2)
    named = "known-noise" in {finding.code for finding in result.first.findings}
    # 40 pairs measure 0.05 within 40%, so the factor may fall below what is worth a finding
    assert named == (note["factor"] - 1.0 > KNOWN_NOISE["factor"])
    assert ("scored twice differ by" in result.summary()) == named
    # The same rows without the correction: too large by the measured factor (to 3% of its excess:
    # the label part is not a multiple of the weights).
    data = logged_dataset(seen[0], run.config)
    plain = configured_estimators(data, None, run.config, noise=0.0)["ips"].fit_and_estimate()
    ratios = plain.estimates / result.first.estimates
    close = 0.03 * (note["factor"] - 1.0)
    assert ratios.tolist() == pytest.approx([note["factor"]] * 2, rel=0.0, abs=close)


def test_a_server_that_gives_the_same_number_again_leaves_no_note(tmp_path: Path) -> None:
    _, result = _noisy_run(tmp_path, 0.0)
    assert "logprob_noise" not in result.first.metadata
    assert "known-noise" not in {finding.code for finding in result.first.findings}


def _card(folder: Path, **changes: Any) -> tuple[PipelineConfig, JudgeCards, str]:
    settings = {**ngram_settings(), **changes}
    config = load_config(write_config(folder, settings))
    result = CJEPipeline(config).run()
    cards = JudgeCards.from_dict(result.first.diagnostics["judge_card"])
    return config, cards, result.report()


@pytest.mark.parametrize("estimator", ["direct", "calibrated-ips"])
def test_the_report_binds_the_judge_card_to_the_judge_of_the_run(
    tmp_path: Path, estimator: str
) -> None:
    write_prompts(tmp_path, 80)
    _, cards, report = _card(tmp_path, estimation={"estimators": [estimator]})
    identity = JudgeIdentity.of("offline")
    assert cards.cards[0].identity == identity
    assert identity.fingerprint in report


def test_a_judge_behind_a_server_is_known_by_its_model_template_and_rubric(tmp_path: Path) -> None:
    write_prompts(tmp_path, 60)
    with TestServer() as server:
        settings = server_settings(server.base_url)
        settings["oracle_config"]["fraction"] = 0.5
        settings["judge"]["rubric"] = "Short answers are better."
        config = load_config(write_config(tmp_path, settings))
        result = CJEPipeline(config).run()
    card = JudgeCards.from_dict(result.first.diagnostics["judge_card"]).cards[0]
    text = load_template("rubric_score").text
    now = JudgeIdentity.of("judge", template=text, rubric="Short answers are better.")
    assert card.identity == now
    assert card.identity.fingerprint in result.report()
    other = JudgeIdentity.of("judge", template=text, rubric="Long answers are better.")
    assert card.identity.differences(other) == ("rubric",)
