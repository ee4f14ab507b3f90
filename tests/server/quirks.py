"""What the servers people run do differently when asked for the log-probs of a prompt."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QUIRKS", "Quirks"]


@dataclass(frozen=True)
class Quirks:
    """One server's behaviour."""

    completions: bool = True  # False: chat only
    echo: bool = True
    needs_echo_for_zero: bool = False  # 0 new tokens only together with echo
    zero_writes_to_the_end: bool = False  # 0 new tokens means "as many as fit"
    breaks_at_zero: bool = False  # 500 where no new token is asked for, or an echo
    ignores_prompt_at_logprobs_0: bool = False
    gives_logprobs: bool = True
    floor: float | None = None  # what minus infinity becomes
    bos: bool = False  # a text prompt gets BOS in front
    shifted_without_bos: bool = False
    prompt_logprobs: bool = False
    tokenize: bool = False
    sglang_generate: bool = False
    tgi_generate: bool = False
    tgi_prefill: bool = False
    structured_output: bool = True
    scores_at_temperature: bool = False
    noise: float = 0.0  # standard deviation of the last log-prob when a text is scored again
    new_token_limit: bool = False  # max_completion_tokens only, as reasoning models
    context_limit: int = 100_000  # characters


QUIRKS: dict[str, Quirks] = {
    "openai": Quirks(),
    "vllm": Quirks(
        needs_echo_for_zero=True, floor=-9999.0, bos=True, prompt_logprobs=True, tokenize=True
    ),
    "sglang": Quirks(
        ignores_prompt_at_logprobs_0=True, sglang_generate=True, scores_at_temperature=True
    ),
    "llama-cpp": Quirks(zero_writes_to_the_end=True, bos=True, structured_output=False),
    "llama-cpp-shifted": Quirks(zero_writes_to_the_end=True, shifted_without_bos=True),
    "tgi": Quirks(echo=False, tgi_generate=True, structured_output=False),
    "tgi-prefill": Quirks(echo=False, tgi_generate=True, tgi_prefill=True),
    "ollama": Quirks(echo=False, gives_logprobs=False),
    "chat-only": Quirks(completions=False),
    "reasoning": Quirks(completions=False, new_token_limit=True),
}
