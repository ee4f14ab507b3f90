"""Find out how a server scores a given text, and whether it can, before money is spent.

Servers differ: vLLM takes 0 new tokens only with echo, SGLang ignores prompt log-probs at
``logprobs=0``, llama-cpp-python writes to the end of its context when asked for 0 tokens and can
be off by one without BOS, TGI needs a flag at its start. So each known form is tried on a fixed
sentence and used only if its answer is demonstrably right.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from cje.models import JSON, BadOutputError, FatalError, ModelCallError, with_retries
from cje.policies.config import ScoringForm, render_prompt
from cje.policies.scored_tokens import ScoredToken, Span, sum_span

if TYPE_CHECKING:
    from cje.policies.api import APIPolicyRunner

__all__ = [
    "MOST_REQUESTS",
    "MOST_WRITTEN",
    "PROBE_CONTEXT",
    "PROBE_TEXTS",
    "SAMPLING_HINT",
    "Capability",
    "probe",
    "sampling_effect",
]

T = TypeVar("T")
#: The probe's question, recognisable in a server's log.
PROBE_CONTEXT = "Can you help me?"
#: Further prompts, because the first sample may be empty and cannot then be compared.
_CONTEXTS = (PROBE_CONTEXT, "Tell me about the weather.", "Où est la gare ? 駅はどこですか 🙂")
_SEEDS = (1, 2, 3)
# Texts in which the response must be found: an end token, a first character of several bytes.
_TEXTS = (" Yes, I can help you with that.", "🙂 yes", "Évidemment, 東京です。")
#: All texts that a probe sends besides the policy's template.
PROBE_TEXTS = (*_CONTEXTS, *_TEXTS)
#: Requests of a probe to a server that answers without errors but knows none of the forms
#: (27 to 42 were measured); repeats after errors are extra.
MOST_REQUESTS = 50
#: Tokens that one request of a probe lets the model write.
MOST_WRITTEN = 8
SAMPLING_HINT = (
    "set temperature: 1 and top_p: 1 for every policy that is scored, or compare the policies by "
    "fresh draws (estimation: {estimators: [direct]}), or score with SGLang or a model in this "
    "process, which know the sampling distribution"
)
# One token is tried before none: without it, llama-cpp-python writes to the end of its context.
_FORMS: tuple[ScoringForm, ...] = (
    "echo1", "echo0", "prompt_logprobs", "sglang", "tgi", "llama_server",
)  # fmt: skip
_FIRST: dict[str, tuple[ScoringForm, ...]] = {
    "llama-server": ("llama_server",),
    "vllm": ("prompt_logprobs",),
    "sglang": ("sglang",),
    "tgi": ("tgi",),
}
# Log-probs of a text from writing and from scoring differ by batching and precision.
_TOLERANCE_PER_TOKEN = 0.05


@dataclass(frozen=True)
class Capability:
    """How a server scores given texts.

    Attributes
    ----------
    form : str or None
        The form that works; None if the server cannot score a given text.
    evidence : tuple of str
        What was tried, and the answers.
    warnings : tuple of str
        Limitations (temperature not applied, no generated log-probs to compare, ...).
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
        """What was tried, and the answers; forms with the same failure are listed together."""
        forms: dict[str, list[str]] = {}
        for line in self.evidence:
            form, _, said = line.partition(": ")
            forms.setdefault(said or form, []).extend([form] if said else [])
        return "; ".join(
            f"{', '.join(tried)}: {said}" if tried else said for said, tried in forms.items()
        )

    def to_json(self) -> dict[str, JSON]:
        return {
            "form": self.form,
            "evidence": list(self.evidence),
            "warnings": list(self.warnings),
            "scores_sampling_distribution": self.scores_sampling_distribution,
        }


