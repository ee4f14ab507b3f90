"""The judges under the founding document's names: every score has a variance and its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from pydantic import ValidationError, model_validator

from cje.data.judge_score import JudgeScore, JudgeScores
from cje.errors import CJEError
from cje.judges import (
    DeterministicJudge,
    JudgeConfig,
    OfflineJudge,
    VarianceMethod,
    check_samples,
)
from cje.judges.api import APIJudge
from cje.models.endpoint_config import config_faults

__all__ = [
    "DeterministicJudge",
    "MeasuredScore",
    "MeasuredScores",
    "OfflineJudge",
    "UncertaintyAPIJudge",
    "UncertaintyJudgeConfig",
]


class UncertaintyJudgeConfig(JudgeConfig):
    """`cje.judges.JudgeConfig` with the founding document's spelling ``model_name`` for ``model``.

    Examples
    --------
    >>> UncertaintyJudgeConfig(provider="openai", model_name="gpt-4").variance
    'samples'
    """

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise CJEError(f"the judge's configuration is wrong: {config_faults(error)}") from error

    @model_validator(mode="before")
    @classmethod
    def _published_names(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "model_name" in values:
            values = dict(values)
            if "model" in values:
                raise ValueError("give model_name or model, not both")
            values["model"] = values.pop("model_name")
        return values

    @property
    def model_name(self) -> str:
        return self.model


@dataclass(frozen=True)
class MeasuredScore(JudgeScore):
    """A `JudgeScore` with the source of its variance and the number of judgements."""

    method: VarianceMethod = "none"
    n_verdicts: int = 1


class MeasuredScores(JudgeScores):
    """A batch of judge scores with the source of their variances."""

    __slots__ = ("method", "n_verdicts")

    def __init__(self, scores: JudgeScores, method: VarianceMethod, n_verdicts: int) -> None:
        super().__init__(scores.mean, scores.variance)
        self.method, self.n_verdicts = method, n_verdicts

    @overload
    def __getitem__(self, index: int) -> MeasuredScore: ...
    @overload
    def __getitem__(self, index: slice) -> MeasuredScores: ...
    def __getitem__(self, index: int | slice) -> MeasuredScore | MeasuredScores:
        picked = super().__getitem__(index)
        if isinstance(picked, JudgeScores):
            return MeasuredScores(picked, self.method, self.n_verdicts)
        return self._measured(picked)

    def __iter__(self) -> Iterator[MeasuredScore]:
        return map(self._measured, super().__iter__())

    def _measured(self, score: JudgeScore) -> MeasuredScore:
        return MeasuredScore(score.mean, score.variance, self.method, self.n_verdicts)


class UncertaintyAPIJudge(APIJudge):
    """A language model as a judge whose scores always carry a variance."""

    def score(self, context: str, response: str) -> MeasuredScore:
        """Judge one response."""
        judged = self.judge_all([(context, response)])[0]
        score = judged.score
        return MeasuredScore(score.mean, score.variance, judged.method, judged.n_verdicts)

    def score_batch(self, samples: Sequence[Mapping[str, Any]]) -> MeasuredScores:
        """Judge many: dicts with ``context`` and ``response``; scores in the same order."""
        judged = self.judge_all(check_samples(samples))
        scores = JudgeScores.from_scores(item.score for item in judged)
        return MeasuredScores(scores, self.variance_method, self.n_repeats)
