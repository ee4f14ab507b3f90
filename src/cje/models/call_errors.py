"""The errors of a call to a model: try again, stop, or record an unusable answer."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from time import time
from typing import Any, Literal

from cje.errors import CJEError

__all__ = [
    "LONGEST_WAIT",
    "BadOutputError",
    "FatalError",
    "Kind",
    "ModelCallError",
    "RetryableError",
    "error_from_status",
    "parse_retry_after",
]

#: Longest wait, in seconds, that a server may ask for. A longer one ends the run, which can resume.
LONGEST_WAIT = 600.0
# Refusals of one text: the next row may be fine.
_ROW_REASONS = {
    "context_too_long": ("context length", "context_length", "maximum context", "too long"),
    "content_filter": ("content_filter", "content management policy"),
}
Kind = Literal["rate_limit", "transient", "bad_answer", "fatal"]


class ModelCallError(CJEError):
    """A call that gave no usable answer.

    Parameters
    ----------
    what : str
        What happened, without any key or header.
    kind : {"rate_limit", "transient", "bad_answer", "fatal"}
        What the caller should do: slow down, try again, record an error row, or stop.
    reason : str
        A short stable code, such as ``"timeout"`` or ``"positive_logprob"``.
    status : int, optional
        The HTTP status, where there was one.
    retry_after : float, optional
        Seconds the server asked us to wait.
    """

    kind: Kind = "fatal"

    def __init__(
        self,
        what: str,
        *,
        kind: Kind | None = None,
        reason: str = "unknown",
        status: int | None = None,
        retry_after: float | None = None,
        where: str | None = None,
        value: Any = ...,
        hint: str | None = None,
    ) -> None:
        super().__init__(what, where=where, value=value, hint=hint)
        if kind is not None:
            self.kind = kind
        self.reason, self.status, self.retry_after = reason, status, retry_after


class RetryableError(ModelCallError):
    """The server was busy, slow or broken: the same call may work later."""

    kind: Kind = "transient"


class FatalError(ModelCallError):
    """The call cannot work as configured: wrong key, unknown model, bad parameters."""

    kind: Kind = "fatal"


class BadOutputError(ModelCallError):
    """The server answered, but the answer cannot be used."""

    kind: Kind = "bad_answer"

    def __init__(self, what: str, *, reason: str, raw: str = "", **more: Any) -> None:
        super().__init__(what, reason=reason, **more)
        self.raw = raw


def parse_retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds to wait from ``retry-after-ms`` or ``retry-after`` (seconds or an HTTP date).

    Examples
    --------
    >>> parse_retry_after({"retry-after": "2.5"})
    2.5
    >>> parse_retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, now=50.0)
    10.0
    >>> [parse_retry_after({"retry-after": text}) for text in ("soon", "inf")]
    [None, None]
    """
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * scale
        except ValueError:
            pass
        else:
            if isfinite(seconds):  # "inf" would be an endless wait
                return max(0.0, seconds)
            continue
        try:
            moment = parsedate_to_datetime(text).timestamp()
        except (ValueError, TypeError):
            continue
        return max(0.0, moment - (time() if now is None else now))
    return None


def _duration(seconds: float) -> str:
    """A duration in words.

    Examples
    --------
    >>> _duration(700), _duration(7300), _duration(1e8)
    ('12 minutes', '2 hours', '1157 days')
    """
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def error_from_status(
    status: int, headers: Mapping[str, str], detail: str, *, where: str
) -> ModelCallError:
    """The typed error for an HTTP status: 429 slows down, 408/409/425/5xx retry, others stop."""
    wait = parse_retry_after(headers)
    if wait is not None and wait > LONGEST_WAIT:
        return FatalError(
            f"the server asks to wait {_duration(wait)} before the next call (status {status})",
            reason="wait_too_long", status=status, where=where,
            hint="run the same command again later: finished calls are kept",
        )  # fmt: skip
    detail = detail.strip().replace("\n", " ")[:300]
    if status == 429 and "insufficient_quota" not in detail:
        return RetryableError(
            f"the server is limiting the rate ({detail})", kind="rate_limit", reason="http_429",
            status=status, retry_after=wait, where=where,
        )  # fmt: skip
    if status in (408, 409, 425) or status >= 500:
        return RetryableError(
            f"the server failed with status {status} ({detail})", reason=f"http_{status}",
            status=status, retry_after=wait, where=where,
        )  # fmt: skip
    for reason, words in _ROW_REASONS.items():
        if status in (400, 413, 422) and any(word in detail.lower() for word in words):
            return BadOutputError(
                f"the server refuses this row ({detail})", reason=reason,
                status=status, where=where,
            )  # fmt: skip
    hints = {
        401: "the key is missing or wrong: set the environment variable the config names",
        403: "this key may not use this model",
        404: "check model and base_url",
        429: "the account has no quota left",
    }
    return FatalError(
        f"the server refused the call with status {status} ({detail})", reason=f"http_{status}",
        status=status, where=where, hint=hints.get(status, "check the request's parameters"),
    )  # fmt: skip
