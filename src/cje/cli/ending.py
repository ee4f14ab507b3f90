"""How a command ends: with a message, an exit code, and never a traceback.

========  =========================================================================
0         answered; `cje gate`: PASS
1         an error: the message says why and what to do; `cje gate`: FAIL
2         a requested value was refused; `cje gate`: UNDECIDED
3         an error in `cje gate`
130       stopped by Ctrl-C; finished work is kept
141       the program that read the output closed it (as ``| head`` does)
========  =========================================================================
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from typing import Any

from cje.errors import CJEError
from cje.terminal import OutputClosedError, never_fail_to_encode, safe, say

__all__ = ["EXIT_CLOSED", "EXIT_ERROR", "EXIT_STOPPED", "run_to_the_end"]

EXIT_ERROR, EXIT_STOPPED, EXIT_CLOSED = 1, 130, 141


def run_to_the_end(
    command: Callable[[], Any],
    usage_error: type[Exception],
    abort: type[BaseException],
    error_code: int = EXIT_ERROR,
) -> int:
    """Run `command` and return its exit code; whatever it raises becomes a message.

    Parameters
    ----------
    command : callable
        Returns an exit code, or anything else for 0.
    usage_error, abort : exception types
        How the command-line library reports wrong options, and an interrupted prompt.
    error_code : int
        Exit code of an error: 3 where 1 and 2 are answers (`cje gate`).
    """
    never_fail_to_encode()
    try:
        code = command()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (BrokenPipeError, OutputClosedError):
        _give_up_output()
        return EXIT_CLOSED
    except (KeyboardInterrupt, abort):
        say("stopped", err=True)
        return EXIT_STOPPED
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of polars is not an Exception
        try:
            say(_message(error, usage_error), err=True, lines=False)
            for answer in _commands(error):
                say(f"  {answer}", err=True, lines=False)
        except (OSError, OutputClosedError):
            _give_up_output()
        return error_code


def _message(error: BaseException, usage_error: type[Exception]) -> str:
    if isinstance(error, CJEError):
        return f"error: {error}"
    if isinstance(error, usage_error):
        said = getattr(error, "format_message", lambda: str(error))()
        return f"error: {said} (`--help` shows the options)"
    if isinstance(error, OSError) and error.strerror:
        place = f" [{error.filename}]" if error.filename else ""
        return f"error: {error.strerror[:1].lower()}{error.strerror[1:]}{place}"
    if isinstance(error, MemoryError):
        return "error: this needs more memory than the machine has. What to do: use less data"
    return (
        f"error: unexpected {type(error).__name__}: {_first_line(error)}. This is a defect of cje. "
        f"What to do: report it{_details(error)}"
    )


def _commands(error: BaseException) -> list[str]:
    """The command line with each answer to the question, ready to paste."""
    lines = []
    for answer in error.answers if isinstance(error, CJEError) else ():
        words = sys.argv[1:]
        if isinstance(answer, tuple):
            old, new = answer
            words = [
                word[: -len(old)] + new if os.path.basename(word) == old else word for word in words
            ]
            added = ""
        else:
            added = f" {answer}"
        lines.append(f"{shlex.join(['cje', *words])}{added}")
    return lines


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "no message")[:300]


def _details(error: BaseException) -> str:
    """Write the traceback to a private file; the part of the message that names it."""
    import tempfile
    import traceback

    try:
        handle, path = tempfile.mkstemp(prefix="cje-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("command: " + safe(" ".join(sys.argv)) + "\n\n")
            file.writelines(traceback.format_exception(error))
    except OSError:
        return ""
    return f", with the details in {path}"


def _give_up_output() -> None:
    """Discard what is still buffered, so that Python does not complain at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a real stream
        return
