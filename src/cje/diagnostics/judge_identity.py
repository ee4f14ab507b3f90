"""Which judge a judge card is about: a fingerprint of the model, the template and the rubric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from cje.errors import CJEError
from cje.findings import Finding
from cje.findings.labels import JUDGE_CARD_STALE

__all__ = ["JudgeIdentity"]

_DIGEST = 16


@dataclass(frozen=True)
class JudgeIdentity:
    """A judge: the name of its model, and digests of the template and the rubric it was given.

    Examples
    --------
    >>> old = JudgeIdentity.of("model-1", template="Rate: {{ response }}", rubric="Be strict.")
    >>> new = JudgeIdentity.of("model-1", template="Rate: {{ response }}", rubric="Be kind.")
    >>> old.differences(new)
    ('rubric',)
    """

    judge: str
    template: str = ""
    rubric: str = ""

    @classmethod
    def of(cls, judge: str, *, template: str = "", rubric: str = "") -> JudgeIdentity:
        """Build from the texts themselves; an empty text counts as unknown.

        Raises
        ------
        CJEError
            A name or text that is not a string, or a judge without a name.
        """
        for name, value in (("judge", judge), ("template", template), ("rubric", rubric)):
            if not isinstance(value, str):
                raise CJEError(f"the {name} of a judge must be text", value=value)
        if not judge:
            raise CJEError("the judge needs a name", value=judge)
        return cls(judge, _digest(template), _digest(rubric))

    @property
    def fingerprint(self) -> str:
        """One digest of model, template and rubric."""
        return _digest("\x1f".join((self.judge, self.template, self.rubric)))

    def differences(self, other: JudgeIdentity) -> tuple[str, ...]:
        """What is not the same: ``judge``, ``template``, ``rubric``."""
        mine, its = asdict(self), asdict(other)
        return tuple(name for name in mine if mine[name] != its[name])

    def stale(self, now: JudgeIdentity) -> list[Finding]:
        """A warning where the judge in use `now` is not the one a card was made for."""
        changed = self.differences(now)
        if not changed:
            return []
        details = {"card": self.fingerprint, "now": now.fingerprint, "changed": list(changed)}
        verb = "differs" if len(changed) == 1 else "differ"
        return [
            JUDGE_CARD_STALE.finding(
                self.judge, details=details, changed=f"{' and '.join(changed)} {verb}"
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**asdict(self), "fingerprint": self.fingerprint}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JudgeIdentity:
        """The inverse of `to_dict`."""
        return cls(*(str(data[name]) for name in ("judge", "template", "rubric")))


def _digest(text: str) -> str:
    if not text:
        return ""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
