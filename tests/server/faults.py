"""Which request fails, and how: decided by a hash, so that a run can be repeated exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

__all__ = ["FAULTS", "IN_ANSWER", "Faults"]

#: Name of each fault: which kinds of request it can strike ("any", "score", "write", "judge",
#: "text": the last two).
FAULTS: Mapping[str, str] = {
    "429": "any",
    "429-retry-after": "any",
    "500": "any",
    "503": "any",
    "hang": "any",
    "reset": "any",
    "truncated": "any",
    "content-type": "any",
    "drip": "any",
    "nan": "score",
    "missing": "score",
    "positive": "score",
    "sentinel": "score",
    "short": "score",
    "refusal": "write",
    "non-score": "judge",
    "surrogate": "text",
    "odd-usage": "any",
    "negative-usage": "any",
    "odd-token-id": "write",
    "endless-logprob": "score",
    "endless-body": "any",
    "gzip-bomb": "any",
    "redirect": "any",
    "wait-for-ever": "any",
}
#: Faults inside an answer of status 200.
IN_ANSWER = frozenset(
    {"nan", "missing", "positive", "sentinel", "short", "refusal", "non-score", "surrogate",
     "odd-usage", "negative-usage", "odd-token-id", "endless-logprob"}
)  # fmt: skip


@dataclass
class Faults:
    """Shares of requests that fail.

    Parameters
    ----------
    shares : mapping
        Fault name to probability.
    seed : int
    only_first : int
        A request fails at most this often, so that a retry ends well (0: no limit).
    retry_after : float
        Seconds in the header of ``429-retry-after``.
    persistent : bool
        Whether a request that fails fails at every attempt.
    redirect_to : str
        Where ``redirect`` sends the caller.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    only_first: int = 3
    retry_after: float = 0.02
    redirect_to: str = ""
    persistent: bool = False

    def __post_init__(self) -> None:
        unknown = set(self.shares) - set(FAULTS)
        if unknown:
            raise ValueError(f"unknown faults {unknown}: use {list(FAULTS)}")

    def pick(self, key: str, attempt: int, kind: str) -> str | None:
        """The fault that strikes attempt number `attempt` of the request `key`, if any."""
        if not self.shares or (self.only_first and attempt > self.only_first):
            return None
        draw = 0 if self.persistent else attempt
        digest = sha256(f"{self.seed}/{key}/{draw}".encode()).digest()
        at = int.from_bytes(digest[:8], "big") / 2**64
        for name, share in self.shares.items():
            wanted = FAULTS[name]
            if wanted not in ("any", kind) and not (wanted == "text" and kind != "score"):
                continue
            if at < share:
                return name
            at -= share
        return None
