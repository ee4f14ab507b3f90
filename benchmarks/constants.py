"""Constants of `direct` that are not derived: what halving and doubling each of them does.

    python -m benchmarks.constants [--quick]

Each constant is set to half and to twice its value, on a design in which it decides, with the data
sets of the development seeds (0, 1, 2, ...) the same for the three values. The bar is on coverage
lost against the value in use: 0.03, and none for gates, whose purpose that is. The table in
`docs/methods/estimators.md` is written from here; the constants of the off-policy family and of a
policy's few labels of its own stand there with their own studies.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import main, row, show
from cje.data import Dataset
from cje.diagnostics import GateThresholds
from cje.errors import CJEError
from cje.estimators import DirectEstimator, EstimationResult
from cje.findings import Rule
from cje.findings.labels import (
    LABELS_MODELLED,
    LABELS_SELECTED,
    PROPENSITIES_MISS_ROWS,
    PROPENSITIES_TOO_UNEQUAL,
    SKEWED_LABELS,
    STRATUM_HARDLY_LABELLED,
)
from cje.simulate import policies_on_shared_prompts
from studies import selection
from studies import stress_direct as cells

__all__ = ["CONSTANTS", "Constant", "run"]

LOST = 0.03
Analysis = tuple[EstimationResult, Mapping[str, float]]


@dataclass(frozen=True)
class Constant:
    """Where a constant is, and the design on which it is tried."""

    name: str
    place: tuple[Any, str]  # module and attribute, rule and threshold, or dataclass and default
    design: str
    analyse: Callable[[int], Analysis]
    most: float = np.inf  # doubling stops there
    codes: tuple[str, ...] = ()  # findings that are counted

    @property
    def decides_refusal(self) -> bool:
        """A gate, rather than a number in a formula."""
        return not isinstance(self.place[0], str)

    @property
    def value(self) -> float:
        """In use."""
        where, name = self.place
        if isinstance(where, Rule):
            return where[name]
        return float(getattr(_home(where), name))

    @contextmanager
    def at(self, value: float) -> Iterator[None]:
        """The constant at another value, then again as it was."""
        before = self.value
        self._set(value)
        try:
            yield
        finally:
            self._set(before)

    def _set(self, value: float) -> None:
        where, name = self.place
        if isinstance(where, Rule):
            where.thresholds[name] = value  # type: ignore[index]
            return
        if isinstance(where, type):  # a dataclass keeps its defaults in its constructor
            names = [field.name for field in fields(where)]
            defaults = list(where.__init__.__defaults__)
            defaults[names.index(name) - len(names)] = value
            where.__init__.__defaults__ = tuple(defaults)
        home = _home(where)
        setattr(home, name, type(getattr(home, name))(value))


def _home(where: Any) -> Any:
    return importlib.import_module(where) if isinstance(where, str) else where


@dataclass(frozen=True)
class Outcome:
    """Of one value of a constant."""

    coverage: float
    width: float
    sd: float
    refused: float
    told: float


def outcome(constant: Constant, repetitions: int) -> Outcome:
    """Repeat the analysis on the development seeds."""
    hits, widths, errors, refused, told = [], [], [], [], []
    for seed in range(repetitions):
        try:
            result, truth = constant.analyse(seed)
        except CJEError:  # refused as a whole
            refused.append(1.0)
            continue
        codes = {finding.code for finding in result.findings}
        told.append(bool(codes & set(constant.codes)))
        for name, limits, value in zip(result.policies, result.ci(), result.estimates, strict=True):
            if name not in truth:
                continue
            refused.append(float(name in result.refused()))
            if not refused[-1]:
                hits.append(limits[0] <= truth[name] <= limits[1])
                widths.append(limits[1] - limits[0])
                errors.append(value - truth[name])
    given = bool(hits)
    return Outcome(
        float(np.mean(hits)) if given else np.nan,
        float(np.mean(widths)) if given else np.nan,
        float(np.std(errors)) if given else np.nan,
        float(np.mean(refused)),
        float(np.mean(told)) if told else np.nan,
    )


# ---- designs -----------------------------------------------------------------------------------


def _cell(draw: Callable[[np.random.Generator], cells.Sample], seed: int) -> Analysis:
    sample = draw(np.random.default_rng([seed, 20]))
    result = DirectEstimator(sample.dataset, seed=seed, **sample.options).fit_and_estimate()
    names = sample.watched or tuple(sample.truth)
    return result, {name: sample.truth[name] for name in names}


def _shared(shape: str, labels: tuple[int, ...], seed: int) -> Analysis:
    """Two policies on 500 prompts; the number of labels goes round with the seed."""
    n = labels[seed % len(labels)]
    found = policies_on_shared_prompts(500, 2, n, seed=seed, shape=shape)
    return DirectEstimator(found.dataset, seed=seed).fit_and_estimate(), found.truth


def _few_in_all(seed: int) -> Analysis:
    """One policy with 7 or 15 labels."""
    return _cell(partial(cells.noisy, kind="normal", labels=(7, 15)[seed % 2], policies="a"), seed)


def _selected(how: str, strength: float, seed: int) -> Analysis:
    return selection.analysed(seed, how, strength), {"cand": selection.TRUTH}


def _thin(seed: int) -> Analysis:
    """A tenth of 1,000 rows, 0.25 worse than their scores, of whom 3 or 6 are expected labelled."""
    rng, n = np.random.default_rng([seed, 21]), 1000
    rare, score = np.arange(n) < 100, rng.random(n)
    chance = np.where(rare, (0.03, 0.06)[seed % 2], 0.2)
    return _one_policy(rng, score, 0.25 * rare, chance, chance, seed), {"a": 0.475}


def _mismatch(seed: int) -> Analysis:
    """Labels of high scores are 15% fewer than their recorded chance says, whatever the label."""
    rng, n = np.random.default_rng([seed, 22]), 20_000
    score = rng.random(n)
    recorded = np.full(n, 0.3)
    chance = recorded * np.where(score > 0.5, 0.85, 1.0)
    return _one_policy(rng, score, np.zeros(n), recorded, chance, seed), {"a": 0.5}


def _one_policy(
    rng: np.random.Generator,
    score: np.ndarray,
    below: np.ndarray,
    recorded: np.ndarray,
    chance: np.ndarray,
    seed: int,
) -> EstimationResult:
    label = 0.3 + 0.4 * score - below + rng.uniform(-0.1, 0.1, len(score))
    data = Dataset.from_arrays(
        prompt_id=[f"p{i}" for i in range(len(score))],
        policy=["a"] * len(score),
        judge_score=score,
        oracle_label=np.where(rng.random(len(score)) < chance, label, np.nan),
        label_propensity=recorded,
    )
    return DirectEstimator(data, seed=seed).fit_and_estimate()


def _unlabelled_inflated(seed: int) -> Analysis:
    """Inflated scores, none of them labelled."""
    return _cell(partial(cells.inflated, own=0), seed)


_DIRECT, _REWARDS = "cje.estimators.direct", "cje.calibration.rewards"
CONSTANTS = (
    Constant("prior mean of the blend", (f"{_REWARDS}.blending", "_PRIOR_MEAN"),
             "monotone judge, 50 labels", partial(_shared, "monotone", (50,))),
    Constant("prior precision of the blend", (f"{_REWARDS}.blending", "_PRIOR_PRECISION"),
             "monotone judge, 50 labels", partial(_shared, "monotone", (50,))),
    Constant("labels per knot of the first stage", (f"{_REWARDS}.first_stage", "LABELS_PER_KNOT"),
             "non-monotone judge, 100 labels", partial(_shared, "non_monotone", (100,))),
    Constant("labels for a two-stage calibration",
             (f"{_REWARDS}.reward_model", "MIN_LABELS_TWO_STAGE"),
             "non-monotone judge, 8 or 15 labels", partial(_shared, "non_monotone", (8, 15))),
    Constant("leverage that is corrected for", (f"{_DIRECT}.rectifier", "_MAX_LEVERAGE"),
             "5 whole prompts", partial(_cell, partial(cells.whole_prompts, prompts=5)), most=0.99),
    Constant("labels in all", (f"{_DIRECT}.label_pool", "_MIN_LABELS"),
             "one policy, 7 or 15 labels", _few_in_all),
    Constant("p of labels-modelled", (LABELS_MODELLED, "p_value"),
             "labels follow length (0.4)", partial(_selected, "length", 0.4),
             codes=("labels-modelled",)),
    Constant("labels in a fifth of the responses", (LABELS_SELECTED, "labels_in_a_fifth"),
             "labels follow length (1.5)", partial(_selected, "length", 1.5)),
    Constant("effective labels of a labelling model", (LABELS_SELECTED, "effective_labels"),
             "labels follow length (0.8)", partial(_selected, "length", 0.8)),
    Constant("effective labels of unequal propensities, refusal",
             (PROPENSITIES_TOO_UNEQUAL, "refuse"), "propensities .02-1",
             partial(_cell, partial(cells.log_uniform, least=0.02))),
    Constant("expected labels of a stratum", (STRATUM_HARDLY_LABELLED, "expected_labels"),
             "3 or 6 expected in a tenth of the rows", _thin),
    Constant("ratio of labels to propensities", (PROPENSITIES_MISS_ROWS, "ratio"),
             "15% fewer labels than recorded above the median score", _mismatch,
             codes=("propensities-miss-rows",)),
    Constant("skewness of the mean", (SKEWED_LABELS, "of_the_mean"), "lognormal, 100 labels",
             partial(_cell, partial(cells.lognormal, labels=100)), codes=("skewed-labels",)),
    Constant("scores outside the labelled range", (GateThresholds, "outside_scores_refuse"),
             "an inflated judge, no label of its own", _unlabelled_inflated),
)  # fmt: skip


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Two rows per constant."""
    n = 20 if quick else 200
    rows = []
    for constant in CONSTANTS:
        now = outcome(constant, n)
        for word, factor in (("halved", 0.5), ("doubled", 2.0)):
            value = min(factor * constant.value, constant.most)
            with constant.at(value):
                moved = outcome(constant, n)
            lost = now.coverage - moved.coverage
            note = f"{_says(moved)}; in use ({constant.value:g}): {_says(now)}; {n} data sets"
            bar = f"{constant.name} {word} to {value:g}, {constant.design}: coverage lost"
            # What a gate keeps from covering too little is no fault of the gate.
            limit = 1.0 if constant.decides_refusal else LOST
            rows.append(row(bar, lost, limit, note) | {"ok": not lost > limit})
            show(rows[-1:])
    return rows


def _says(found: Outcome) -> str:
    told = "" if np.isnan(found.told) else f", told {found.told:.2f}"
    return (
        f"coverage {found.coverage:.3f}, width {found.width:.4f}, sd {found.sd:.4f}, refused "
        f"{found.refused:.2f}{told}"
    )


if __name__ == "__main__":
    raise SystemExit(main(run, __doc__ or ""))
