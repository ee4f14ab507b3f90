"""How files are read, for every command that reads data: the options, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cje.errors import CJEError

__all__ = [
    "Data",
    "Field",
    "JudgeScale",
    "LabelMap",
    "OracleScale",
    "PolicyColumn",
    "Sheet",
    "SkipBadRows",
    "Wide",
    "given_source",
    "reading_options",
]

Data = Annotated[
    list[str] | None,
    typer.Argument(
        help="Files or a folder; several files are several policies (prod.csv cand.csv, or "
        "prod=a.jsonl cand=b.jsonl). - reads standard input."
    ),
]
Field = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        metavar="ROLE=COLUMN",
        help="Which column plays which role: judge_score=gpt4, label=human.rating, policy=..., "
        "prompt_id=..., cluster (conversation, user), draw, propensity, judge_variance, prompt, "
        "response, or any name for a further number. COLUMN none: no column.",
    ),
]
PolicyColumn = Annotated[
    str | None,
    typer.Option(
        "--policy-column", help="Column that names the policy; none: all rows are of one policy."
    ),
]
LabelMap = Annotated[
    list[str] | None,
    typer.Option(
        "--label-map", metavar="WORD=NUMBER,...", help="Values of words: good=1,fair=0.5,bad=0."
    ),
]
JudgeScale = Annotated[str | None, typer.Option(help="Range of the scores: '1-5'.")]
OracleScale = Annotated[str | None, typer.Option(help="Range of the labels: '0-100'.")]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Skip invalid rows and report how many.")
]
Sheet = Annotated[str | None, typer.Option(help="Sheet of a workbook (by default the first).")]

Wide = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Versions side by side in columns such as score_A, score_B; none: there are none.",
    ),
]


def given_source(data: Sequence[str] | None) -> Any:
    """What `cje.data.read` takes for the files of a command; None where there are none."""
    if not data:
        return None
    named = [_named(given) for given in data]
    if any(name for name, _ in named):
        return _by_policy(named)
    if len(data) == 1:
        return data[0] if data[0] == "-" else Path(data[0])
    return [Path(given) for given in data]


def _named(given: str) -> tuple[str, str]:
    """`prod=a.jsonl` as a policy and a path; a file that exists under the whole name is a path."""
    name, sign, path = given.partition("=")
    if not sign or not name or "/" in name or Path(given).exists():
        return "", given
    return name, path


def _by_policy(named: Sequence[tuple[str, str]]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name, path in named:
        if not name:
            raise CJEError(
                "name the policy of every file, or of none", value=path,
                hint="cje analyze prod=a.jsonl cand=b.jsonl",
            )  # fmt: skip
        if name in found:
            raise CJEError("two files are of the same policy", value=name)
        found[name] = Path(path)
    return found


def reading_options(
    field: Sequence[str] | None = None,
    policy_column: str | None = None,
    label_map: Sequence[str] | None = None,
    sheet: str | None = None,
    wide: str | None = None,
) -> dict[str, Any]:
    """`fields`, `label_map`, `sheet` and `wide` of `cje.data.read`, as far as they were given."""
    fields = dict(_pair(given, "--field ROLE=COLUMN") for given in field or ())
    if policy_column is not None:
        fields["policy"] = policy_column
    options: dict[str, Any] = {}
    if fields:
        options["fields"] = {
            role: None if column.lower() == "none" else column for role, column in fields.items()
        }
    words = [part for given in label_map or () for part in given.split(",") if part.strip()]
    if words:
        pairs = [_pair(part, "--label-map WORD=NUMBER,...") for part in words]
        options["label_map"] = {word: _value(number, word) for word, number in pairs}
    if sheet is not None:
        options["sheet"] = sheet
    if wide is not None:
        options["wide"] = wide
    return options


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
            "the value of a word is a number, or none for a missing label", where=word,
            value=number, hint="--label-map good=1,bad=0",
        ) from error  # fmt: skip
