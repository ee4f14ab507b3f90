"""What to do next, in the syntax of the interface the reader is using: Python or a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = [
    "FIELD_NAMES",
    "by_interface",
    "command_line_hints",
    "field_hint",
    "field_option",
    "flag_option",
    "label_map_hint",
    "label_map_option",
    "option_hint",
    "pairwise_hint",
    "scale_hint",
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


def by_interface(python: str, command: str) -> str:
    """One of two wordings: for a reader who calls Python, or who runs the command.

    Examples
    --------
    >>> by_interface("covariates=('length',)", "--covariate length")
    "covariates=('length',)"
    """
    return command if _COMMAND_LINE.get() else python


def field_option(role: str, column: str | None) -> str:
    """The option of the command that says which column plays a role.

    Examples
    --------
    >>> field_option("oracle_label", "my label")
    "--field 'label=my label'"
    """
    if role == "policy":
        return f"--policy-column {shlex.quote(column or 'none')}"
    return "--field " + shlex.quote(f"{_SHORT.get(role, role)}={column or 'none'}")


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
        return field_option(role, column)
    return f"fields={{{role!r}: {column!r}}}"


def label_map_option(words: Sequence[str] = ()) -> str:
    """The option that gives words their values, those of a column filled in: the worst 0."""
    given = words or ("good", "bad")
    top = len(given) - 1
    pairs = ",".join(f"{word}={(top - i) / top if top else 1:g}" for i, word in enumerate(given))
    return f"--label-map {shlex.quote(pairs)}"


def label_map_hint(words: Sequence[str] = ()) -> str:
    """How to give words their values."""
    if _COMMAND_LINE.get():
        return label_map_option(words)
    given = words or ("good", "bad")
    top = len(given) - 1
    pairs = ", ".join(f"{w!r}: {(top - i) / top if top else 1:g}" for i, w in enumerate(given))
    return f"label_map={{{pairs}}}"


def flag_option(name: str, value: str | float | bool = True) -> str:
    """An argument as the option of the same name of the command.

    Examples
    --------
    >>> flag_option("skip_bad_rows"), flag_option("judge_scale", "1-5")
    ('--skip-bad-rows', '--judge-scale 1-5')
    """
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag} {shlex.quote(str(value))}"


def scale_hint(argument: str, low: float | str = "low", high: float | str = "high") -> str:
    """How to declare a scale.

    Examples
    --------
    >>> scale_hint("judge_scale", 1.0, 5.0), scale_hint("oracle_scale")
    ('judge_scale=(1, 5)', 'oracle_scale=(low, high)')
    """
    ends = [end if isinstance(end, str) else f"{end:g}" for end in (low, high)]
    if _COMMAND_LINE.get():
        return flag_option(argument, ",".join(ends))
    return f"{argument}=({', '.join(ends)})"


def pairwise_hint() -> str:
    """Where comparisons of two responses are read."""
    if _COMMAND_LINE.get():
        return "cje analyze reads comparisons: win rates and a ranking"
    return "analyze_dataset(..., estimator='pairwise') reads comparisons"


def option_hint(name: str, value: str | float | bool) -> str:
    """An argument with a value, or the option of the same name of the command.

    Examples
    --------
    >>> option_hint("skip_bad_rows", True), option_hint("judge_scale", "1-5")
    ('skip_bad_rows=True', "judge_scale='1-5'")
    """
    return flag_option(name, value) if _COMMAND_LINE.get() else f"{name}={value!r}"
