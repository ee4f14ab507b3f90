"""Checks before a cent is spent: keys, and whether each server can do what it will be asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.running import SERVER
from cje.judges import JudgeConfig
from cje.models import Endpoint, run_sync
from cje.pipeline.config import PipelineConfig
from cje.pipeline.stages.base import IN_PROCESS
from cje.policies import PolicyConfig, make_runner
from cje.policies.probe import SAMPLING_HINT

__all__ = ["Check", "check_keys", "check_scoring", "preflight", "require_servers"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    what: str
    ok: bool
    says: str
    warnings: tuple[str, ...] = ()

    def text(self) -> str:
        """One line."""
        said = "; ".join([self.says, *self.warnings])
        return f"{'ok   ' if self.ok else 'FAIL '}{self.what}: {said}"


def preflight(config: PipelineConfig) -> list[Check]:
    """Every check of a run, in the order in which the run would meet it."""
    return [*check_keys(config), *check_scoring(config)]


def require_servers(config: PipelineConfig) -> list[Finding]:
    """Stop before anything is paid for if a check fails; what works with care is a finding."""
    checks = preflight(config)
    for check in checks:
        if not check.ok:
            raise CJEError(f"{check.what}: {check.says}", hint="`cje validate` shows every check")
    return [
        SERVER.finding(check=check.what, warning=warning)
        for check in checks
        for warning in check.warnings
    ]


def check_keys(config: PipelineConfig) -> Iterator[Check]:
    """Whether the environment holds the key of every server (the key itself is never shown)."""
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


def check_scoring(config: PipelineConfig) -> Iterator[Check]:
    """Whether every policy's server can score a given response (teacher forcing)."""
    if config.is_direct:
        return
    policies = list(config.target_policies)
    if config.logging_policy is not None and config.target_policy.rescore_logging:
        policies.insert(0, config.logging_policy)
    for policy in policies:
        what = f"scoring under {policy.name}"
        if policy.provider in IN_PROCESS:
            yield Check(what, True, "exact, in this process")
            continue
        yield _probe(what, policy)


def _probe(what: str, policy: PolicyConfig) -> Check:
    runner = make_runner(policy)

    async def look() -> Check:
        try:
            found = await runner.aprobe()  # type: ignore[attr-defined]  # it retries by itself
        except CJEError as error:
            return Check(what, False, str(error))
        finally:
            await runner.aclose()
        if not found.can_score:
            return Check(what, False, f"{found.evidence_text()}. What to do: {found.hint}")
        if found.scores_sampling_distribution is False:
            said = "; ".join(found.warnings)
            return Check(what, False, f"{said}. What to do: {SAMPLING_HINT}")
        return Check(what, True, f"form {found.form}", tuple(found.warnings))

    return run_sync(look())


def _endpoints(config: PipelineConfig) -> Iterator[tuple[str, Endpoint]]:
    parts: list[tuple[str, PolicyConfig | JudgeConfig | None]] = [
        ("logging_policy", config.logging_policy),
        ("judge", config.judge),
        ("oracle_config", None if config.oracle_config is None else config.oracle_config.judge),
        *((f"target policy {policy.name}", policy) for policy in config.target_policies),
    ]
    for where, part in parts:
        if part is not None and part.provider not in IN_PROCESS:
            yield where, part.endpoint_record()
