"""Find out, before any money is spent, how a server scores a given text, and whether it can.

Servers differ: vLLM takes 0 new tokens only with echo, SGLang ignores prompt log-probs at
``logprobs=0``, llama-cpp-python writes to the end of its context when asked for 0 tokens and can
be off by one without BOS, TGI needs a flag at its start. So each known form is tried on a fixed
sentence and kept only if its answer is provably right.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from cje.models import JSON, BadOutputError, FatalError, with_retries
from cje.policies.config import ScoringForm, render_prompt
from cje.policies.scored_tokens import ScoredToken, sum_span

if TYPE_CHECKING:
    from cje.policies.api import APIPolicyRunner

__all__ = ["PROBE_CONTEXT", "Capability", "probe"]

T = TypeVar("T")
#: What the probe asks; a server's log shows it as such.
PROBE_CONTEXT = "Can you help me?"
# One token before none: asked for no token, llama-cpp-python writes to the end of its context.
_FORMS: tuple[ScoringForm, ...] = ("echo1", "echo0", "prompt_logprobs", "sglang", "tgi")
_FIRST: dict[str, tuple[ScoringForm, ...]] = {
    "vllm": ("prompt_logprobs",),
    "sglang": ("sglang",),
    "tgi": ("tgi",),
}
# Log-probs of one text computed while writing and while reading differ by batching and precision.
_TOLERANCE_PER_TOKEN = 0.05


@dataclass(frozen=True)
class Capability:
    """How a server scores.

    Attributes
    ----------
    form : str or None
        The form that works; None where the server cannot score a given text.
    evidence : tuple of str
        What was tried and what came back.
    warnings : tuple of str
        What works, with care (temperature not applied, no generated log-probs to compare...).
    scores_sampling_distribution : bool or None
        Whether temperature and top-p change the scored log-probs (None: not asked, both are 1).
    """

    form: ScoringForm | None
    evidence: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    scores_sampling_distribution: bool | None = None

    @property
    def can_score(self) -> bool:
        return self.form is not None

    @property
    def hint(self) -> str:
        return (
            "serve the model with an engine that returns prompt log-probs (vLLM, SGLang, "
            "llama-cpp-python with logits_all, TGI with --enable-prefill-logprobs), or evaluate "
            "with fresh draws, which need no log-probs"
        )

    def evidence_text(self) -> str:
        return "; ".join(self.evidence)

    def to_json(self) -> dict[str, JSON]:
        return {
            "form": self.form,
            "evidence": list(self.evidence),
            "warnings": list(self.warnings),
            "scores_sampling_distribution": self.scores_sampling_distribution,
        }


async def probe(runner: APIPolicyRunner) -> Capability:
    """Try the forms in the order that suits the provider; keep the first that proves right."""
    prompt = render_prompt(runner.config, PROBE_CONTEXT)
    sample = await _patiently(_written, runner)
    evidence: list[str] = []
    first = _FIRST.get(runner.config.provider, ())
    for form in (*first, *(f for f in _FORMS if f not in first)):
        try:
            warnings = await _patiently(_try_form, runner, form, prompt, sample)
        except (FatalError, BadOutputError) as error:
            if isinstance(error, FatalError) and error.status in (401, 403):
                raise
            evidence.append(f"{form}: {error.what}")
            continue
        evidence.append(f"{form}: works")
        follows, more = await _patiently(_sampling_effect, runner, form, prompt)
        return Capability(form, tuple(evidence), (*warnings, *more), follows)
    return Capability(None, tuple(evidence))


async def _patiently(step: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """A server that stumbles once must not be taken for one that cannot score."""
    return await with_retries(partial(step, *arguments), attempts=4, base=0.2)


@dataclass(frozen=True)
class _Written:
    """A short text the model wrote itself, with the log-prob it claimed at temperature 1."""

    text: str
    logprob: float | None
    n_tokens: int


async def _written(runner: APIPolicyRunner) -> _Written | None:
    try:
        answer = await runner.acomplete(
            PROBE_CONTEXT, temperature=1.0, top_p=1.0, max_tokens=8, seed=1
        )
    except (FatalError, BadOutputError) as error:
        if isinstance(error, FatalError) and error.status in (401, 403):
            raise
        return None
    values, tokens, text = answer.logprobs, answer.tokens, answer.text
    eos = runner.config.eos_text
    if eos and tokens and values and tokens[-1] == eos:
        tokens, values, text = tokens[:-1], values[:-1], text.removesuffix(eos)
    if not text:
        return None
    usable = values and tokens and "".join(tokens) == text and all(map(math.isfinite, values))
    return _Written(text, math.fsum(values) if usable and values else None, len(values or ()))


async def _try_form(
    runner: APIPolicyRunner, form: ScoringForm, prompt: str, sample: _Written | None
) -> list[str]:
    """Warnings of a form that works; raises where it does not."""
    text = sample.text if sample else " Yes, I can help you with that."
    full = prompt + text
    tokens, _ = await runner.ascore_tokens(form, full, **_sampled(form))
    _check_shape(tokens, full)
    span = await runner.alocate(tokens, prompt, full)
    value = sum_span(tokens, span)
    if sample is None or sample.logprob is None:
        return ["the server gave no log-probs while generating: reading could not be compared"]
    gap = abs(value - sample.logprob)
    if span.boundary != "inside_token" and gap > _TOLERANCE_PER_TOKEN * max(1, sample.n_tokens):
        if runner.config.endpoint == "chat":
            return [
                f"rescored log-prob differs by {gap:.3g} from the generated one: the server's "
                "chat template is probably not the configured template"
            ]
        raise BadOutputError(
            f"its log-prob of a text differs by {gap:.3g} from the one given while writing it "
            "(shifted by one token?)",
            reason="rescoring_differs",
        )
    return []


def _sampled(form: ScoringForm, temperature: float = 1.0, top_p: float = 1.0) -> dict[str, JSON]:
    """Changes to a scoring call that ask for another temperature and top-p than the config's."""
    if form == "sglang":
        sampling = {"max_new_tokens": 0, "temperature": temperature, "top_p": top_p}
        return {
            "sampling_params": sampling,
            "temp_scaled_logprobs": temperature != 1.0,
            "top_p_normalized_logprobs": top_p != 1.0,
        }
    return {} if form == "tgi" else {"temperature": temperature, "top_p": top_p}


