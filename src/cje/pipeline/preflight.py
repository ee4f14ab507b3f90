"""Checks before money is spent: keys, and whether each server can do its part of the run."""

from __future__ import annotations

import asyncio
import difflib
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.running import SERVER
from cje.judges import JudgeConfig
from cje.models import Endpoint, ModelCallError, make_client, run_sync, with_retries
from cje.pipeline.budget import BudgetError
from cje.pipeline.config import PipelineConfig
from cje.pipeline.moved import repeat_answers
from cje.pipeline.probing import probe_scoring
from cje.pipeline.stages.base import IN_PROCESS
from cje.pipeline.stages.oracle import make_oracle
from cje.pipeline.store import CallStore
from cje.pipeline.trials import NoStore, ask_all, trials
from cje.policies import PolicyConfig, make_runner
from cje.policies.probe import SAMPLING_HINT

__all__ = ["Check", "check_keys", "check_scoring", "preflight", "require_servers"]

T = TypeVar("T")

# A running server lists its models at once, also when it is busy.
_SECONDS_TO_LIST = 10.0
_SECONDS_OF_SILENCE = 4.0
# These providers list every model they serve and refuse other names.
_LISTS_ALL = ("vllm", "sglang")
# These providers answer under any name.
_ANY_NAME = ("llama-cpp", "llama-server", "tgi")


@dataclass(frozen=True)
class Check:
    """One check and its result."""

    what: str
    ok: bool
    says: str
    warnings: tuple[str, ...] = ()

    def text(self) -> str:
        """One line."""
        said = "; ".join([self.says, *self.warnings])
        return f"{'ok   ' if self.ok else 'FAIL '}{self.what}: {said}"


def preflight(
    config: PipelineConfig,
    store: CallStore | None = None,
    notice: Callable[[str], None] = lambda _: None,
) -> list[Check]:
    """All checks of a run, in the order of the run.

    If a server is down or a key is missing, calls that need it are not tried.

    Parameters
    ----------
    store : CallStore, optional
        Counts the probes and trial calls, and keeps the answers of trial calls.
    notice : callable
        Receives a sentence when a check takes long.
    """
    checks = list(check_keys(config))
    oracle = _check_oracle_source(config)
    checks += oracle
    if not all(check.ok for check in checks):
        return checks
    with _patience(notice, "waiting for the servers' lists of models"):
        checks += check_servers(config)
    if not all(check.ok for check in checks):
        return checks
    for policy in _scored_policies(config):
        with _patience(notice, f"trying how {policy.name} can be scored"):
            checks.append(_scoring(policy, config, NoStore() if store is None else store))
    if not all(check.ok for check in checks):
        return checks
    with _patience(notice, "waiting for the first answer of each model"):
        if store is not None:
            checks += _check_moved(config, store)
            if not all(check.ok for check in checks):
                return checks
        checks += _check_trials(config, NoStore() if store is None else store)
    return checks


def require_servers(
    config: PipelineConfig,
    store: CallStore | None = None,
    notice: Callable[[str], None] = lambda _: None,
) -> list[Finding]:
    """Raise before money is spent if a check fails; return findings on what works with limits."""
    checks = preflight(config, store, notice)
    for check in checks:
        if not check.ok:
            raise CJEError(f"{check.what}: {check.says}", hint="`cje validate` shows every check")
    return [
        SERVER.finding(check=check.what, warning=warning)
        for check in checks
        for warning in check.warnings
    ]


