"""`JudgeConfig`: the validated configuration of a judge."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from cje.judges.verdict import VarianceMethod
from cje.models.endpoint_config import EndpointConfig

__all__ = ["JudgeConfig"]


class JudgeConfig(EndpointConfig):
    """The configuration of a judge: model, question, and the source of its variance.

    Attributes
    ----------
    template : str
        Name of a shipped template, or the path of a file.
    scale : (low, high) or None
        A score range in place of the template's own.
    rubric : str or None
        Text put into the template's rubric.
    variance : {"samples", "logprobs", "interval", "none"}
        Repeated samples, the verdict tokens' log-probs, an interval the judge states, or none.
    n_repeats : int or None
        Independent calls per response (default: 5 for ``samples``, otherwise 1).
    temperature : float or None
        Default: 1 for ``samples`` (repeats must be able to differ), else 0.
    bias, noise : offline judge only
        ``score = bias[0] + bias[1] * quality + noise``, cut to [0, 1].
    """

    in_process: ClassVar[str] = "offline"

    name: str = "judge"
    model: str = "offline"
    template: str = "comprehensive_judge"
    scale: tuple[float, float] | None = None
    rubric: str | None = None
    variance: VarianceMethod = "samples"
    n_repeats: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0)
    max_tokens: int = Field(512, ge=1)
    structured: bool = True
    seed: int = 0
    bias: tuple[float, float] = (0.0, 1.0)
    noise: float = Field(0.1, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.variance == "samples" and self.repeats < 2:
            raise ValueError("variance 'samples' needs n_repeats of at least 2")
        if self.variance == "samples" and self.temperature == 0 and self.provider != "offline":
            raise ValueError(
                "variance 'samples' needs a temperature above 0: at 0 all repeats are one answer"
            )
        if self.variance == "logprobs" and self.provider == "anthropic":
            raise ValueError("this provider gives no log-probs: use variance 'samples'")
        return self

    @property
    def repeats(self) -> int:
        default = 5 if self.variance == "samples" else 1
        return default if self.n_repeats is None else self.n_repeats

    @property
    def sampling_temperature(self) -> float:
        default = 1.0 if self.variance == "samples" else 0.0
        return default if self.temperature is None else self.temperature
