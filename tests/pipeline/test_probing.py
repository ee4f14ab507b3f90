"""The calls that find out how a server scores are in the books and within the budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cje.errors import CJEError
from cje.pipeline.budget import BudgetError
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.preflight import check_scoring
from cje.pipeline.status import read_status
from tests.pipeline.accounting import assert_accounts, requests_received
from tests.pipeline.scenes import server_settings, write_config, write_prompts
from tests.server.faults import Faults
from tests.server.running import TestServer

PRICES = {m: {"prompt_per_million": 1.0, "completion_per_million": 3.0}
          for m in ("base", "near", "moderate", "judge", "oracle")}  # fmt: skip


def _config(folder: Path, url: str, **changes: Any) -> Any:
    write_prompts(folder, 40)
    settings = server_settings(url)
    settings["oracle_config"]["fraction"] = 1.0
    for policy in (settings["logging_policy"], *settings["target_policies"]):
        del policy["scoring"]
    return load_config(write_config(folder, settings, prices=PRICES, **changes))


def test_status_shows_the_probes_at_what_the_server_billed(tmp_path: Path) -> None:
    with TestServer(quirk="ollama") as server:  # it cannot score: the run ends with the probes
        config = _config(tmp_path, server.base_url)
        with pytest.raises(CJEError, match="scoring under base"):
            CJEPipeline(config).run()
        report = server.app.report()
    assert requests_received(report) > 3
    books = assert_accounts(report, config.work_dir)
    billed = report["billed"]
    true_cost = (billed["prompt_tokens"] + 3.0 * billed["completion_tokens"]) / 1e6
    assert books.cost >= true_cost * (1 - 1e-12) > 0.0
    status = read_status(config.work_dir)
    assert (status.calls, status.cost) == (requests_received(report), books.cost)
    assert "check (base): 1 calls finished" in status.text()


def test_a_calm_run_with_probes_books_exactly_what_the_server_billed(tmp_path: Path) -> None:
    with TestServer(quirk="vllm") as server:
        config = _config(tmp_path, server.base_url)
        CJEPipeline(config).run()
        report = server.app.report()
    books = assert_accounts(report, config.work_dir)
    billed = report["billed"]
    true_cost = (billed["prompt_tokens"] + 3.0 * billed["completion_tokens"]) / 1e6
    assert books.cost == pytest.approx(true_cost, rel=1e-12)


@pytest.mark.parametrize("budget", [{"max_cost": 1e-5}, {"max_calls": 1}])
def test_a_probe_starts_only_within_the_budget(tmp_path: Path, budget: dict[str, float]) -> None:
    with TestServer(quirk="vllm") as server:
        config = _config(tmp_path, server.base_url, budget=budget)
        with pytest.raises(BudgetError, match=r"how base is scored: .*set `scoring`|1 calls"):
            CJEPipeline(config).run()
        received = requests_received(server.app.report())
    if "max_cost" in budget:
        assert received == 0
    else:  # one probe is one attempt of several requests; no second one starts
        assert {t.identity["model"] for t in read_status(config.work_dir).totals} == {"base"}


def test_a_probe_that_fails_is_booked_with_its_reason(tmp_path: Path) -> None:
    with TestServer(faults=Faults({"500": 1.0}, only_first=0)) as server:
        config = _config(tmp_path, server.base_url)
        with pytest.raises(CJEError, match="scoring under base"):
            CJEPipeline(config).run()
        assert_accounts(server.app.report(), config.work_dir, exact=False)
    status = read_status(config.work_dir)
    assert status.calls > 0
    assert any(stage == "check" for stage, _, _ in status.failures)


@pytest.mark.accounts_apart("cje validate has no store to book in")
def test_validate_probes_without_a_store(tmp_path: Path) -> None:
    with TestServer(quirk="vllm") as server:
        config = _config(tmp_path, server.base_url)
        assert all(check.ok for check in check_scoring(config))
        assert requests_received(server.app.report()) > 0
    assert not config.work_dir.exists()