@contextmanager
def _patience(notice: Callable[[str], None], what: str) -> Iterator[None]:
    """Show what a check waits for, if it takes longer than a few seconds."""
    timer = threading.Timer(_SECONDS_OF_SILENCE, notice, [f"{what} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def check_keys(config: PipelineConfig) -> Iterator[Check]:
    """Check that the environment holds the key of every server; the key is never shown."""
    seen: set[tuple[str, str]] = set()
    for where, endpoint in _endpoints(config):
        variable = endpoint.key_variable()
        if variable is None or (endpoint.provider, variable) in seen:
            continue
        seen.add((endpoint.provider, variable))
        try:
            endpoint.read_key()
        except CJEError as error:
            yield Check(f"key for {where}", False, str(error))
        else:
            yield Check(f"key for {where}", True, f"{variable} is set")


def _check_oracle_source(config: PipelineConfig) -> list[Check]:
    """Check that a table of labels can be read, or a labelling function imported."""
    oracle = config.oracle_config
    if oracle is None or oracle.source == "model" or config.labels_from_file:
        return []
    try:
        make_oracle(oracle)
    except CJEError as error:
        return [Check("labels", False, str(error))]
    return [Check("labels", True, f"source {oracle.source}")]


# servers and model names -----------------------------------------------------------------------


def check_servers(config: PipelineConfig) -> list[Check]:
    """Check that each server answers at its address and has the configured models."""
    found: dict[tuple[str, str | None], list[str] | Check | None] = {}
    checks: list[Check] = []
    for where, endpoint in _endpoints(config):
        server = (endpoint.provider, endpoint.url)
        if server not in found:
            found[server] = _listed(endpoint)
            if isinstance(listed := found[server], Check):
                checks.append(listed)
        listed = found[server]
        if isinstance(listed, list) and listed and endpoint.model not in listed:
            checks.append(_unlisted(where, endpoint, listed))
    return checks


def _listed(endpoint: Endpoint) -> list[str] | Check | None:
    """The server's model names, None if it has no list, or the failed check."""
    if endpoint.protocol == "azure":
        return None  # its list has models that could be deployed, not those that are

    async def ask() -> list[str]:
        client = make_client(endpoint)
        try:
            return await with_retries(
                lambda: client.models(within=min(endpoint.timeout, _SECONDS_TO_LIST)),
                attempts=3, base=0.3, again=lambda error: error.reason != "timeout",
            )  # fmt: skip
        finally:
            await client.aclose()

    what = f"server {endpoint.provider} at {endpoint.url or 'its usual address'}"
    try:
        return run_sync(ask())
    except ModelCallError as error:
        if error.reason in ("connection", "timeout", "missing_v1", "redirect", "content_type"):
            return Check(what, False, str(error))
        if error.status in (401, 403):
            return Check(what, False, str(error))
        return None  # the server has no list: the first call will show more


def _unlisted(where: str, endpoint: Endpoint, listed: Sequence[str]) -> Check:
    close = difflib.get_close_matches(endpoint.model, listed, n=1, cutoff=0.5)
    known = f"did you mean '{close[0]}'?" if close else f"it lists: {', '.join(listed[:8])}"
    said = f"the server does not list the model '{endpoint.model}'; {known}"
    what = f"model of {where}"
    if endpoint.provider in _LISTS_ALL:
        return Check(what, False, said)
    if endpoint.provider in _ANY_NAME:
        return Check(what, True, "this server answers under any name")
    return Check(what, True, "to be tried", (said,))


# calls -----------------------------------------------------------------------------------------


def _check_trials(config: PipelineConfig, store: Any) -> list[Check]:
    """One call each to the judge, the oracle and every policy that writes; check the answers."""
    made = trials(config)
    if not made:
        return []
    ended = _run(ask_all(made, config, store), store)
    checks = []
    for trial, end in zip(made, ended, strict=True):
        place = trial.request.recipe.place
        if isinstance(end, Exception):
            if not isinstance(end, ModelCallError):
                raise end
            checks.append(Check(trial.what, False, f"{end} [{config.line_of(place)}]"))
        elif end.reason is not None:
            said = f"its answer to a test question is unusable: {end.message}"
            checks.append(Check(trial.what, False, f"{said} [{config.line_of(place)}]"))
        else:
            checks.append(Check(trial.what, True, "answers"))
    return checks


def _check_moved(config: PipelineConfig, store: CallStore) -> list[Check]:
    """Check that servers with an `endpoint_id` repeat a stored answer."""
    asked = [
        (part.endpoint_record(), _is_chat(part), config.line_of(where))
        for where, part in _parts(config)
    ]
    return [
        Check(f"server {found.endpoint.endpoint_id}", found.ok, found.says)
        for found in repeat_answers(config, asked, store)
    ]


def _is_chat(part: PolicyConfig | JudgeConfig) -> bool:
    return isinstance(part, JudgeConfig) or part.endpoint == "chat"


def check_scoring(config: PipelineConfig) -> Iterator[Check]:
    """Check that every policy's server can score a given response (teacher forcing)."""
    for policy in _scored_policies(config):
        yield _scoring(policy, config, NoStore())


def _scored_policies(config: PipelineConfig) -> list[PolicyConfig]:
    if config.is_direct:
        return []
    policies = list(config.target_policies)
    if config.logging_policy is not None and config.target_policy.rescore_logging:
        policies.insert(0, config.logging_policy)
    return policies


def _loadable(what: str, policy: PolicyConfig) -> Check:
    """Check that a local model exists, and how it will be computed; no weights are read."""
    try:
        runner: Any = make_runner(policy)
        return Check(what, True, runner.model.describe())
    except CJEError as error:
        return Check(what, False, str(error))


def _scoring(policy: PolicyConfig, config: PipelineConfig, store: Any) -> Check:
    what = f"scoring under {policy.name}"
    if policy.provider in IN_PROCESS:
        return Check(what, True, "exact, in this process")
    if policy.is_local:
        return _loadable(what, policy)
    try:
        found = _run(probe_scoring(policy, config, store), store)  # it retries by itself
    except BudgetError:
        raise
    except CJEError as error:
        return Check(what, False, str(error))
    if not found.can_score:
        return Check(what, False, f"{found.evidence_text()}. What to do: {found.hint}")
    if found.scores_sampling_distribution is False:
        said = "; ".join(found.warnings)
        return Check(what, False, f"{said}. What to do: {SAMPLING_HINT}")
    return Check(what, True, f"form {found.form}", tuple(found.warnings))


def _run(asking: Coroutine[Any, Any, T], store: Any) -> T:
    """Run calls that are kept in a store; a store of calls belongs to the thread that opened it."""
    return run_sync(asking) if isinstance(store, NoStore) else asyncio.run(asking)


def _endpoints(config: PipelineConfig) -> Iterator[tuple[str, Endpoint]]:
    for where, part in _parts(config):
        yield where, part.endpoint_record()


def _parts(config: PipelineConfig) -> Iterator[tuple[str, PolicyConfig | JudgeConfig]]:
    """Every model behind a server, with its section in the file."""
    oracle = None if config.oracle_config is None else config.oracle_config.judge
    parts: list[tuple[str, PolicyConfig | JudgeConfig | None]] = [
        ("logging_policy", config.logging_policy),
        *config.judge_places(),
        ("oracle_config.judge", oracle),
        *((config.place_of(policy), policy) for policy in config.target_policies),
    ]
    for where, part in parts:
        if part is not None and part.provider not in IN_PROCESS and not part.is_local:
            yield where, part
