"""The judge card: how good a judge is, each statistic with an interval, and what it saves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from cje.diagnostics.judge_identity import JudgeIdentity
from cje.errors import CJEError
from cje.hints import by_interface

__all__ = ["BiasEffect", "JudgeCard", "JudgeCards", "Measure"]

VERSION = 1


@dataclass(frozen=True)
class Measure:
    """One statistic of a judge.

    Attributes
    ----------
    name : str
    value : float
    low, high : float, optional
        Interval, clustered by prompt; None where leaving out one prompt leaves nothing to compute.
    n : int
        Labels or responses it rests on.
    says : str
        What it means.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    n: int
    says: str = ""


@dataclass(frozen=True)
class BiasEffect:
    """How the judge's error, calibrated score minus label, depends on something else.

    Attributes
    ----------
    factor, level : str
        What it depends on; of a category the level, of a number ``""``.
    effect : float
        In labels: of a number the change for one standard deviation more, of a level its mean error
        minus that of all rows. Positive: the calibrated score is too high.
    low, high : float, optional
        Interval of this effect alone, clustered by prompt.
    p_adjusted : float
        For the number of effects on the card (Holm).
    n : int
    """

    factor: str
    level: str
    effect: float
    low: float | None
    high: float | None
    p_adjusted: float
    n: int


@dataclass(frozen=True)
class JudgeCard:
    """How good one judge is.

    Attributes
    ----------
    judge : str
    n_labels, n_prompts, n_judged, n_versions : int
        Labelled responses, their prompts, all responses with a score, and versions that wrote them.
    measures : tuple of Measure
    biases : tuple of BiasEffect
    labels_saved : Measure
        How many more labels per version would give the same interval without the judge.
    absent : mapping name -> reason
        Statistics that these data do not have.
    identity : JudgeIdentity, optional
        What the card is bound to.
    level : float
        Confidence level of the intervals.
    """

    judge: str
    n_labels: int
    n_prompts: int
    n_judged: int
    n_versions: int
    measures: tuple[Measure, ...]
    biases: tuple[BiasEffect, ...]
    labels_saved: Measure
    absent: Mapping[str, str]
    identity: JudgeIdentity | None = None
    level: float = 0.95

    def __getitem__(self, name: str) -> Measure:
        """A statistic by name."""
        for measure in (*self.measures, self.labels_saved):
            if measure.name == name:
                return measure
        reason = self.absent.get(name)
        names = ", ".join(measure.name for measure in self.measures)
        raise CJEError(
            "the card has no such statistic", value=name, hint=reason or f"it has {names}"
        )

    @property
    def labels_per_version(self) -> float:
        """The labels that the judge is used beside."""
        return self.n_labels / self.n_versions

    def bound_to(self, identity: JudgeIdentity | None) -> JudgeCard:
        """The same card, bound to a judge."""
        return replace(self, identity=identity)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        own = None if self.identity is None else self.identity.to_dict()
        return {**asdict(self), "absent": dict(self.absent), "identity": own}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> JudgeCard:
        """The inverse of `to_dict`."""
        given = dict(data)
        own = given.pop("identity")
        return cls(
            **given
            | {
                "measures": tuple(Measure(**m) for m in given["measures"]),
                "biases": tuple(BiasEffect(**b) for b in given["biases"]),
                "labels_saved": Measure(**given["labels_saved"]),
                "identity": None if own is None else JudgeIdentity.from_dict(own),
            }
        )


@dataclass(frozen=True)
class JudgeCards:
    """Several judges of the same responses, side by side and stacked.

    Attributes
    ----------
    cards : tuple of JudgeCard
        In the order given.
    stacked : tuple of Measure
        Of one calibration on all the scores together: its R2, the labels it saves, and how much
        more of the labels' variance it explains than the best single judge. Empty for one judge.
    """

    cards: tuple[JudgeCard, ...]
    stacked: tuple[Measure, ...] = ()

    def __getitem__(self, judge: str) -> JudgeCard:
        """A judge's card by its name."""
        for card in self.cards:
            if card.judge == judge:
                return card
        names = ", ".join(card.judge for card in self.cards)
        raise CJEError("no such judge", value=judge, hint=f"the judges are {names}")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "version": VERSION,
            "cards": [card.to_dict() for card in self.cards],
            "stacked": [asdict(measure) for measure in self.stacked],
        }

    @classmethod
    def from_dict(cls, data: Any) -> JudgeCards:
        """The inverse of `to_dict`.

        Raises
        ------
        CJEError
            Not a judge card, or one of a newer version.
        """
        known = data.get("version") if isinstance(data, Mapping) else None
        if known != VERSION:
            raise CJEError(
                "this is not a judge card that this version reads", value=known,
                hint="make it with "
                + by_interface("judge_report(...).to_dict()", "cje judge DATA --save card.json"),
            )  # fmt: skip
        try:
            cards = tuple(JudgeCard.from_dict(card) for card in data["cards"])
            return cls(cards, tuple(Measure(**measure) for measure in data["stacked"]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CJEError("the judge card is damaged", value=error) from error

    @classmethod
    def from_json(cls, text: str) -> JudgeCards:
        """Read the text that ``json.dumps(cards.to_dict())`` writes.

        Raises
        ------
        CJEError
            Not JSON, or not a judge card.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise CJEError("a judge card is JSON", value=error) from error
        return cls.from_dict(data)
