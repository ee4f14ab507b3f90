"""One judgement, and the mean and variance of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cje.data.judge_score import MAX_VARIANCE, JudgeScore
from cje.errors import CJEError
from cje.judges.template import JudgeTemplate
from cje.kernels.arrays import FloatArray
from cje.models import JSON, BadOutputError, Completion, Usage

__all__ = [
    "JudgedScore",
    "VarianceMethod",
    "Verdict",
    "combine_verdicts",
    "moments_from_logprobs",
    "variance_from_interval",
    "verdict_logprobs",
]

VarianceMethod = Literal["samples", "logprobs", "interval", "none"]
# A stated 90% interval of a normal has this half-width in standard deviations.
_Z90 = 1.6448536269514722


@dataclass(frozen=True)
class Verdict:
    """One judgement of one response.

    Attributes
    ----------
    score : float
        On [0, 1].
    raw : str
        What the judge wrote.
    parsed_by : {"structured", "tolerant", "computed"}
    variance : float or None
        Variance of this judgement, if its method gives one.
    token_logprobs : mapping token -> log-prob, or None
        The verdict token's alternatives as the server listed them, if log-probs were asked for;
        `cje.classification.VerdictCalibrator` calibrates them.
    """

    score: float
    raw: str = ""
    parsed_by: Literal["structured", "tolerant", "computed"] = "computed"
    variance: float | None = None
    usage: Usage = field(default_factory=Usage)
    token_logprobs: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        JudgeScore(self.score, self.variance or 0.0)  # checks the ranges

    def to_json(self) -> dict[str, JSON]:
        return {
            "score": self.score,
            "raw": self.raw,
            "parsed_by": self.parsed_by,
            "variance": self.variance,
            "usage": self.usage.to_json(),
            "token_logprobs": None if self.token_logprobs is None else dict(self.token_logprobs),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Verdict:
        return cls(
            data["score"], data["raw"], data["parsed_by"], data["variance"],
            Usage.from_json(data["usage"]), data.get("token_logprobs"),
        )  # fmt: skip


@dataclass(frozen=True)
class JudgedScore:
    """A `JudgeScore` with the source of its variance and the number of judgements."""

    score: JudgeScore
    method: VarianceMethod
    n_verdicts: int
    token_logprobs: tuple[Mapping[str, float], ...] = ()


def combine_verdicts(verdicts: Sequence[Verdict], method: VarianceMethod) -> JudgedScore:
    r"""Mean and variance of one judgement of this response.

    With repeats :math:`s_1..s_R` of own variances :math:`v_r` (0 where none), by the law of total
    variance :math:`v = \frac1R\sum v_r + \frac1R\sum (s_r - \bar s)^2`. The divisor is R, not
    R-1: values in [0, 1] then never have a variance above 1/4, so a judge's own output is always
    valid.
    """
    if not verdicts:
        raise CJEError("no verdicts to combine")
    scores = np.array([verdict.score for verdict in verdicts])
    own = np.array([verdict.variance or 0.0 for verdict in verdicts])
    mean = min(1.0, max(0.0, math.fsum(scores.tolist()) / len(scores)))
    spread = 0.0 if method == "none" else float(scores.var(ddof=0) + own.mean())
    listed = tuple(v.token_logprobs for v in verdicts if v.token_logprobs is not None)
    return JudgedScore(JudgeScore(mean, min(spread, MAX_VARIANCE)), method, len(verdicts), listed)


def variance_from_interval(interval: tuple[float, float]) -> float:
    """Variance of a normal whose central 90% is the stated interval."""
    return min(MAX_VARIANCE, ((interval[1] - interval[0]) / (2.0 * _Z90)) ** 2)


def verdict_logprobs(
    answer: Completion, template: JudgeTemplate, stated: float
) -> Mapping[str, float]:
    """Log-probs of the verdict token's alternatives, which `moments_from_logprobs` reads."""
    return _verdict_entry(answer, template, stated)[0]


def moments_from_logprobs(
    answer: Completion, template: JudgeTemplate, stated: float
) -> tuple[float, float]:
    """Mean and variance of the verdict over the alternatives of its token.

    The verdict token is the last one that reads as the `stated` verdict by itself (where "75" is
    two tokens, neither is it); the probabilities of its alternatives are renormalised over those
    on the declared scale.
    """
    _, x, p = _verdict_entry(answer, template, stated)
    mean = float(p @ x)
    return min(1.0, mean), min(MAX_VARIANCE, float(p @ (x - mean) ** 2))


def _verdict_entry(
    answer: Completion, template: JudgeTemplate, stated: float
) -> tuple[Mapping[str, float], FloatArray, FloatArray]:
    """The verdict token's alternatives; values and probabilities of those on the scale."""
    for token_text, entry in zip(reversed(answer.tokens or ()), reversed(answer.top), strict=False):
        chosen = _token_value(token_text, template)
        if chosen is None or not math.isclose(chosen, stated, abs_tol=1e-9):
            continue
        values, weights = [], []
        for token, logprob in entry.items():
            value = _token_value(token, template)
            if value is not None and math.isfinite(logprob):
                values.append(value)
                weights.append(math.exp(logprob))
        if values and sum(weights) > 0.5:
            finite = {t: float(v) for t, v in entry.items() if math.isfinite(v)}
            return finite, np.array(values), np.array(weights) / sum(weights)
    raise BadOutputError(
        "judge: the verdict is not one token with known alternatives", reason="no_verdict_token",
        raw=answer.text, hint="use a whole-number scale of one token, or variance: samples",
    )  # fmt: skip


def _token_value(token: str, template: JudgeTemplate) -> float | None:
    word = token.strip(" \t\n\"'*:.").lower()
    if template.kind == "pass_fail":
        return {"pass": 1.0, "fail": 0.0}.get(word)
    try:
        number = float(word)
    except ValueError:
        return None
    inside = template.low <= number <= template.high
    return template.to_unit(number) if inside else None
