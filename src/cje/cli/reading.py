"""How files are read, for every command that reads data: the options, and what they mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from cje.errors import CJEError

__all__ = ["Data", "given_source", "reads"]

Data = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files or a folder; several files are several policies (prod.csv cand.csv, or "
        "prod=a.jsonl cand=b.jsonl). '-' reads standard input."
    ),
]

# Names are those of the arguments of `cje.data.read`; `field` and `policy_column` fill `fields`.
_OPTIONS: dict[str, tuple[Any, Any, Any]] = {
    "field": (list[str] | None, None, typer.Option(
        "--field", metavar="ROLE=COLUMN",
        help="Which column plays which role: judge_score=gpt4, label=human.rating, policy=..., "
        "prompt_id=..., cluster (conversation, user), draw, propensity, judge_variance, prompt, "
        "response, or any name for a further number. COLUMN none: no column.",
    )),
    "policy_column": (str | None, None, typer.Option(
        help="Column that names the policy; none: all rows belong to one policy."
    )),
    "labels": (Path | None, None, typer.Option(
        help="Labels to join: a file (a table, or one that cje label wrote), or a folder with one "
        "file per policy."
    )),
    "on": (list[str] | None, None, typer.Option(
        help="Key column(s) that labels are joined by: id, or id=question_id."
    )),
    "label_map": (list[str] | None, None, typer.Option(
        "--label-map", metavar="WORD=NUMBER,...", help="Values of words: good=1,fair=0.5,bad=0."
    )),
    "sheet": (str | None, None, typer.Option(help="Sheet of a workbook (default: the first).")),
    "wide": (str | None, None, typer.Option(
        metavar="A,B",
        help="Policies side by side in columns such as score_A, score_B; none: not side by side.",
    )),
    "judge_scale": (str | None, None, typer.Option(help="Range of the scores: 1-5.")),
    "oracle_scale": (str | None, None, typer.Option(help="Range of the labels: 0-100.")),
    "repeats": (str, "error", typer.Option(
        help="A second row of one policy and prompt: error, or draws (one of several responses)."
    )),
    "skip_bad_rows": (bool, False, typer.Option(
        "--skip-bad-rows", help="Skip invalid rows and report how many."
    )),
}  # fmt: skip


def reads(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of reading files, all but those in `without`.

    The command takes them together as `reading`: keyword arguments of `cje.data.read`.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.name != "reading"]
        added = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default,
                      annotation=Annotated[kind, option])
            for name, (kind, default, option) in _OPTIONS.items()
            if name not in without
        ]  # fmt: skip

        @wraps(command)
        def run(**given: Any) -> None:
            reading = reading_arguments(**{p.name: given.pop(p.name) for p in added})
            command(reading=reading, **given)

        parameters = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in own] + added
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def given_source(data: Sequence[str] | None) -> Any:
    """The source for `cje.data.read` from the files of a command; None without files."""
    if not data:
        return None
    named = [_named(given) for given in data]
    if any(name for name, _ in named):
        return _by_policy(named)
    if len(data) == 1:
        return data[0] if data[0] == "-" else Path(data[0])
    return [Path(given) for given in data]


def _named(given: str) -> tuple[str, str]:
    """Policy and path of `prod=a.jsonl`; an existing file of that whole name is only a path."""
    name, sign, path = given.partition("=")
    if not sign or not name or "/" in name or Path(given).exists():
        return "", given
    return name, path


def _by_policy(named: Sequence[tuple[str, str]]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name, path in named:
        if not name:
            raise CJEError(
                "some files have a policy's name and others do not", value=path,
                hint="name the policy of every file: prod=a.jsonl cand=b.jsonl",
            )  # fmt: skip
        if name in found:
            raise CJEError("two files belong to the same policy", value=name)
        found[name] = Path(path)
    return found


def reading_arguments(
    field: Sequence[str] | None = None,
    policy_column: str | None = None,
    label_map: Sequence[str] | None = None,
    sheet: str | None = None,
    wide: str | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Arguments of `cje.data.read` from options of a command; `others` have the same names in both.

    Raises
    ------
    typer.BadParameter
        An unknown choice.
    CJEError
        A pair that is not NAME=VALUE.
    """
    if others.get("repeats", "error") not in ("error", "draws"):
        raise typer.BadParameter("use error or draws", param_hint="--repeats")
    arguments = dict(others)
    if "on" in others:
        arguments["on"] = others["on"] or None
    fields = dict(_pair(given, "--field ROLE=COLUMN") for given in field or ())
    if policy_column is not None:
        fields["policy"] = policy_column
    if fields:
        arguments["fields"] = {
            role: None if column.lower() == "none" else column for role, column in fields.items()
        }
    words = [part for given in label_map or () for part in given.split(",") if part.strip()]
    if words:
        pairs = [_pair(part, "--label-map WORD=NUMBER,...") for part in words]
        arguments["label_map"] = {word: _value(number, word) for word, number in pairs}
    if sheet is not None:
        arguments["sheet"] = sheet
    if wide is not None:
        arguments["wide"] = wide
    return arguments


def _pair(given: str, usage: str) -> tuple[str, str]:
    left, sign, right = given.partition("=")
    if not sign or not left.strip() or not right.strip():
        raise CJEError("expected two names with = between them", value=given, hint=usage)
    return left.strip(), right.strip()


def _value(number: str, word: str) -> float | None:
    if number.lower() in ("none", "missing"):
        return None
    try:
        return float(number)
    except ValueError as error:
        raise CJEError(
            "the value of a word must be a number, or none for a missing label", where=word,
            value=number, hint="--label-map good=1,bad=0",
        ) from error  # fmt: skip
