"""The scored event: rules on endings, control tokens and boundaries, for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cje.models import BadOutputError
from cje.policies.answers import Ending
from cje.policies.config import PolicyConfig
from cje.policies.scored_tokens import Span

__all__ = ["Event", "refuse_control_text", "refuse_inside_token", "scored_event"]


@dataclass(frozen=True)
class Event:
    """The end of a response as part of the scored event.

    Attributes
    ----------
    ending : Ending
        See `Generation`.
    end : str
        The text that ends the response and belongs to the event (``""``: none).
    by_ids : bool
        Whether logged token ids contain the whole event.
    """

    ending: Ending
    end: str
    by_ids: bool


def scored_event(
    eos_text: str | None,
    *,
    token_ids: Sequence[int] | None = None,
    complete: bool = True,
    ending: Ending | None = None,
    end_text: str | None = None,
) -> Event:
    """The event of one logged response.

    Raises
    ------
    BadOutputError
        If it is unknown what ended the response (``unknown_end``).
    """
    ending = ending or ("eos" if complete else "open")
    if ending == "unknown":
        raise BadOutputError(
            "the server stopped writing and did not say whether at the end of the response or "
            "at a stop string", reason="unknown_end",
            hint="leave 'stop' out of extra_body, or use a server that gives a stop_reason",
        )  # fmt: skip
    if ending == "given" and token_ids is None:
        raise BadOutputError(
            "the response ends with a token that only its ids contain", reason="unknown_end"
        )
    end = {"eos": eos_text, "text": end_text}.get(ending) or ""
    return Event(ending, end, token_ids is not None and ending != "text")


def refuse_control_text(config: PolicyConfig, response: str, more: Sequence[str] = ()) -> None:
    """Refuse a response that spells out a control token of the template, or one of `more`."""
    control = config.control_text_in(response)
    control = control or next((text for text in more if text and text in response), None)
    if control is not None:
        raise BadOutputError(
            f"the response spells out the control token {control}, which a server reads as "
            "that token and not as the text that was written", reason="control_text",
            hint="log token ids (vLLM gives them): those are scored as they are",
        )  # fmt: skip


def refuse_inside_token(config: PolicyConfig, span: Span) -> None:
    """Refuse a token that spans prompt and response, if so configured."""
    if span.boundary == "inside_token" and config.boundary == "refuse":
        raise BadOutputError(
            "one token holds the end of the prompt and the start of the response",
            reason="boundary_inside_token",
            hint="end the template with a character the tokeniser does not merge, log token "
            "ids, or set boundary: token_start",
        )