def _check_shape(tokens: list[ScoredToken], full: str) -> None:
    """Entries equal the prompt's tokens, the first is null and no other is."""
    if len(tokens) < 2:
        raise BadOutputError(f"{len(tokens)} scored tokens for a text", reason="missing_logprobs")
    if tokens[0].logprob is not None and tokens[0].text not in ("", "<s>", "<|begin_of_text|>"):
        raise BadOutputError(
            "the first token has a log-prob although nothing stands before it (shifted by one)",
            reason="shifted",
        )
    if any(token.logprob is None for token in tokens[1:]):
        raise BadOutputError("log-probs are missing in the middle", reason="missing_logprobs")
    texts = [token.text for token in tokens[1:]]
    if all(text is not None for text in texts):
        tail = "".join(str(text) for text in texts)
        if "\ufffd" not in tail and not full.endswith(tail):
            raise BadOutputError("its tokens are not the text's tokens", reason="length_mismatch")


async def _sampling_effect(
    runner: APIPolicyRunner, form: ScoringForm, prompt: str
) -> tuple[bool | None, list[str]]:
    """Does the server score the distribution it samples from? Each setting is tried alone."""
    wanted = {"temperature": runner.config.temperature, "top_p": runner.config.top_p}
    asked = {name: value for name, value in wanted.items() if value != 1.0}
    if not asked:
        return None, []
    full = prompt + " Yes, I can help you with that."
    plain, _ = await runner.ascore_tokens(form, full, **_sampled(form))
    ignored = []
    for name, value in asked.items():
        changed, _ = await runner.ascore_tokens(form, full, **_sampled(form, **{name: value}))
        if not _differ(changed, plain):
            ignored.append(f"{name} {value:g}")
    if not ignored:
        return True, []
    return False, [
        f"the server samples at {' and '.join(ignored)} but scores as if it were 1: weights are "
        "exact only at 1"
    ]


def _differ(some: list[ScoredToken], others: list[ScoredToken]) -> bool:
    return any(
        a.logprob is not None and b.logprob is not None and abs(a.logprob - b.logprob) > 1e-3
        for a, b in zip(some, others, strict=False)
    )