async def probe(runner: APIPolicyRunner) -> Capability:
    """Try the forms in an order that suits the provider; keep the first with right answers."""
    samples, why = await _samples(runner)
    evidence: list[str] = []
    first = _FIRST.get(runner.config.provider, ())
    for form in (*first, *(f for f in _FORMS if f not in first)):
        try:
            warnings = await _try_form(runner, form, samples, why)
        except ModelCallError as error:
            if not _says_no(error, answered=bool(samples)):
                raise
            evidence.append(f"{form}: {error.what}")
            continue
        evidence.append(f"{form}: works")
        found = Capability(form, tuple(evidence), tuple(warnings))
        return await sampling_effect(runner, found, render_prompt(runner.config, PROBE_CONTEXT))
    return Capability(None, tuple(evidence))


def _says_no(error: ModelCallError, *, answered: bool) -> bool:
    """Whether an error means that the server does not support a form, not that it is down."""
    if error.status in (401, 403):
        return False
    if isinstance(error, FatalError | BadOutputError):
        return True
    # transformers serve always answers 500 to a request for no tokens.
    return answered and error.status in (500, 501)


async def _patiently(step: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Repeat a failed request, so that one failure does not count as inability to score."""
    return await with_retries(
        partial(step, *arguments), attempts=4, base=0.2, again=lambda e: e.reason != "timeout"
    )


@dataclass(frozen=True)
class _Written:
    """A short text that the model wrote, with its reported log-prob at temperature 1."""

    prompt: str
    text: str
    logprob: float
    n_tokens: int


async def _samples(runner: APIPolicyRunner) -> tuple[list[_Written], str]:
    """A text that the model wrote with log-probs, or the reason why there is none."""
    for seed in _SEEDS:
        for context in _CONTEXTS:
            try:
                sample = await _patiently(_written, runner, context, seed)
            except (FatalError, BadOutputError) as error:
                if isinstance(error, FatalError) and error.status in (401, 403):
                    raise
                return [], f" (asked to write: {error.what})"
            if sample is not None:
                return [sample], ""
    return [], ""


async def _written(runner: APIPolicyRunner, context: str, seed: int) -> _Written | None:
    """A sample, or None if it is empty or its log-probs cannot be compared."""
    answer = await runner.acomplete(
        context, temperature=1.0, top_p=1.0, max_tokens=MOST_WRITTEN, seed=seed
    )
    values, tokens, text = answer.logprobs, answer.tokens, answer.text
    if not values or not tokens or len(values) != len(tokens):
        return None
    eos = runner.config.eos_text
    while tokens and (tokens[-1] == eos or (not tokens[-1] and answer.finish_reason == "stop")):
        tokens, values = tokens[:-1], values[:-1]  # without the end token
    if eos:
        text = text.removesuffix(eos)
    if not text or "".join(tokens) != text or not all(map(math.isfinite, values)):
        return None
    return _Written(render_prompt(runner.config, context), text, math.fsum(values), len(values))


async def _try_form(
    runner: APIPolicyRunner, form: ScoringForm, samples: Sequence[_Written], why: str
) -> list[str]:
    """Warnings of a form that works; raises if it does not work."""
    warnings: list[str] = []
    for sample in samples:
        value, span = await _patiently(_scored, runner, form, sample.prompt, sample.text)
        gap = abs(value - sample.logprob)
        allowed = _TOLERANCE_PER_TOKEN * max(1, sample.n_tokens)
        if span.boundary == "inside_token" or gap <= allowed:
            continue
        if runner.config.endpoint != "chat":
            raise BadOutputError(
                f"its log-prob of a text differs by {gap:.3g} from the one given while writing it "
                "(shifted by one token?)",
                reason="rescoring_differs",
            )
        warnings.append(
            f"rescored log-prob differs by {gap:.3g} from the generated one: the server's "
            "chat template is probably not the configured template"
        )
    if not samples:
        raise BadOutputError(
            "the server gave no text with log-probs to compare its scores with: a shift by one "
            f"token would go unnoticed{why}",
            reason="not_comparable",
        )
    return warnings + await _try_texts(runner, form)


async def _try_texts(runner: APIPolicyRunner, form: ScoringForm) -> list[str]:
    """Check that the response is found in texts like real responses."""
    prompt = render_prompt(runner.config, PROBE_CONTEXT)
    eos = runner.config.eos_text
    if eos:
        await _found(runner, form, prompt, _TEXTS[0], eos)
    lost = []
    for text in _TEXTS[1:]:
        try:
            await _found(runner, form, prompt, text)
        except BadOutputError as error:
            lost.append(f"{text!r} ({error.reason})")
    if not lost:
        return []
    return [f"responses such as {', '.join(lost)} cannot be scored: they become error rows"]


async def _found(
    runner: APIPolicyRunner, form: ScoringForm, prompt: str, text: str, eos: str = ""
) -> None:
    try:
        await _patiently(_scored, runner, form, prompt, text, eos)
    except BadOutputError as error:
        # A model may give our text probability zero; the text was found nevertheless.
        if error.reason not in ("sentinel_logprob", "non_finite_logprob"):
            raise


async def _scored(
    runner: APIPolicyRunner, form: ScoringForm, prompt: str, text: str, eos: str = ""
) -> tuple[float, Span]:
    """Log-prob of `text` and its end after `prompt` at temperature 1, and its position."""
    scored = await runner.scorer.text(form, prompt, text, eos, **_sampled(form))
    if form != "llama_server":  # it does not score the prompt
        _check_shape(scored.tokens)
    return sum_span(scored.tokens, scored.span), scored.span


def _sampled(form: ScoringForm, temperature: float = 1.0, top_p: float = 1.0) -> dict[str, JSON]:
    """Changes of a scoring call for another temperature and top-p than those of the config."""
    if form == "sglang":
        sampling = {"max_new_tokens": 0, "temperature": temperature, "top_p": top_p}
        return {
            "sampling_params": sampling,
            "temp_scaled_logprobs": temperature != 1.0,
            "top_p_normalized_logprobs": top_p != 1.0,
        }
    if form in ("tgi", "llama_server"):  # these servers report the model's own probabilities
        return {}
    return {"temperature": temperature, "top_p": top_p}


def _check_shape(tokens: list[ScoredToken]) -> None:
    """Check that only the first token's log-prob is null."""
    if len(tokens) < 2:
        raise BadOutputError(f"{len(tokens)} scored tokens for a text", reason="missing_logprobs")
    if tokens[0].logprob is not None and tokens[0].text not in ("", "<s>", "<|begin_of_text|>"):
        raise BadOutputError(
            "the first token has a log-prob although nothing precedes it (shifted by one)",
            reason="shifted",
        )
    if any(token.logprob is None for token in tokens[1:]):
        raise BadOutputError("log-probs are missing in the middle", reason="missing_logprobs")


async def sampling_effect(runner: APIPolicyRunner, found: Capability, prompt: str) -> Capability:
    """Add to `found` whether the server scores the distribution that it samples.

    Each setting that is not 1 is tried alone. Importance weights need the log-probs of the sampled
    distribution, so a policy for which the answer is no is not scored.
    """
    wanted = {"temperature": runner.config.temperature, "top_p": runner.config.top_p}
    asked = {name: value for name, value in wanted.items() if value != 1.0}
    ignored = runner.config.distorting_settings()
    if found.form is None or not (asked or ignored):
        return found
    score = partial(runner.scorer.text, found.form, prompt, _TEXTS[0])
    plain = await _patiently(partial(score, **_sampled(found.form)))
    for name, value in asked.items():
        changed = await _patiently(partial(score, **_sampled(found.form, **{name: value})))
        if not _differ(changed.tokens, plain.tokens):
            ignored.append(f"{name} {value:g}")
    if not ignored:
        return replace(found, scores_sampling_distribution=True)
    warning = (
        f"the server samples at {' and '.join(ignored)} but scores the model's own distribution: "
        "its log-probs are not those of this policy"
    )
    return replace(found, warnings=(*found.warnings, warning), scores_sampling_distribution=False)


def _differ(some: list[ScoredToken], others: list[ScoredToken]) -> bool:
    return any(
        a.logprob is not None and b.logprob is not None and abs(a.logprob - b.logprob) > 1e-3
        for a, b in zip(some, others, strict=False)
    )
