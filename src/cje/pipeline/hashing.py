"""Fingerprints that identify calls, chunks and stages.

Every name in the store is a BLAKE2b digest of length-prefixed parts, so no two different lists of
parts can produce the same byte string (``("ab", "c")`` and ``("a", "bc")`` differ).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from cje.errors import CJEError

__all__ = ["CallKeys", "canonical_json", "compute_contexts_hash", "content_hash", "fingerprint"]

KEY_BYTES = 16


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text.

    Examples
    --------
    >>> canonical_json({"b": 1, "a": [0.1, None]})
    '{"a":[0.1,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def fingerprint(*parts: Any) -> str:
    """A short hexadecimal name for a list of JSON-serialisable parts.

    Examples
    --------
    >>> fingerprint("judge", {"model": "m"}) == fingerprint("judge", {"model": "m"})
    True
    >>> fingerprint("ab", "c") == fingerprint("a", "bc")
    False
    """
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for part in parts:
        raw = canonical_json(part).encode()
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def content_hash(data: bytes) -> str:
    """SHA-256 of a file's bytes: the hash a manifest records and a reader checks."""
    return hashlib.sha256(data).hexdigest()


def compute_contexts_hash(rows: Iterable[Mapping[str, Any]]) -> str:
    """Fingerprint of the contexts (and, if present, ids and responses) of `rows`, in order.

    Two row lists with the same hash have the same contexts and responses, so their stage
    outputs may be shared.

    Examples
    --------
    >>> a = [{"context": "x", "response": "y"}]
    >>> compute_contexts_hash(a) == compute_contexts_hash([{"context": "x", "response": "z"}])
    False
    """
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise CJEError("a row must be a mapping", where=f"row {number}", value=row)
        for name in ("prompt_id", "draw_idx", "context", "response"):
            value = row.get(name)
            raw = b"\xff" if value is None else str(value).encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "little"))
            digest.update(raw)
    return digest.hexdigest()


class CallKeys:
    """Makes the store keys of one recipe's calls.

    A recipe is everything that one stage's calls to one model share: stage, provider, model and
    revision, template hash, sampling parameters. It is hashed once; a call adds its own texts,
    token ids and repeat index to a copy of that hash state, which takes about a microsecond.

    Examples
    --------
    >>> keys = CallKeys("judge", {"model": "m"})
    >>> keys.key("context", "response", 0) == keys.key("context", "response", 1)
    False
    """

    def __init__(self, stage: str, identity: Mapping[str, Any]) -> None:
        self.stage = stage
        self.identity = canonical_json(dict(identity))
        self.digest = bytes.fromhex(fingerprint(stage, dict(identity)))
        self._base = hashlib.blake2b(self.digest, digest_size=KEY_BYTES)

    def key(self, *parts: str | int | list[int] | None) -> bytes:
        """The key of the call whose own parts are `parts` (texts, token ids, repeat index)."""
        digest = self._base.copy()
        for part in parts:
            # The type letter distinguishes the text "1" from the number 1.
            if isinstance(part, str):
                raw = b"s" + part.encode("utf-8", "surrogatepass")
            elif isinstance(part, int):
                raw = b"i%d" % part
            else:
                raw = b"j" + json.dumps(part).encode()
            digest.update(len(raw).to_bytes(8, "little") + raw)
        return digest.digest()


def seed_of(key: bytes) -> int:
    """A 31-bit seed from a call's key: the same call always has the same seed."""
    return int.from_bytes(key[:4], "little") & 0x7FFFFFFF
