"""Judge templates: files with the question and its scale, and the texts fenced as data."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from cje.errors import CJEError

__all__ = ["JudgeTemplate", "Kind", "load_template", "template_names"]

Kind = Literal["score", "pass_fail", "comparative"]
_HEADER = re.compile(
    r"^\{#-?\s*kind:\s*(\w+);\s*low:\s*([\d.eE+-]+);\s*high:\s*([\d.eE+-]+)\s*-?#\}"
)


@dataclass(frozen=True)
class JudgeTemplate:
    """A question to a judge.

    Attributes
    ----------
    name, text : str
        Name and Jinja source. The first line declares kind and scale, as a comment:
        ``{#- kind: score; low: 0; high: 10 -#}``.
    kind : {"score", "pass_fail", "comparative"}
    low, high : float
        The declared range of the score; an answer outside it is refused, never clipped.
    """

    name: str
    text: str
    kind: Kind
    low: float
    high: float

    @property
    def digest(self) -> str:
        return sha256(
            f"{self.text}|{self.low!r}|{self.high!r}".encode("utf-8", "surrogatepass")
        ).hexdigest()

    def with_scale(self, low: float, high: float) -> JudgeTemplate:
        """The same question on another scale."""
        if self.kind != "score":
            raise CJEError(f"template '{self.name}' has no scale to change", value=(low, high))
        _check_scale(low, high, self.name)
        return replace(self, low=low, high=high)

    def to_unit(self, score: float) -> float:
        """A score on [low, high] mapped to [0, 1]."""
        return (score - self.low) / (self.high - self.low)

    def render(
        self, context: str, response: str, *, answer_format: str, rubric: str | None = None,
        other: str = "",
    ) -> str:  # fmt: skip
        """The prompt. A tag that occurs in no text separates the texts from the question."""
        from jinja2 import TemplateError

        try:
            text = _compiled(self.text).render(
                context=context, response=response, other=other, rubric=rubric,
                nonce=_nonce(context, response, other), low=_plain(self.low),
                high=_plain(self.high), answer_format=answer_format,
            )  # fmt: skip
        except TemplateError as error:
            raise CJEError(
                "the judge template cannot be rendered", where=self.name, hint=str(error)
            ) from error
        return str(text)


def _check_scale(low: float, high: float, where: str) -> None:
    if not -math.inf < low < high < math.inf:
        raise CJEError("the scale's low must be below its high", where=where, value=(low, high))


def _nonce(*texts: str) -> str:
    """A tag suffix that occurs in none of the texts, determined by them."""
    seed = "\x1f".join(texts)
    for attempt in range(1000):
        tag = sha256(f"{attempt}|{seed}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
        if tag not in seed:
            return tag
    raise AssertionError("no free tag: a text contains all thousand candidates")


def _plain(value: float) -> str:
    return f"{value:g}"


@lru_cache(maxsize=64)
def _compiled(text: str) -> Any:
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        return ImmutableSandboxedEnvironment(undefined=StrictUndefined).from_string(text)
    except TemplateError as error:
        raise CJEError("the judge template is broken", hint=str(error)) from error


def template_names() -> list[str]:
    """Templates shipped with the package."""
    folder = files("cje.judges").joinpath("templates")
    return sorted(
        f.name.removesuffix(".jinja") for f in folder.iterdir() if f.name.endswith(".jinja")
    )


def load_template(name: str) -> JudgeTemplate:
    """A shipped template by name, or a file by path."""
    if name in template_names():
        folder = files("cje.judges").joinpath("templates")
        text = folder.joinpath(f"{name}.jinja").read_text(encoding="utf-8")
    else:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # not a file, or not text
            raise CJEError(
                "no such judge template", value=name,
                hint=f"use one of {', '.join(template_names())}, or the path of a file",
            ) from error  # fmt: skip
    return parse_template(name, text)


def parse_template(name: str, text: str) -> JudgeTemplate:
    """Read the header line and check that the question has its required parts."""
    header = _HEADER.match(text)
    if header is None or header[1] not in ("score", "pass_fail", "comparative"):
        raise CJEError(
            "a judge template starts with a comment that declares its kind and scale", where=name,
            hint="first line: {#- kind: score; low: 0; high: 10 -#} (or pass_fail, comparative)",
        )  # fmt: skip
    try:
        low, high = float(header[2]), float(header[3])
    except ValueError as error:
        raise CJEError("the scale is not two numbers", where=name, value=header[0]) from error
    _check_scale(low, high, name)
    needed = ["context", "response", "nonce", "answer_format"]
    needed += ["other"] if header[1] == "comparative" else []
    missing = [word for word in needed if not re.search(rf"\{{\{{[^}}]*\b{word}\b", text)]
    if missing:
        raise CJEError(f"the judge template does not use {missing}", where=name)
    kind: Kind = header[1]  # type: ignore[assignment]  # one of the three, checked above
    return JudgeTemplate(name, text, kind, low, high)
