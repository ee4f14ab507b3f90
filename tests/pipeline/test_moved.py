"""A server that moves: nothing is paid for twice, and another model is not taken for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cje.errors import CJEError
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from tests.pipeline.scenes import results_of, server_settings, write_config, write_prompts
from tests.server.running import TestServer


def _settings(url: str, **ids: Any) -> dict[str, Any]:
    settings = server_settings(url)
    parts = [settings["logging_policy"], settings["judge"], settings["oracle_config"]["judge"]]
    for part in (*parts, *settings["target_policies"]):
        part |= ids
    return settings


def _run(folder: Path, url: str, **ids: Any) -> None:
    CJEPipeline(load_config(write_config(folder, _settings(url, **ids)))).run()


def test_a_moved_server_reuses_its_answers_after_repeating_one(tmp_path: Path) -> None:
    write_prompts(tmp_path, 60)
    with TestServer() as server:
        _run(tmp_path, server.base_url, endpoint_id="box")
        first = len(server.calls)
    before = {n: b for n, b in results_of(tmp_path / "run").items() if n.startswith("result/c")}
    with TestServer() as server:
        _run(tmp_path, server.base_url, endpoint_id="box")
        assert len(server.calls) == 5  # one for each model, of several hundred
        assert first > 150
    after = results_of(tmp_path / "run")
    assert {name: after[name] for name in before} == before


def test_another_model_under_the_same_endpoint_id_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_prompts(tmp_path, 60)
    with TestServer() as server:
        _run(tmp_path, server.base_url, endpoint_id="box")
    with TestServer() as server:
        languages = server.app.routes.languages
        languages["near"] = languages["bad"]
        with pytest.raises(CJEError, match="does not repeat the answer stored"):
            _run(tmp_path, server.base_url, endpoint_id="box")
        assert len(server.calls) == 5


def test_without_an_endpoint_id_another_address_is_another_server(tmp_path: Path) -> None:
    write_prompts(tmp_path, 60)
    for _ in range(2):
        with TestServer() as server:
            _run(tmp_path, server.base_url)
            assert len(server.calls) > 150
