"""Anthropic's messages API, for generating and judging (extra ``anthropic``).

It gives no log-probs of a given response, so it can neither score a logged response nor serve as a
target policy for importance weights; `APIPolicyRunner` raises in that case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cje.models.call_errors import BadOutputError, RetryableError
from cje.models.client import Completion, Message
from cje.models.endpoint import JSON, Usage
from cje.models.metering import read_usage
from cje.models.sdk_client import SDKClient

__all__ = ["AnthropicClient"]

_FINISH = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}
# Parameters of the OpenAI protocol that this API does not know.
_UNKNOWN = ("seed", "logprobs", "top_logprobs", "response_format")


class AnthropicClient(SDKClient):
    """Messages only."""

    module = "anthropic"
    extra = "anthropic"
    models_path = "/v1/models"

    def _build(self, options: dict[str, Any]) -> Any:
        return self._sdk.AsyncAnthropic(base_url=self.endpoint.url, **options)

    async def chat(self, messages: Sequence[Message], **parameters: JSON) -> Completion:
        """One message. System messages become the API's ``system`` field."""
        system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
        body = {
            "model": self.endpoint.model,
            "messages": [dict(m) for m in messages if m["role"] != "system"],
            "max_tokens": 1024,
            **{name: value for name, value in parameters.items() if name not in _UNKNOWN},
        }
        if system:
            body["system"] = system
        return _read_message(await self.post("/v1/messages", body), self.endpoint.label)


def _read_message(body: Mapping[str, Any], where: str) -> Completion:
    content = body.get("content")
    if not isinstance(content, list):
        raise RetryableError("the answer has no content", reason="broken_body", where=where)
    text = "".join(
        str(block.get("text", ""))
        for block in content
        if isinstance(block, Mapping) and block.get("type") == "text"
    )
    reason = str(body.get("stop_reason") or "unknown")
    if not text and reason != "refusal":
        raise BadOutputError("the message has no text", reason="empty_message", where=where)
    return Completion(text, _FINISH.get(reason, reason), usage=read_usage(body) or Usage())
