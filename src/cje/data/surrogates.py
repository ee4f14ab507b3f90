"""Halves of surrogate pairs: JSON and Python hold them in text, UTF-8 and polars cannot."""

from __future__ import annotations

from cje.errors import CJEError

__all__ = ["HALF_PAIR", "check_column_name", "is_unicode", "storable_text"]

# Completes the sentence "<column> ..." or "the name of the column ...".
HALF_PAIR = "holds half of a surrogate pair, which is not text"


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can express the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable_text(text: str) -> str:
    """`text` with lone surrogates written out, as in ``\\ud83d``: any file and database takes it.

    Examples
    --------
    >>> storable_text("caf\\u00e9"), storable_text("broken \\ud83d")
    ('café', 'broken \\\\ud83d')
    """
    return text if is_unicode(text) else text.encode("utf-8", "backslashreplace").decode()


def check_column_name(name: str, where: str | None = None) -> None:
    """Raise for the name of a column, or of a nested field, that UTF-8 cannot express."""
    if not is_unicode(name):
        raise CJEError(
            f"the name of a column {HALF_PAIR}",
            where=where,
            value=name,
            hint="give the column another name",
        )
