"""Nothing paid for is lost: odd answers, stops, faults and a failing store, against the books."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cje.errors import CJEError
from cje.models import RetryableError
from cje.pipeline.budget import BudgetError
from cje.pipeline.config import load_config
from cje.pipeline.coordinator import CJEPipeline
from cje.pipeline.disk import DiskError
from cje.pipeline.hashing import CallKeys
from cje.pipeline.store import CallRecord, CallStore
from cje.pipeline.trials import ask_all, trials
from tests.pipeline.accounting import assert_accounts, read_books
from tests.pipeline.scenes import results_of, server_settings, write_config, write_prompts
from tests.server.faults import Faults
from tests.server.running import SubprocessServer, TestServer

ROWS = 40
PRICES = {m: {"prompt_per_million": 1.0, "completion_per_million": 3.0}
          for m in ("base", "near", "moderate", "judge", "oracle")}  # fmt: skip


def _config(folder: Path, url: str, rows: int = ROWS, **changes: Any) -> Path:
    write_prompts(folder, rows)
    settings = server_settings(url, timeout=30.0)  # a busy machine must not look like a lost call
    settings["oracle_config"]["fraction"] = 1.0
    return write_config(folder, settings, prices=PRICES, **changes)


def _true_cost(report: dict[str, Any]) -> float:
    billed = report["billed"]
    return float(billed["prompt_tokens"] + 3.0 * billed["completion_tokens"]) / 1e6


def test_a_calm_run_books_exactly_what_the_server_billed(tmp_path: Path) -> None:
    with TestServer() as server:
        config = load_config(_config(tmp_path, server.base_url))
        CJEPipeline(config).run()
        books = assert_accounts(server.app.report(), config.work_dir)
        assert books.cost == pytest.approx(_true_cost(server.app.report()), rel=1e-12)


@pytest.mark.parametrize(
    ("fault", "errors"),
    [
        ("surrogate", True), ("odd-usage", False), ("negative-usage", False),
        ("odd-token-id", True), ("endless-logprob", True), ("gzip-bomb", True),
    ],
)  # fmt: skip
def test_one_odd_answer_in_ten_costs_its_own_row_only(
    tmp_path: Path, fault: str, errors: bool
) -> None:
    share = 0.02 if fault == "gzip-bomb" else 0.1
    with TestServer(faults=Faults({fault: share}, only_first=0, persistent=True)) as server:
        config = load_config(_config(tmp_path, server.base_url, max_error_share=0.9))
        result = CJEPipeline(config).run()
        report = server.app.report()
        assert report["struck"][fault] > 0
        assert 0 < result.n_errors < 0.5 * ROWS if errors else result.n_errors == 0
        books = assert_accounts(report, config.work_dir, exact=False)
        assert books.cost >= _true_cost(report) * (1 - 1e-12)
        # A second run asks again only for what has failed.
        server.app.forget()
        CJEPipeline(config).run()
        again = sum(server.app.report()["calls"].values())
        assert again <= 3 * report["struck"][fault] if errors else again == 0


def test_text_with_a_lone_surrogate_is_kept_as_the_model_wrote_it(tmp_path: Path) -> None:
    store = CallStore(tmp_path / "store.sqlite")
    keys = CallKeys("judge", {"model": "m"})
    store.register(keys)
    answers = {keys.key(i): {"text": text} for i, text in enumerate(("a\ud83d", "\udc00é", "ok"))}
    store.put_many([CallRecord(key, keys.digest, answer) for key, answer in answers.items()])
    assert store.get_many(list(answers)) == answers


class Refusing:
    """A connection that fails at one statement: `fails(number, text)` says at which."""

    def __init__(self, connection: sqlite3.Connection, fails: Any) -> None:
        self._connection, self._fails, self.count = connection, fails, 0

    def _checked(self, statement: str) -> None:
        self.count += 1
        if self._fails(self.count, statement):
            raise sqlite3.OperationalError("disk I/O error")

    def execute(self, statement: str, *more: Any) -> Any:
        self._checked(statement)
        return self._connection.execute(statement, *more)

    def executemany(self, statement: str, *more: Any) -> Any:
        self._checked(statement)
        return self._connection.executemany(statement, *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def _put_ten(folder: Path, fails: Any) -> tuple[int, int, int]:
    """(statements made, records acknowledged, records in the store)."""
    store = CallStore(folder / "store.sqlite")
    keys = CallKeys("judge", {"model": "m"})
    store.register(keys)
    broken = Refusing(store._connection, fails)
    store._connection = broken  # type: ignore[assignment]

    async def put() -> list[Any]:
        made = [
            CallRecord(keys.key(i), keys.digest, {"i": i}, 1, 3, 2, 0.5, model="m")
            if i != 4
            else CallRecord(keys.key(i), keys.digest, {}, 2, 3, 2, 0.5, reason="http_500")
            for i in range(10)
        ]
        return await asyncio.gather(*(store.put(r) for r in made), return_exceptions=True)

    ended = asyncio.run(put())
    with contextlib.suppress(CJEError):
        store.close()
    books = read_books(folder)
    acknowledged = [i for i, e in enumerate(ended) if e is None]
    assert books.prompt_tokens == 3 * len(acknowledged)
    assert books.cost == 0.5 * len(acknowledged)
    assert books.finished == len([i for i in acknowledged if i != 4])
    return broken.count, len(acknowledged), books.attempts


def test_a_statement_that_fails_once_loses_no_answer(tmp_path: Path) -> None:
    total, kept, attempts = _put_ten(tmp_path, lambda *_: False)
    assert (kept, attempts) == (10, 11)
    for at in range(1, total + 1):
        folder = tmp_path / f"at{at}"
        folder.mkdir()
        _, kept, attempts = _put_ten(folder, lambda n, _, at=at: n == at)
        last = at > total - 1  # folding the log into the file at the end
        assert (kept, attempts) == (10, 11) or last, at


def test_a_statement_that_always_fails_acknowledges_nothing_it_has_not_kept(
    tmp_path: Path,
) -> None:
    # Of the ten records nine look for their key first, and one is written as a failure.
    kept_without = {"BEGIN": 0, "SELECT key": 1, "INSERT INTO calls": 0, "DELETE": 0,
                    "INSERT OR": 9, "UPDATE": 0, "INSERT INTO models": 0, "COMMIT": 0}  # fmt: skip
    for word, expected in kept_without.items():
        folder = tmp_path / word.replace(" ", "_")
        folder.mkdir()
        _, kept, _ = _put_ten(folder, lambda _, text, word=word: text.startswith(word))
        assert kept == expected, word


@pytest.mark.accounts_apart("what was under way when the store failed is bounded in the test")
def test_a_store_that_fails_anywhere_in_a_run_keeps_the_books(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = CallStore.__init__
    made: list[Refusing] = []

    def run(folder: str, fails_from: int) -> Path:
        def init(self: CallStore, *a: Any, **k: Any) -> None:
            opened(self, *a, **k)
            made.append(Refusing(self._connection, lambda n, _: n >= fails_from))
            self._connection = made[-1]  # type: ignore[assignment]

        monkeypatch.setattr(CallStore, "__init__", init)
        config = load_config(_config(tmp_path / folder, server.base_url, rows=12))
        try:
            CJEPipeline(config).run()
        finally:
            monkeypatch.setattr(CallStore, "__init__", opened)
        return config.work_dir

    with TestServer() as server:
        wanted = results_of(run("calm", 10**9))
        total = made[-1].count
        assert total > 50
        for at in range(3, 6 * total // 10, total // 8):  # commits group by time: totals vary
            server.app.forget()
            with pytest.raises(DiskError):
                run(f"at{at}", at)
            work_dir = tmp_path / f"at{at}" / "run"
            # 16 calls under way, and those answered within the group that could not be written.
            assert_accounts(server.app.report(), work_dir, in_flight=48)
            assert results_of(run(f"at{at}", 10**9)) == wanted


def test_a_budget_stop_keeps_every_call_the_server_received(tmp_path: Path) -> None:
    with TestServer(latency=0.02) as server:
        config = load_config(
            _config(tmp_path, server.base_url, budget={"max_calls": 57}, chunk_rows=10)
        )
        with pytest.raises(BudgetError):
            CJEPipeline(config).run()
        books = assert_accounts(server.app.report(), config.work_dir)
        assert books.attempts == 57
        assert server.app.peak > 4


def test_a_failure_of_one_call_keeps_those_in_flight(tmp_path: Path) -> None:
    from cje.models import FatalError
    from tests.pipeline.test_engine import TEXTS, Model, _engine, _requests

    class Slow(Model):
        async def __call__(self, request: Any, seed: int) -> Any:
            if request.texts[0] != "text 5":
                self._delay = 0.05
                return await super().__call__(request, seed)
            raise FatalError("no", reason="http_401", status=401)

    model = Slow()
    engine = _engine(tmp_path)
    with pytest.raises(FatalError):
        asyncio.run(engine.run(_requests(engine, model, TEXTS)))
    assert engine.store.spent()[0] == sum(model.calls.values()) + 1  # the refused one too


def test_attempts_that_were_billed_are_booked_when_the_run_stops_between_two(
    tmp_path: Path,
) -> None:
    from tests.pipeline.test_engine import Model, _engine, _requests

    def trouble(text: str, count: int) -> None:
        if text == "text 0":
            raise RetryableError("busy", reason="http_503", retry_after=60.0)
        raise RuntimeError("stop")

    engine = _engine(tmp_path)
    model = Model(trouble)

    async def scene() -> None:
        running = asyncio.ensure_future(engine.run(_requests(engine, model, ["text 0"])))
        await asyncio.sleep(0.05)
        engine.halt(BudgetError("enough"))
        with pytest.raises(BudgetError):
            await running

    asyncio.run(scene())
    assert engine.store.spent()[0] == 1


@pytest.mark.timeout(120)
def test_ctrl_c_finishes_and_keeps_the_calls_under_way(tmp_path: Path) -> None:
    with SubprocessServer("--latency", "0.3") as server:
        path = _config(tmp_path, server.base_url, chunk_rows=10)
        work_dir = tmp_path / "run"
        run = subprocess.Popen(
            [sys.executable, "-m", "cje.cli.main", "run", str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            while sum(server.report()["calls"].values()) < 40:
                assert run.poll() is None, run.communicate()
                time.sleep(0.02)
            run.send_signal(signal.SIGINT)
            _, said = run.communicate(timeout=30)
        finally:
            run.kill()
        assert run.returncode == 130
        assert "calls under way are finished and kept" in said
        assert "Traceback" not in said
        assert_accounts(server.report(), work_dir)


def _try_models(path: Path) -> None:
    """The calls before a run, already in its store."""
    config = load_config(path)
    store = CallStore(config.work_dir / "store.sqlite")
    asyncio.run(ask_all(trials(config), config, store))
    store.close()


@pytest.mark.timeout(120)
@pytest.mark.accounts_apart("a second Ctrl-C abandons the calls under way")
def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    with SubprocessServer() as server:
        settings = server_settings(server.base_url)
        settings["logging_policy"]["timeout"] = 60.0
        write_prompts(tmp_path, 10)
        path = write_config(tmp_path, settings)
        _try_models(path)
        port = server.base_url.rsplit(":", 1)[1].removesuffix("/v1")
    with SubprocessServer("--port", port, "--fault", "hang=1", "--only-first", "0") as server:
        run = subprocess.Popen(
            [sys.executable, "-m", "cje.cli.main", "run", str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        while not sum(server.report()["calls"].values()):
            assert run.poll() is None, run.communicate()
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert run.poll() is None  # the first waits for the calls under way
        began = time.monotonic()
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=10)
        assert time.monotonic() - began < 5.0
        assert run.returncode == 130
        assert "Traceback" not in said


def test_a_run_inside_an_event_loop_can_be_stopped_and_keeps_its_calls(tmp_path: Path) -> None:
    with TestServer(latency=0.1) as server:
        config = load_config(_config(tmp_path, server.base_url))

        def interrupt() -> None:
            while len(server.calls) < 20:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        async def notebook() -> None:
            CJEPipeline(config).run()

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(notebook())
        assert 20 <= read_books(config.work_dir).attempts < 200
        assert_accounts(server.app.report(), config.work_dir)
