"""The server and model to call, without a key: keys are read from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from cje.errors import CJEError
from cje.models.secrets import check_base_url, check_key_variable, find_secret, masked_url

__all__ = ["JSON", "PROVIDERS", "Endpoint", "ProviderDefaults", "Usage", "call_seed"]

JSON = Any  # a recursive JSON type has no benefit: values go straight into json.dumps


@dataclass(frozen=True)
class ProviderDefaults:
    """A provider's address, and the environment variable with its key."""

    base_url: str | None
    key_env: str | None
    protocol: str = "openai"


#: Known providers. `base_url` and `api_key_env` of the config take precedence.
PROVIDERS: Mapping[str, ProviderDefaults] = {
    "openai": ProviderDefaults(None, "OPENAI_API_KEY"),
    "azure": ProviderDefaults(None, "AZURE_OPENAI_API_KEY", "azure"),
    "together": ProviderDefaults("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": ProviderDefaults("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "vllm": ProviderDefaults("http://localhost:8000/v1", None),
    "sglang": ProviderDefaults("http://localhost:30000/v1", None),
    "llama-cpp": ProviderDefaults("http://localhost:8000/v1", None),
    "llama-server": ProviderDefaults("http://localhost:8080/v1", None),
    "ollama": ProviderDefaults("http://localhost:11434/v1", None),
    "tgi": ProviderDefaults("http://localhost:8080/v1", None),
    "openai-compatible": ProviderDefaults(None, None),
    "anthropic": ProviderDefaults(None, "ANTHROPIC_API_KEY", "anthropic"),
    "transformers": ProviderDefaults(None, None, "local"),
}


@dataclass(frozen=True)
class Usage:
    """Tokens billed for one call, as the server reports them (0 without a report)."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    def to_json(self) -> dict[str, JSON]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Usage:
        return cls(int(data.get("prompt_tokens", 0)), int(data.get("completion_tokens", 0)))


@dataclass(frozen=True)
class Endpoint:
    """A model on a server.

    Parameters
    ----------
    provider : str
        One of `PROVIDERS`.
    model : str
        The model's name on that server.
    base_url : str, optional
        The server's OpenAI-compatible root (ends in ``/v1`` on most). ``openai`` also reads
        ``OPENAI_BASE_URL``, as its own SDK does.
    api_key_env : str, optional
        The environment variable that holds the key, if it is not the provider's usual one.
    api_version : str, optional
        Azure only.
    timeout : float
        Longest duration of one call, in seconds.
    revision : str, optional
        Distinguishes deployments under the same model name: part of the store's key.
    extra_body : mapping, optional
        Further fields of the request body, for this server.
    endpoint_id : str, optional
        A name of this server and its weights that stays the same when the address changes. By
        default the address identifies a server in the store's keys.
    """

    provider: str
    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    api_version: str | None = None
    timeout: float = 60.0
    revision: str | None = None
    extra_body: Mapping[str, JSON] | None = None
    endpoint_id: str | None = None

    def __post_init__(self) -> None:
        if self.provider not in PROVIDERS:
            raise CJEError(
                "unknown provider", value=self.provider, hint=f"use one of {', '.join(PROVIDERS)}"
            )
        if not self.model:
            raise CJEError("model is empty", where=f"provider {self.provider}")
        if self.base_url is not None:
            object.__setattr__(self, "base_url", check_base_url(self.base_url))
        if self.api_key_env is not None:
            check_key_variable(self.api_key_env)
        if (place := find_secret(self.extra_body or {})) is not None:
            raise CJEError(
                f"extra_body seems to hold a key (at {place})",
                where=self.label,
                hint="put the key into an environment variable and name it in api_key_env",
            )
        if self.provider == "openai-compatible" and self.base_url is None:
            raise CJEError("provider 'openai-compatible' needs base_url")

    @property
    def protocol(self) -> str:
        return PROVIDERS[self.provider].protocol

    @property
    def url(self) -> str | None:
        """The root that will be called (None: the SDK's own default)."""
        if self.base_url is not None:
            return self.base_url
        from_env = os.environ.get("OPENAI_BASE_URL") if self.provider == "openai" else None
        return check_base_url(from_env) if from_env else PROVIDERS[self.provider].base_url

    @property
    def label(self) -> str:
        """``provider/model``, for messages."""
        return f"{self.provider}/{self.model}"

    def key_variable(self) -> str | None:
        """The environment variable the key is read from (None: this server needs none)."""
        return self.api_key_env or PROVIDERS[self.provider].key_env

    def read_key(self) -> str:
        """The key, read only from the environment.

        Raises
        ------
        CJEError
            If the variable is needed and not set. The message names the variable.
        """
        variable = self.key_variable()
        if variable is None:
            return "none"  # local servers take any; the SDK insists on a non-empty string
        key = os.environ.get(variable, "").strip()
        if not key:
            raise CJEError(
                f"no key for {self.label}: the environment variable {variable} is not set",
                hint=f"export {variable}=... (keys are read from the environment only)",
            )
        return key

    def _server(self) -> dict[str, JSON]:
        if self.endpoint_id is not None:
            return {"endpoint_id": self.endpoint_id}
        return {"base_url": None if self.url is None else masked_url(self.url)}

    def identity(self) -> dict[str, JSON]:
        """What determines the answers of this endpoint, for a key of the store, without secrets."""
        return {
            "provider": self.provider,
            "model": self.model,
            "revision": self.revision,
            **self._server(),
            "api_version": self.api_version,
            "extra_body": dict(self.extra_body or {}),
        }


def call_seed(*parts: object) -> int:
    """A stable 31-bit seed from its parts: the same in every process and on every platform.

    Examples
    --------
    >>> call_seed("a", 1) == call_seed("a", 1), call_seed("a", 1) == call_seed("a", 2)
    (True, False)
    """
    text = "\x1f".join(repr(part) for part in parts)
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:4], "big") >> 1
