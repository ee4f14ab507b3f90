"""`cje run`, `resume`, `status`, `validate`: the pipeline from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from cje.terminal import say

__all__ = ["resume", "run", "status", "validate"]

CONFIG = typer.Argument(..., help="The run's YAML file.")
LIMIT = typer.Option(None, "--limit", min=1, help="Process only the first N contexts.")
EXECUTOR = typer.Option(None, "--executor", help="local or ray, instead of the file's choice.")


def run(
    config: Path = CONFIG,
    limit: int | None = LIMIT,
    executor: str | None = EXECUTOR,
    quiet: bool = typer.Option(False, "--quiet", help="Show no progress."),
) -> None:
    """Run all seven stages on the contexts; finished work of an earlier run is reused."""
    from cje.pipeline import CJEPipeline
    from cje.pipeline.progress import NoProgress, make_reporter

    settings = _load(config, limit, executor)
    reporter = NoProgress() if quiet else make_reporter()
    try:
        result = CJEPipeline(settings, reporter=reporter).run()
    except KeyboardInterrupt:
        say("stopped; run the same command again to resume", err=True)
        raise typer.Exit(130) from None
    say(result.summary())
    say()
    say(f"files: {settings.work_dir / 'result'}; open report.html there in a browser", lines=False)


def resume(
    config: Path = CONFIG, limit: int | None = LIMIT, executor: str | None = EXECUTOR
) -> None:
    """Resume a run that was stopped (`cje run` again does the same)."""
    from cje.errors import CJEError

    settings = _load(config, limit, executor)
    if not (settings.work_dir / "store.sqlite").is_file():
        raise CJEError(
            "nothing to resume in this work folder",
            where=str(settings.work_dir),
            hint="start with `cje run`",
        )
    run(config, limit, executor, quiet=False)


def status(config: Path = CONFIG) -> None:
    """Show the progress of a run: calls, tokens, cost, errors. Works while it runs."""
    from cje.pipeline.config import load_config
    from cje.pipeline.status import read_status

    say(read_status(load_config(config).work_dir).text())


def validate(
    config: Path = CONFIG,
    limit: int | None = LIMIT,
    offline: bool = typer.Option(False, "--offline", help="Do not contact any server."),
) -> None:
    """Check configuration, keys and servers; print the planned calls, tokens and cost.

    It spends next to nothing: a server that scores is probed with a few short calls.
    """
    from cje.pipeline.preflight import check_keys, preflight
    from cje.pipeline.stages.estimators import check_estimators
    from cje.pipeline.store import CallStore
    from cje.pipeline.work_plan import make_plan

    settings = _load(config, limit, None)
    check_estimators(settings)
    checks = list(check_keys(settings)) if offline else preflight(settings)
    say(f"ok   configuration: {config}", lines=False)
    for check in checks:
        say(check.text(), lines=False)
    path = settings.work_dir / "store.sqlite"
    plan = make_plan(settings, CallStore(path, read_only=True) if path.is_file() else None)
    say(plan.text())
    for line in _over_budget(settings, plan):
        say(line)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def _load(config: Path, limit: int | None, executor: str | None) -> Any:
    from cje.errors import CJEError
    from cje.pipeline.config import load_config

    changes: dict[str, Any] = {}
    if executor is not None:
        if executor not in ("local", "ray"):
            raise CJEError("unknown executor", value=executor, hint="use local or ray")
        changes["executor"] = executor
    return load_config(config, limit=limit, **changes)


def _over_budget(settings: Any, plan: Any) -> list[str]:
    """Notes on what the plan needs beyond the budget."""
    caps = settings.budget
    found = []
    if caps.max_calls is not None and plan.todo > caps.max_calls:
        found.append(f"note: {plan.todo} calls are planned, budget.max_calls is {caps.max_calls}")
    if caps.max_cost is not None and plan.cost > caps.max_cost:
        found.append(
            f"note: the expected cost is {plan.cost:.4f}, budget.max_cost is {caps.max_cost}"
        )
    return found
