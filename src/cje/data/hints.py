"""What to do next, in the syntax of the interface the reader is using: Python or a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "FIELD_NAMES",
    "command_line_hints",
    "field_hint",
    "label_map_hint",
    "option_hint",
    "pairwise_hint",
    "policy_column_hint",
]

_COMMAND_LINE: ContextVar[bool] = ContextVar("cje_command_line", default=False)

# Short names of roles, on the command line and in `fields`.
FIELD_NAMES = {
    "label": "oracle_label",
    "draw": "draw_idx",
    "propensity": "label_propensity",
    "score": "judge_score",
    "base_logprob": "base_policy_logprob",
}
_SHORT = {role: short for short, role in FIELD_NAMES.items() if short != "score"}


@contextmanager
def command_line_hints() -> Iterator[None]:
    """Within this context hints are options of the `cje` command."""
    token = _COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _COMMAND_LINE.reset(token)


def field_hint(role: str, column: str | None) -> str:
    """How to say which column plays a role; None: that no column does.

    Examples
    --------
    >>> field_hint("judge_score", "gpt4_score")
    "fields={'judge_score': 'gpt4_score'}"
    >>> with command_line_hints():
    ...     print(field_hint("oracle_label", "my label"))
    --field 'label=my label'
    """
    if _COMMAND_LINE.get():
        return "--field " + shlex.quote(f"{_SHORT.get(role, role)}={column or 'none'}")
    return f"fields={{{role!r}: {column!r}}}"


def policy_column_hint(column: str | None) -> str:
    """How to say which column names the policy, or that none does."""
    if _COMMAND_LINE.get():
        return f"--policy-column {shlex.quote(column or 'none')}"
    return f"fields={{'policy': {column!r}}}"


def label_map_hint() -> str:
    """How to give words their values."""
    if _COMMAND_LINE.get():
        return "--label-map good=1,bad=0"
    return "label_map={'good': 1, 'bad': 0}"


def pairwise_hint() -> str:
    """Where comparisons of two responses are read."""
    if _COMMAND_LINE.get():
        return "cje analyze reads comparisons: win rates and a ranking"
    return "analyze_dataset(..., estimator='pairwise') reads comparisons"


def option_hint(name: str, value: str | bool) -> str:
    """An option of `cje.data.read` with a value, or as a flag of the command.

    Examples
    --------
    >>> option_hint("skip_bad_rows", True), option_hint("judge_scale", "1-5")
    ('skip_bad_rows=True', "judge_scale='1-5'")
    """
    if not _COMMAND_LINE.get():
        return f"{name}={value!r}"
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag} {shlex.quote(str(value))}"
