"""`Report`: parts in, one self-contained HTML file out.

Foreign text is data. In the page it is escaped by the template; in the table of samples it travels
as JSON whose ``<`` is escaped, and becomes text nodes only. A Content-Security-Policy allows only
the page's own style and script, by their hashes, so that even a mistake here could neither run nor
send anything.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import math
import os
import secrets
import stat
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cje.errors import CJEError
from cje.report import svg
from cje.report.parts import Answer, PairExamples, Part, SampleTable
from cje.report.wording import clean, fixed, number, p_value, shorten, signed

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

__all__ = ["Report", "check_report_file"]

_MOST_FINDINGS = 60
_SEVERITY_WORDS = {"info": "Note", "warning": "Caution", "refuse": "Refused"}


@dataclass(frozen=True)
class Report:
    """A title, the answer in sentences, and parts in reading order.

    Parameters
    ----------
    title, subtitle : str
    parts : tuple of parts
        From `cje.report.parts`; drawn in this order.
    answer : Answer, optional
        What the result supports, what it does not, and what to do next: the top of the page.

    Examples
    --------
    >>> from cje.report import Forest, ForestRow, Report
    >>> rows = (ForestRow("<i>new</i>", 0.5, 0.4, 0.6),)
    >>> page = Report("Two models", (Forest("Values", rows),)).to_html()
    >>> "&lt;i&gt;new" in page, "<i>" in page
    (True, False)
    """

    title: str
    parts: tuple[Part, ...]
    subtitle: str = ""
    answer: Answer | None = None

    def to_html(self, path: str | Path | None = None) -> str:
        """The whole page, also written to `path` if given. The same parts give the same bytes."""
        style, script = _asset("report.css"), _asset("report.js")
        page = self._render(
            "report.html.j2",
            style=style,
            script=script,
            policy=(
                f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
                "img-src data:; base-uri 'none'; form-action 'none'"
            ),
        )
        if path is not None:
            if is_pdf(path):
                raise CJEError(
                    "an HTML page does not belong under a name that ends in .pdf", where=str(path),
                    hint="to_pdf writes a PDF",
                )  # fmt: skip
            _write(Path(path), page.encode("utf-8"))
        return page

    def to_pdf(self, path: str | Path) -> None:
        """The page as PDF, printed by the Chromium or Chrome on this machine.

        Raises
        ------
        CJEError
            None is installed, it failed, or the file cannot be written.
        """
        from cje.report.pdf import print_page

        check_report_file(path)
        _write(Path(path), print_page(self.to_html()))

    def save(self, path: str | Path) -> None:
        """A PDF under a name that ends in ``.pdf``, otherwise the HTML page."""
        if is_pdf(path):
            self.to_pdf(path)
        else:
            self.to_html(path)

    def to_fragment(self) -> str:
        """The parts as a piece of HTML for a notebook: no script, no table of samples."""
        from markupsafe import Markup

        shown = Report(
            self.title,
            tuple(p for p in self.parts if not isinstance(p, SampleTable | PairExamples)),
            self.subtitle,
            self.answer,
        )
        return shown._render("fragment.html.j2", style=Markup(_asset("report.css")))

    def _render(self, template: str, **values: Any) -> str:
        from cje._version import __version__

        page = _environment().get_template(template)
        return page.render(report=self, version=__version__, most_findings=_MOST_FINDINGS, **values)


def is_pdf(path: str | Path) -> bool:
    """Whether the name asks for a PDF."""
    return Path(path).suffix.lower() == ".pdf"


def check_report_file(path: str | Path) -> None:
    """Raise if no report can be written to `path`, before the work for it is done.

    Raises
    ------
    CJEError
        If `path` is a folder, its folder does not exist, or no browser can print a PDF.
    """
    place = Path(path)
    if place.is_dir() or not place.name:
        raise CJEError(
            "cannot write the report: this is a folder", where=str(path),
            hint="name the file: report.html, or report.pdf",
        )  # fmt: skip
    if not place.parent.is_dir():
        raise CJEError("cannot write the report: there is no such folder", where=str(place.parent))
    if is_pdf(path):
        from cje.report.pdf import need_browser

        need_browser()


def _write(path: Path, page: bytes) -> None:
    """Write the page; an existing file is replaced completely or not at all.

    A page can hold prompts and responses. A new file gets the permissions of the user's umask, a
    replaced file keeps its own, and the permissions are not wider during the write.
    """
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    made = False
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        kept = stat.S_IMODE(path.stat().st_mode) if path.is_file() else None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(temporary, flags, 0o666 if kept is None else kept)
        made = True
        with os.fdopen(handle, "wb") as file:
            if kept is not None:
                temporary.chmod(kept)  # the umask
            file.write(page)
        temporary.replace(path)
    except OSError as error:
        if made:
            temporary.unlink(missing_ok=True)
        raise CJEError(
            f"cannot write the report: {error.strerror or error}", where=str(path)
        ) from error


@cache
def _asset(name: str) -> Markup:
    """A file of this package, as trusted markup."""
    from markupsafe import Markup

    file = resources.files("cje.report").joinpath("assets", name)
    return Markup(file.read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(lambda name: str(_asset(name))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters.update(
        clean=clean,
        short=shorten,
        number=number,
        fixed=fixed,
        signed=signed,
        p_value=p_value,
        kind=lambda part: type(part).__name__,
        strip=svg.forest_strip,
        axis=svg.forest_axis,
        curve=svg.curve_chart,
        histogram=svg.histogram_chart,
        sample_id=_sample_id,
        sample_json=_sample_json,
        pairs_json=_pairs_json,
        severity_word=lambda severity: _SEVERITY_WORDS[str(severity)],
    )
    return made


def _sample_id(part: SampleTable | PairExamples) -> str:
    digest = hashlib.sha256(clean(part.title).encode("utf-8")).hexdigest()
    return f"samples-{digest[:8]}"


def _sample_json(part: SampleTable) -> Markup:
    """The table's data."""
    rows = [[_cell(value, c.digits) for value, c in zip(row, part.columns, strict=True)]
            for row in part.rows]  # fmt: skip
    data = {
        "columns": [
            {"name": clean(c.name), "kind": c.kind, "digits": c.digits, "says": clean(c.says)}
            for c in part.columns
        ],
        "orders": [
            {"label": clean(label), "column": column, "size": size}
            for label, column, size in part.orders
        ],
        "rows": rows,
    }
    return _as_json(data)


def _pairs_json(part: PairExamples) -> Markup:
    """The pairs, the texts cleaned."""
    rows = [
        {
            "who": part.candidates.index(row.candidate),
            "id": clean(row.prompt_id),
            "prompt": clean(row.prompt),
            "texts": [clean(row.before), clean(row.after)],
            "gain": _cell(row.difference, 4),
            "labels": [_cell(value, 4) for value in row.labels],
            "scores": [_cell(value, 4) for value in row.scores],
            "groups": [clean(level) for level in row.groups],
        }
        for row in part.rows
    ]
    names = {"baseline": shorten(part.baseline, 80)}
    lists = {
        "candidates": [shorten(name, 80) for name in part.candidates],
        "columns": [shorten(name, 60) for name in part.columns],
    }
    return _as_json({**names, **lists, "rows": rows})


def _as_json(data: Any) -> Markup:
    """JSON with ``<``, ``>`` and ``&`` escaped, so that no parser reads them as markup."""
    from markupsafe import Markup

    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _cell(value: str | float | None, digits: int) -> str | float | None:
    if value is None or isinstance(value, str):
        return None if value is None else clean(value)
    if not math.isfinite(value):
        return None
    return round(float(value), digits + 2)
