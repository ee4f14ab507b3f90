"""Count prompts and logged responses that spell control tokens, which servers obey."""

from __future__ import annotations

import re

from cje.findings import Finding
from cje.findings.running import CONTROL_TEXT
from cje.pipeline.chunks import RowStream
from cje.pipeline.config import PipelineConfig
from cje.pipeline.stages.base import IN_PROCESS
from cje.policies.config import ANY_CONTROL_TEXT

__all__ = ["control_text_findings"]


def control_text_findings(rows: RowStream, config: PipelineConfig) -> list[Finding]:
    """Findings for texts that a server reads as control tokens; none without a server."""
    if all(each.provider in IN_PROCESS or each.is_local for each in config.policies):
        return []
    found = [_finding(rows, "context", "prompts")]
    if config.dataset.response_field is not None:
        found.append(_finding(rows, "response", "logged responses"))
    return [finding for finding in found if finding is not None]


def _finding(rows: RowStream, column: str, what: str) -> Finding | None:
    texts = rows.columns(column)[column].drop_nulls()
    spelled = texts.filter(texts.str.contains(ANY_CONTROL_TEXT))
    if spelled.is_empty():
        return None
    match = re.search(ANY_CONTROL_TEXT, str(spelled[0]))
    assert match is not None  # both engines read this pattern alike
    return CONTROL_TEXT.finding(
        rows=len(spelled), n=len(texts), what=what, first=match[0], details={"rows": len(spelled)}
    )
