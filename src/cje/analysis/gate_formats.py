"""A gate's result as Markdown for a pull request, and as JUnit XML."""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree

from cje.analysis.gate import GateResult, GateRow
from cje.inference import Decision, Interval
from cje.results.decimals import decimals_for
from cje.terminal import safe

__all__ = ["to_junit", "to_markdown"]

_MARKS = re.compile(r"[\\`*_{}\[\]#|~@$]|:(?=//)|(?<=www)\.")


def _text(text: str) -> str:
    """Foreign text on one line, with its markup, HTML and mentions disabled."""
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", html.escape(safe(text), quote=True))


def to_markdown(found: GateResult) -> str:
    """A table and the sentences; names of versions and levels are escaped."""
    lines = [f"### cje gate: {found.decision}", ""]
    lines += ["| where | difference | interval | decision |", "|---|---:|---:|---|"]
    for row in found.rows:
        cells = (_text(row.group or "all"), *_numbers(row), str(row.decision))
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "  \n".join(_text(line) for line in [*found.sentences(), *found.cautions()])]
    if found.decision is Decision.UNDECIDED and found.undecided != "undecided":
        lines += ["", f"Undecided counts as {found.undecided} here."]
    return "\n".join(lines) + "\n"


def _numbers(row: GateRow) -> tuple[str, str]:
    if row.difference is None or row.low is None or row.high is None:
        return "refused", _text(row.reason)
    d = decimals_for(Interval(row.low, row.high))
    return f"{row.difference:+.{d}f}", f"{row.low:+.{d}f} to {row.high:+.{d}f}"


def to_junit(found: GateResult) -> str:
    """One test case for all rows and one per level; levels fail the suite only with `each`."""
    rows = found.rows if found.each else found.rows[:1]
    suite = ElementTree.Element("testsuite", name="cje gate", tests=str(len(rows)))
    counts = {"failure": 0, "error": 0, "skipped": 0}
    message = " ".join(found.sentences())
    for row in rows:
        name = f"{found.candidate} against {found.baseline}"
        name += f" where {row.group}" if row.group else ""
        case = ElementTree.SubElement(suite, "testcase", classname="cje.gate", name=safe(name))
        kind = _kind(found, row)
        if kind is not None:
            counts[kind] += 1
            said = safe(message if not row.group else f"{row.decision} {' '.join(_numbers(row))}")
            ElementTree.SubElement(case, kind, message=said)
    for kind, plural in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(plural, str(counts[kind]))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _kind(found: GateResult, row: GateRow) -> str | None:
    """The JUnit element of a row; None if it passed."""
    if row.decision is Decision.PASS:
        return None
    if row.decision is Decision.FAIL:
        return "failure"
    return {"undecided": "error", "fail": "failure", "pass": "skipped"}[found.undecided]
