"""`PolicyConfig`: the validated configuration of a logging or target policy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from cje.errors import CJEError
from cje.models.call_errors import BadOutputError
from cje.models.endpoint_config import EndpointConfig
from cje.terminal import safe

__all__ = ["ANY_CONTROL_TEXT", "UNTRUNCATED", "PolicyConfig", "ScoringForm", "render_prompt"]

ScoringForm = Literal["echo0", "echo1", "prompt_logprobs", "sglang", "tgi", "llama_server"]
#: End-of-turn text of the shipped templates, which follows a complete response.
_TEMPLATE_EOS = {"raw": None, "chatml": "<|im_end|>", "llama3": "<|eot_id|>"}


#: Switches off the servers' default cuts of the distribution: llama.cpp keeps 40 tokens and
#: drops unlikely ones, vLLM and SGLang take the model's own `generation_config.json`.
UNTRUNCATED: Mapping[str, Mapping[str, Any]] = {
    "vllm": {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0},
    "sglang": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "llama-cpp": {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
    "llama-server": {"top_k": 0, "min_p": 0.0, "typical_p": 1.0, "repeat_penalty": 1.0},
}
# Settings of `extra_body` that change the sampled but not the scored distribution.
_DISTORTING = (
    "top_k", "min_p", "typical_p", "top_n_sigma", "xtc_probability", "dry_multiplier", "mirostat",
    "mirostat_mode", "repetition_penalty", "repeat_penalty", "frequency_penalty",
    "presence_penalty", "logit_bias", "min_tokens", "ignore_eos", "bad_words", "samplers",
    "guided_json", "guided_regex", "guided_choice", "guided_grammar", "grammar", "json_schema",
    "structured_outputs", "response_format",
)  # fmt: skip
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "top_k": (0, -1), "typical_p": (1,), "repetition_penalty": (1,), "repeat_penalty": (1,),
}  # fmt: skip

#: Control tokens of the shipped templates.
_CONTROL = re.compile(r"<\|[A-Za-z0-9_]+\|>")


#: Control tokens of common templates, for any template of the policy.
ANY_CONTROL_TEXT = r"<\|[A-Za-z0-9_]+\|>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>"


class PolicyConfig(EndpointConfig):
    """The configuration of a policy: model, sampling, rendering of the prompt, and scoring.

    Attributes
    ----------
    template : str
        ``raw``, ``chatml``, ``llama3``, the path of a Jinja file, or Jinja text containing
        ``{{``. It sees ``context`` and ``system`` and ends where the response begins. ``auto``
        (``provider: transformers``): the chat template that comes with the model, or ``raw``.
    endpoint : {"completions", "chat"}
        How responses are generated. ``chat`` lets the server render its own template; scoring
        uses `template`, and the probe compares the two.
    eos : str or None
        The text of the end-of-sequence token. A complete response is scored with it; ``None``
        scores only the response's own tokens. It must be the same for logging and target.
    bos : bool or None
        Whether the server should put BOS before the prompt (``None``: the server's default).
    boundary : {"token_start", "refuse"}
        What to do if one token spans the end of the prompt and the start of the response.
    scoring : str or None
        The scoring form; ``None`` finds one with a probe.
    """

    in_process: ClassVar[str] = "ngram"

    name: str = Field(min_length=1)
    model: str = "ngram"
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int = Field(256, ge=1)
    system_prompt: str | None = None
    template: str = "raw"
    endpoint: Literal["completions", "chat"] = "completions"
    eos: str | None = "auto"
    bos: bool | None = None
    boundary: Literal["token_start", "refuse"] = "token_start"
    scoring: ScoringForm | None = None
    corpus: str | None = None
    order: int = Field(3, ge=1, le=8)
    smoothing: float = Field(1.0, gt=0)
    boost: dict[str, float] | None = None

    @field_validator("name")
    @classmethod
    def _one_line(cls, value: str) -> str:
        if safe(value) != value:
            raise ValueError("a policy's name must be one line of visible characters")
        return value

    @model_validator(mode="after")
    def _end_of_an_own_template(self) -> Self:
        if self.template == "auto":
            if not self.is_local:
                raise ValueError("template 'auto' is for provider 'transformers' only")
        elif self.template not in _TEMPLATE_EOS and self.eos == "auto":
            raise ValueError(
                "a template of your own needs 'eos': the text of the token that ends a turn, or "
                "null to score the response's own tokens only"
            )
        return self

    @property
    def eos_text(self) -> str | None:
        """The end-of-sequence text; ``auto`` takes it from a shipped template."""
        return _TEMPLATE_EOS.get(self.template) if self.eos == "auto" else self.eos

    def control_text_in(self, response: str) -> str | None:
        """The first control token that `response` spells out, if this template has any."""
        if self.eos_text and self.eos_text in response:
            return self.eos_text
        found = _CONTROL.search(response) if self.template in ("chatml", "llama3") else None
        return None if found is None else found[0]

    def distorting_settings(self) -> list[str]:
        """Settings of `extra_body` that make the sampled and scored distributions differ."""
        return [
            f"{name} {value!r}"
            for name, value in (self.extra_body or {}).items()
            if name in _DISTORTING and value and value not in _NEUTRAL.get(name, ())
        ]

    def same_distribution(self, other: PolicyConfig) -> bool:
        """Whether two configs describe the same policy (an A/A check), ignoring names."""
        aside = {"name", "timeout", "api_key_env"}
        return self.model_dump(exclude=aside) == other.model_dump(exclude=aside)


@lru_cache(maxsize=64)
def _compiled(template: str) -> Any:
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if template in _TEMPLATE_EOS:
        folder = files("cje.policies").joinpath("templates")
        text = folder.joinpath(f"{template}.jinja").read_text(encoding="utf-8")
    elif "{{" in template:
        text = template
    else:
        try:
            text = Path(template).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # not a file, or not text
            raise CJEError(
                "no such prompt template", value=template,
                hint=f"use one of {', '.join(_TEMPLATE_EOS)}, a file, or Jinja text",
            ) from error  # fmt: skip
    sandbox = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    try:
        return sandbox.from_string(text)
    except TemplateError as error:
        raise CJEError("the prompt template is broken", value=template, hint=str(error)) from error


def render_prompt(config: PolicyConfig, context: str) -> str:
    """The exact text that the model continues. Context and system prompt are data."""
    from jinja2 import TemplateError

    try:
        text = _compiled(config.template).render(context=context, system=config.system_prompt)
    except TemplateError as error:
        raise CJEError(
            "the prompt template cannot be rendered", where=config.name, hint=str(error)
        ) from error
    if not text:
        raise BadOutputError(  # caused by the context of one row, not by the configuration
            "the rendered prompt is empty, so the response's first token would have no log-prob",
            reason="empty_prompt",
            where=config.name,
        )
    return str(text)
