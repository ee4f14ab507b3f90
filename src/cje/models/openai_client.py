"""Any OpenAI-compatible server, through the openai SDK (extra ``api``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cje.errors import CJEError
from cje.models.call_errors import FatalError
from cje.models.client import Completion, Message, read_chat, read_completion
from cje.models.endpoint import JSON
from cje.models.sdk_client import SDKClient

__all__ = ["OpenAIClient"]


class OpenAIClient(SDKClient):
    """Chat and text completions, and the raw JSON that scoring needs."""

    module = "openai"
    extra = "api"
    _new_token_limit = False

    def _build(self, options: dict[str, Any]) -> Any:
        if self.endpoint.protocol != "azure":
            return self._sdk.AsyncOpenAI(base_url=self.endpoint.url, **options)
        if self.endpoint.url is None or self.endpoint.api_version is None:
            raise CJEError("provider 'azure' needs base_url and api_version")
        return self._sdk.AsyncAzureOpenAI(
            azure_endpoint=self.endpoint.url, api_version=self.endpoint.api_version, **options
        )

    async def chat(self, messages: Sequence[Message], **parameters: JSON) -> Completion:
        """One chat completion."""
        body = {"model": self.endpoint.model, "messages": list(messages), **parameters}
        if self._new_token_limit and "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        try:
            answer = await self.post("/chat/completions", body)
        except FatalError as error:
            # Reasoning models refuse the old name of the limit, and name the new one.
            if self._new_token_limit or "max_completion_tokens" not in error.what:
                raise
            self._new_token_limit = True
            return await self.chat(messages, **parameters)
        return read_chat(answer, self.endpoint.label)

    async def complete(self, prompt: str | Sequence[int], **parameters: JSON) -> Completion:
        """One text completion (without echo)."""
        return read_completion(await self.complete_raw(prompt, **parameters), self.endpoint.label)

    async def complete_raw(
        self, prompt: str | Sequence[int], **parameters: JSON
    ) -> dict[str, JSON]:
        """One text completion as the server's JSON: scoring reads fields the SDK does not know."""
        text_or_ids = prompt if isinstance(prompt, str) else list(prompt)
        body = {"model": self.endpoint.model, "prompt": text_or_ids, **parameters}
        return await self.post("/completions", body)
