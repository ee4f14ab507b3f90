"""Keys in wrong places are refused, or masked, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cje.errors import CJEError
from cje.models import Endpoint
from cje.models.secrets import find_secret, looks_secret, masked_url
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from tests.pipeline.scenes import server_settings, write_config, write_prompts
from tests.server.running import TestServer

KEY = "sk-proj-Abc123Def456Ghi789Jkl0"


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": f"http://me:{KEY}@127.0.0.1:1/v1"},
        {"base_url": f"http://127.0.0.1:1/v1?api_key={KEY}"},
        {"base_url": f"http://127.0.0.1:1/v1#{KEY}"},
        {"base_url": f"me:{KEY}@host"},
        {"base_url": f"ftp://host/{KEY}"},
        {"api_key_env": KEY},
        {"extra_body": {"api_key": "short"}},
        {"extra_body": {"headers": {"Authorization": f"Bearer {KEY}"}}},
        {"extra_body": {"user": KEY}},
        {"extra_body": {"list": [{"x": KEY}]}},
    ],
)
def test_a_key_in_the_configuration_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    settings = server_settings("http://127.0.0.1:1/v1")
    for part in (settings["judge"], settings["target_policies"][0], settings["logging_policy"]):
        kept = dict(part)
        part.update(changes)
        write_prompts(tmp_path, 3)
        path = write_config(tmp_path, settings)
        with pytest.raises(CJEError) as caught:
            load_config(path)
        assert KEY not in str(caught.value)
        assert not (tmp_path / "run").exists()
        part.clear()
        part.update(kept)
    with pytest.raises(CJEError) as direct:
        Endpoint("openai-compatible", "m", **{"base_url": "http://127.0.0.1:1/v1", **changes})
    assert KEY not in str(direct.value)


def test_a_key_in_the_path_reaches_no_file_and_two_keys_stay_two_addresses(tmp_path: Path) -> None:
    with TestServer() as server:
        root = server.base_url.removesuffix("/v1")
        settings = server_settings(f"{root}/{KEY}/v1")
        write_prompts(tmp_path, 12)
        config = load_config(write_config(tmp_path, settings))
        with pytest.raises(CJEError) as caught:  # no such route
            CJEPipeline(config).run()
        assert KEY not in str(caught.value)
    written = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert any(path.name == "manifest.json" for path in written)
    for path in written:
        assert KEY.encode() not in path.read_bytes(), path
    assert masked_url(f"http://h/{KEY}/v1") != masked_url(f"http://h/{KEY[:-1]}1/v1")


def test_ordinary_words_are_not_taken_for_keys() -> None:
    ordinary = {
        "max_tokens": 5, "stop_token_ids": [2], "return_token_ids": True, "seed": 1,
        "guided_regex": "[0-9]+", "user": "evaluation-team", "reasoning_effort": "medium",
        "model": "meta-llama/Meta-Llama-3.1-8B-Instruct", "tokenizer": "gpt-4o-mini-2024-07-18",
        "keyboard": "keyboard-shortcuts-of-the-year",
    }  # fmt: skip
    assert find_secret(ordinary) is None
    for url in ("https://api.together.xyz/v1", "http://localhost:8000/v1",
                "https://x.openai.azure.com/openai/deployments/gpt-4o-mini"):  # fmt: skip
        assert masked_url(url) == url
    assert all(looks_secret(key) for key in (KEY, "AKIAIOSFODNN7EXAMPLE", "hf_AbCdEfGhIjKlMnOp"))
