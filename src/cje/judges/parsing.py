"""Read the verdict of a judge's answer: as JSON first, then tolerantly, but without guessing.

The content of the judged text must not become its score. Tolerant reading therefore looks only for
a stated verdict, ignores lines quoted from the judged text, and refuses an answer that states two
different verdicts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cje.judges.template import JudgeTemplate
from cje.models import BadOutputError

__all__ = ["Parsed", "parse_verdict"]

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
# Adjacent parts must not match the same characters, and a pattern stays within its line: a judge
# that writes a thousand newlines must not make the search take minutes.
_OPEN = r"^[ \t\r\u00a0>*_#`\"'({-]*"
_FINAL = r"(?:(?P<final>final|overall|total)[ \t\u00a0]*)?"
_GAP = r"[ \t\r\u00a0*_`\"']*"
_AFTER = rf"{_GAP}(?:\n{{1,2}}{_GAP})?"  # the verdict may stand on the line below
_UNIT_OF = rf"(?:\s*(?P<unit>%|(?:/|out of)\s*{_NUMBER}))?"
_CLOSE = r"[ \t\r\u00a0.*_`\"',)}!]*$"
_STATED = re.compile(
    rf"{_OPEN}{_FINAL}(?:score|rating){_GAP}(?:is|of|[:=]){_AFTER}(?P<value>{_NUMBER}){_UNIT_OF}"
    rf"{_CLOSE}",
    re.IGNORECASE | re.MULTILINE,
)
_BARE = re.compile(rf"^\s*(?P<value>{_NUMBER}){_UNIT_OF}[\s.]*$")
_WORDS = {
    "pass_fail": re.compile(
        rf"{_OPEN}(?:{_FINAL}(?:verdict|result|decision){_GAP}(?:is|[:=]){_AFTER})?"
        rf"(?P<value>pass|fail){_CLOSE}",
        re.IGNORECASE | re.MULTILINE,
    ),
    "comparative": re.compile(
        rf"{_OPEN}(?:{_FINAL}(?:winner|verdict|result|answer){_GAP}(?:is|[:=]){_AFTER})?"
        rf"(?:response[ \t]+)?(?P<value>a|b|tie){_CLOSE}",
        re.IGNORECASE | re.MULTILINE,
    ),
}
_FIELD = {"score": "score", "pass_fail": "verdict", "comparative": "winner"}
_UNIT = {"pass": 1.0, "fail": 0.0, "a": 1.0, "b": 0.0, "tie": 0.5}


@dataclass(frozen=True)
class Parsed:
    """A verdict on the template's own scale mapped to [0, 1].

    Attributes
    ----------
    value : float
    by : {"structured", "tolerant"}
    interval : (float, float) or None
        The judge's stated interval on [0, 1], if asked for.
    """

    value: float
    by: Literal["structured", "tolerant"]
    interval: tuple[float, float] | None = None


def parse_verdict(raw: str, template: JudgeTemplate, judged: str = "") -> Parsed:
    """The verdict in `raw`.

    Parameters
    ----------
    raw : str
        What the judge wrote.
    template : JudgeTemplate
        Its kind and declared range.
    judged : str
        The judged text; lines the judge quotes from it are not read.

    Raises
    ------
    BadOutputError
        With reason ``no_score``, ``ambiguous_score`` or ``score_out_of_range``.
    """
    whole = _as_object(raw)
    if whole is not None:
        return _from_fields(whole, template, raw, "structured")
    text = _unquoted(raw, judged)
    # An object that the judged text also holds is a quotation, anywhere in a line.
    objects = [
        fields
        for fields, source in _objects(text)
        if _FIELD[template.kind] in fields and source not in judged
    ]
    if not objects:
        return Parsed(_stated(text, template, raw), "tolerant")
    found = [_from_fields(fields, template, raw, "tolerant") for fields in objects]
    values = {parsed.value for parsed in found} | _statements(text, template, raw)
    if len(values) > 1:
        raise _refusal("ambiguous_score", "the answer holds several verdicts", raw)
    return found[-1]


def _refusal(reason: str, what: str, raw: str) -> BadOutputError:
    return BadOutputError(f"judge: {what}", reason=reason, raw=raw, value=raw)


def _as_object(text: str) -> Mapping[str, Any] | None:
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        stripped = stripped.strip("`").removeprefix("json")
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _objects(text: str) -> list[tuple[Mapping[str, Any], str]]:
    """Every top-level JSON object inside a text, with its source text."""
    decoder, at = json.JSONDecoder(), 0
    found: list[tuple[Mapping[str, Any], str]] = []
    while (at := text.find("{", at)) >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        if isinstance(value, dict):
            found.append((value, text[at:end]))
        at = end
    return found


def _unquoted(raw: str, judged: str) -> str:
    """The answer without lines copied from the judged text."""
    copied = {line.strip(" >*-\t\"'") for line in judged.splitlines()} - {""}
    return "\n".join(line for line in raw.splitlines() if line.strip(" >*-\t\"'") not in copied)


def _from_fields(
    fields: Mapping[str, Any],
    template: JudgeTemplate,
    raw: str,
    by: Literal["structured", "tolerant"],
) -> Parsed:
    name = _FIELD[template.kind]
    value = fields.get(name)
    if template.kind != "score":
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in _UNIT or (word in ("pass", "fail")) != (template.kind == "pass_fail"):
            raise _refusal("no_score", f"'{name}' is not a verdict", raw)
        return Parsed(_UNIT[word], by)
    if isinstance(value, str):
        return Parsed(_stated(value, template, raw), by, _interval(fields, template))
    return Parsed(_in_range(value, template, raw), by, _interval(fields, template))


def _interval(fields: Mapping[str, Any], template: JudgeTemplate) -> tuple[float, float] | None:
    ends = [fields.get("lower"), fields.get("upper")]
    if not all(isinstance(e, (int, float)) and math.isfinite(e) for e in ends):
        return None
    low, high = sorted(min(max(float(e), template.low), template.high) for e in ends)  # type: ignore[arg-type]
    return template.to_unit(low), template.to_unit(high)


def _in_range(value: Any, template: JudgeTemplate, raw: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise _refusal("no_score", "the score is not a number", raw)
    if not template.low <= value <= template.high:
        raise _refusal(
            "score_out_of_range",
            f"the score {value:g} is outside the declared {template.low:g} to {template.high:g}",
            raw,
        )
    return template.to_unit(float(value))


def _stated(text: str, template: JudgeTemplate, raw: str) -> float:
    """The verdict stated on a separate line; a final verdict takes precedence."""
    values = _statements(text, template, raw)
    bare = _BARE.match(text) if not values and template.kind == "score" else None
    if bare:
        return _read(bare, template, raw)
    if not values:
        raise _refusal("no_score", "the answer states no verdict", raw)
    if len(values) > 1:
        raise _refusal("ambiguous_score", "the answer states several verdicts", raw)
    return values.pop()


def _statements(text: str, template: JudgeTemplate, raw: str) -> set[float]:
    """Every verdict on a separate line; only the final ones if some are marked as final."""
    matches = list(_WORDS.get(template.kind, _STATED).finditer(text))
    final = [m for m in matches if m.groupdict().get("final")]
    return {_read(m, template, raw) for m in (final or matches)}


def _read(match: re.Match[str], template: JudgeTemplate, raw: str) -> float:
    value = match["value"]
    if template.kind != "score":
        return _UNIT[value.lower()]
    number, unit = float(value), match["unit"]
    if unit == "%":
        number = template.low + number / 100.0 * (template.high - template.low)
    elif unit:
        stated = re.search(_NUMBER, unit)
        if stated is None or float(stated[0]) != template.high:
            raise _refusal("score_out_of_range", "the score is on another scale", raw)
    return _in_range(number, template, raw)
