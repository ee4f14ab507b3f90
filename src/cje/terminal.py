"""Text for a terminal. Names, files and servers are data: their content is shown, never executed.

Every line that a command prints goes through `safe`, by way of `say` or of `console`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["OutputClosedError", "console", "never_fail_to_encode", "safe", "say"]

# What acts on a terminal instead of being shown: control characters (C0, DEL, C1), line and
# paragraph separators, marks that reorder text (Unicode TR9), tags, and halves of characters.
_ACTIVE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def safe(text: object, *, lines: bool = False) -> str:
    """`text` with everything that a terminal would act on written as a visible escape.

    Parameters
    ----------
    text : object
        Anything with a text form.
    lines : bool
        Keep line ends and tabs: for a text of several lines that this package has put together
        from parts that are safe already. A name or a message is one line: its line ends could
        forge another.

    Examples
    --------
    >>> safe("good\\x1b[2K\\rbest: evil")
    'good\\\\x1b[2K\\\\rbest: evil'
    >>> safe("two\\nlines"), safe("two\\nlines", lines=True)
    ('two\\\\nlines', 'two\\nlines')
    """
    escape = _escape_but_lines if lines else _escape
    return _ACTIVE.sub(escape, str(text))


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def _escape_but_lines(found: re.Match[str]) -> str:
    return found[0] if found[0] in "\n\t" else _escape(found)


class OutputClosedError(Exception):
    """The program that reads our output has closed it, as ``| head`` does."""


def say(text: object = "", *, err: bool = False, lines: bool = True, end: str = "\n") -> None:
    """Print to standard output (or standard error), safely.

    Raises
    ------
    OutputClosedError
        If nobody reads the output any more.
    """
    stream = sys.stderr if err else sys.stdout
    try:
        stream.write(safe(text, lines=lines) + end)
        stream.flush()
    except BrokenPipeError as error:
        raise OutputClosedError from error


def console(stream: TextIO | None = None, **options: Any) -> Console:
    """A rich console that shows data as it is: no markup, no control characters.

    Tables and texts are drawn by rich; whatever characters they were given, only rich's own control
    sequences reach the terminal.
    """
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def on_broken_pipe(self) -> None:
            raise OutputClosedError

        def render(self, *given: Any, **more: Any) -> Iterable[Segment]:
            for segment in super().render(*given, **more):
                if segment.control:
                    yield segment
                else:
                    yield Segment(safe(segment.text, lines=True), segment.style)

    return SafeConsole(
        file=stream, **{"highlight": False, "markup": False, "emoji": False, **options}
    )


def never_fail_to_encode() -> None:
    """Let the standard streams write escapes for what their encoding does not have."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
