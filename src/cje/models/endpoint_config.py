"""The part of a configuration that names the server, shared by judges and policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cje.errors import CJEError
from cje.models.endpoint import PROVIDERS, Endpoint
from cje.models.secrets import check_base_url, check_key_variable, find_secret

__all__ = ["LOCAL_PROVIDER", "EndpointConfig", "config_faults"]

#: The provider that computes open weights in this process.
LOCAL_PROVIDER = "transformers"
_LOCAL_FIELDS = ("batch_invariant", "batch_tokens", "device", "dtype")


class EndpointConfig(BaseModel):
    """Provider, model and address. Unknown fields are errors; there is no field for a key.

    Attributes
    ----------
    dtype : {"auto", "float16", "bfloat16", "float32"}
        ``provider: transformers`` only: precision of the matrix products; the residual stream and
        the logits are float32. ``auto``: float16 on a GPU, float32 elsewhere.
    device : str or None
        ``provider: transformers`` only: ``cuda:1``, ``mps``, ``cpu``; the first GPU by default.
    batch_invariant : bool
        ``provider: transformers`` only: a row has the same bits in every batch.
    batch_tokens : int or None
        ``provider: transformers`` only: tokens of one forward pass.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())
    in_process: ClassVar[str] = ""  # the provider that needs no server

    provider: str = "openai"
    model: str = ""
    base_url: str | None = None
    api_key_env: str | None = None
    api_version: str | None = None
    revision: str | None = None
    timeout: float = Field(60.0, gt=0)
    extra_body: dict[str, Any] | None = None
    dtype: Literal["auto", "float16", "bfloat16", "float32"] = "auto"
    device: str | None = None
    batch_invariant: bool = False
    batch_tokens: int | None = Field(None, ge=1)
    endpoint_id: str | None = Field(None, min_length=1)

    @field_validator("provider")
    @classmethod
    def _known_provider(cls, value: str) -> str:
        if value != cls.in_process and value not in PROVIDERS:
            known = ", ".join([cls.in_process, *PROVIDERS])
            raise ValueError(f"unknown provider {value!r}: use one of {known}")
        return value

    @field_validator("base_url")
    @classmethod
    def _no_secret_in_the_address(cls, value: str | None) -> str | None:
        return None if value is None else check_base_url(value)

    @field_validator("api_key_env")
    @classmethod
    def _a_name_of_a_variable(cls, value: str | None) -> str | None:
        return None if value is None else check_key_variable(value)

    @field_validator("extra_body")
    @classmethod
    def _no_secret_in_the_body(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if (place := find_secret(value or {})) is not None:
            raise ValueError(
                f"'{place}' seems to be a key: put it into an environment variable and name that "
                "in api_key_env"
            )
        return value

    @model_validator(mode="after")
    def _model_named(self) -> Self:
        # The default model belongs to the provider without a server.
        if self.provider != self.in_process and self.model in ("", self.in_process):
            what = "a folder or a name on the hub" if self.is_local else "the name on that server"
            raise ValueError(f"provider {self.provider!r} needs model: {what}")
        return self

    @model_validator(mode="after")
    def _local_fields(self) -> Self:
        # Compared with the defaults, because a configuration sent to a worker states every field.
        given = [name for name in _LOCAL_FIELDS if getattr(self, name) != _default(name)]
        if given and not self.is_local:
            raise ValueError(f"{', '.join(given)}: only for provider '{LOCAL_PROVIDER}'")
        return self

    @property
    def is_local(self) -> bool:
        """Whether the model's weights are computed in this process."""
        return self.provider == LOCAL_PROVIDER

    def endpoint_record(self) -> Endpoint:
        """The part that describes the server."""
        return Endpoint(
            provider=self.provider,
            model=self.model,
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            api_version=self.api_version,
            timeout=self.timeout,
            revision=self.revision,
            extra_body=self.extra_body,
            endpoint_id=self.endpoint_id,
        )

    @classmethod
    def parse(cls, config: Self | Mapping[str, Any]) -> Self:
        """Build from a mapping; one error lists all faults."""
        if isinstance(config, cls):
            return config
        values = dict(config)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise CJEError(
                f"{cls.__name__} is wrong: {config_faults(error)}", where=values.get("name")
            ) from error


def _default(field: str) -> Any:
    return EndpointConfig.model_fields[field].default


def config_faults(error: ValidationError) -> str:
    """``field: fault`` for every fault that pydantic found, without the values."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'config'}: {fault['msg']}"
        for fault in error.errors(include_input=False, include_url=False)
    )
