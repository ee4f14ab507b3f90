"""Keys in wrong places: refused before anything is written, and masked in output.

The environment is the only place for a key. Everything else that reaches a store, a manifest, a
report or an error message is checked here first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cje.errors import CJEError

__all__ = ["check_base_url", "check_key_variable", "find_secret", "looks_secret", "masked_url"]

# Issuers mark their keys with a prefix; the rest is random.
_MARKED = re.compile(
    r"\b(?:(?:sk|pk|rk|gh[pousr]|github_pat|glpat|xox[abeoprs]|hf|gsk|r8|nvapi)[-_]"
    r"|AKIA|AIza|ya29\.|eyJ)[A-Za-z0-9_\-.]{12,}"
)
# A sequence of mixed letters and digits, longer than any word.
_RANDOM = re.compile(r"(?=[A-Za-z0-9]*[0-9])(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{20,}")
_NAMES = re.compile(
    r"(x[-_])?(api[-_]?key|auth|authorization|bearer|credentials?|pass(word|wd|phrase)?|pwd|secret"
    r"|(access|auth|api|id|refresh)?[-_]?token|client[-_]?secret|private[-_]?key|subscription[-_]key)",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_WAY_OUT = "put the key into an environment variable and name it in api_key_env"


def looks_secret(text: str) -> bool:
    """Whether `text` contains something that looks like a key.

    Examples
    --------
    >>> [looks_secret(t) for t in ("sk-proj-0123456789abcdef", "gpt-4o-mini-2024-07-18", "v1")]
    [True, False, False]
    """
    return bool(_MARKED.search(text) or _RANDOM.search(text))


def check_base_url(url: str) -> str:
    """`url` without a trailing slash; raise if it has a user, a password or a query.

    Raises
    ------
    CJEError
        The message does not repeat the secret part.
    """
    parts = urlsplit(url)
    if "@" in parts.netloc or (not parts.netloc and "@" in url):
        shown = url.rpartition("@")[2].partition("?")[0]
        raise CJEError(f"base_url (of {shown}) carries a user name or password", hint=_WAY_OUT)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CJEError("base_url must start with http:// or https://", value=masked_url(url))
    if parts.query or parts.fragment:
        raise CJEError(
            f"base_url (of {parts.netloc}) carries a query ('?') or a fragment ('#')",
            hint=f"leave it out; for a key, {_WAY_OUT}",
        )
    return url.rstrip("/")


def masked_url(url: str) -> str:
    """`url` with segments of its path that look like keys replaced by a short digest of them.

    Equal addresses stay equal and different ones different, so the masked form can be a store key.

    Examples
    --------
    >>> masked_url("https://host/v1/sk-0123456789abcdef/openai").startswith("https://host/v1/[secret-")
    True
    >>> masked_url("http://localhost:8000/v1")
    'http://localhost:8000/v1'
    """
    parts = urlsplit(url)
    path = "/".join(_masked(p) if looks_secret(p) else p for p in parts.path.split("/"))
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, path, "", ""))


def _masked(text: str) -> str:
    return f"[secret-{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}]"


def check_key_variable(name: str) -> str:
    """The name of an environment variable; raise if it looks like the key itself.

    Raises
    ------
    CJEError
        The message does not repeat the value.
    """
    if not _VARIABLE.fullmatch(name) or (looks_secret(name) and not name.isupper()):
        raise CJEError(
            "api_key_env is not the name of an environment variable",
            hint="write the variable's name, such as OPENAI_API_KEY, never the key",
        )
    return name


def find_secret(values: Mapping[str, Any]) -> str | None:
    """Path (``a.b``) of an apparent key in nested `values`, by its name or its form."""
    return next(_secrets(values, ""), None)


def _secrets(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            inside = f"{place}.{name}" if place else str(name)
            if _NAMES.fullmatch(str(name)) and inner not in (None, "", False):
                yield inside
            yield from _secrets(inner, inside)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _secrets(inner, f"{place}.{index}")
    elif isinstance(value, str) and looks_secret(value):
        yield place
