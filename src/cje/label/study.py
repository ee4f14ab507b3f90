"""A labelling study: created from a data set, kept in a store, served item by item."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cje.data.dataset import Dataset
from cje.data.label_keys import row_keys
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray, IntArray
from cje.label.active import ActiveDesign
from cje.label.designs import ALLOCATIONS, DESIGNS, common_prompts, draw_rows
from cje.label.scale import AnswerScale, scale_of
from cje.label.store import Item, Store

__all__ = ["Study", "StudyOptions"]


@dataclass(frozen=True)
class StudyOptions:
    """Settings fixed before the first label.

    Parameters
    ----------
    count : int
        Number of labels to collect (with `pairs`: of comparisons).
    design : {"random", "stratified", "paired", "active"}
    seed : int
    baseline, candidate : str, optional
        The two policies of interest; without them, all policies.
    pairs : bool
        Two responses to one prompt side by side; needs baseline and candidate.
    by, allocation
        Strata and allocation of the stratified design.
    scale : str, optional
        Scale of the answers; by default from the data.
    rubric : str
        Markdown shown beside every item.
    overlap : float
        Share of the items that two raters label.
    third : bool
        Give items on which two raters disagree to a third.
    target : {"mean", "majority"}
        Whether the third rater's answer counts: not in a mean, which it would bias.
    """

    count: int = 100
    design: str = "random"
    seed: int = 0
    baseline: str | None = None
    candidate: str | None = None
    pairs: bool = False
    by: Sequence[str] = ("judge_score",)
    allocation: str = "proportional"
    scale: str | None = None
    rubric: str = ""
    overlap: float = 0.0
    third: bool = False
    target: str = "mean"

    def __post_init__(self) -> None:
        if self.design not in DESIGNS:
            raise CJEError(
                "unknown design", value=self.design, hint=f"choose from {', '.join(DESIGNS)}"
            )
        if self.allocation not in ALLOCATIONS:
            raise CJEError(
                "unknown allocation", value=self.allocation, hint=" or ".join(ALLOCATIONS)
            )
        if not 0.0 <= self.overlap <= 1.0:
            raise CJEError("the overlap is a share from 0 to 1", value=self.overlap)
        if self.target not in ("mean", "majority"):
            raise CJEError("the target is 'mean' or 'majority'", value=self.target)
        if (self.baseline is None) != (self.candidate is None):
            raise CJEError("give a baseline and a candidate, or neither")
        if self.pairs and self.baseline is None:
            raise CJEError(
                "side-by-side labelling needs two policies",
                hint="name them with --baseline and --candidate",
            )
        if self.third and self.overlap == 0.0:
            raise CJEError(
                "a third rater needs items that two raters label",
                hint="give --overlap, such as 0.2",
            )

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies of interest, the candidate first; none for all."""
        if self.baseline is None or self.candidate is None:
            return ()
        return (self.candidate, self.baseline)


class Study:
    """A labels file with its data: serves items, and continues an active design.

    Every item is blind: `next_item` and `look` return texts and a number, nothing else.
    """

    def __init__(self, store: Store, data: Dataset) -> None:
        self.store, self.data = store, data
        self._lock = threading.Lock()
        self._rng = np.random.default_rng([int(store.meta["seed"]), 1])
        self._active: ActiveDesign | None = None
        self._learned = 0
        if store.meta["fingerprint"] != fingerprint(data):
            raise CJEError(
                "the labels file was made from other data",
                hint="give the data it was made from, or another labels file",
            )
        if store.meta["design"] == "active":
            self._active = self._resume_active()

    # ---- making one -------------------------------------------------------------------------

    @classmethod
    def create(cls, path: Path, data: Dataset, options: StudyOptions) -> Study:
        """A new labels file for `data`.

        Raises
        ------
        CJEError
            The file exists, the data have no responses' text, or the design cannot be drawn.
        """
        if data.response is None:
            raise CJEError(
                "the data have no text of responses to show",
                hint="name the column with --field response=COLUMN",
            )
        for name in options.policies:
            if name not in data.policies:
                raise CJEError(
                    "no such policy", value=name,
                    hint=f"policies in the data: {', '.join(data.policies)}",
                )  # fmt: skip
        scale, origin = _answer_scale(data, options)
        meta = {
            "design": options.design, "count": str(options.count), "seed": str(options.seed),
            "pairs": "1" if options.pairs else "0", "third": "1" if options.third else "0",
            "overlap": str(options.overlap), "target": options.target,
            "scale": scale.to_json(), "scale_origin": origin, "rubric": options.rubric,
            "rubric_fingerprint": hashlib.sha256(options.rubric.encode()).hexdigest()[:16],
            "fingerprint": fingerprint(data), "policies": json.dumps(options.policies),
        }  # fmt: skip
        frame = _frame(data, options)
        meta["n_units"] = str(len(frame))
        _check_count(options, len(frame), frame)
        rows: list[dict[str, Any]] = []
        if options.design != "active":
            rows = list(_drawn_items(data, options, frame))
        else:
            ActiveDesign(_unit_scores(data, frame, options.pairs), options.count, seed=options.seed)
        return cls(Store.create(path, meta, rows), data)

    @classmethod
    def open(cls, path: Path, data: Dataset) -> Study:
        """Resume the study of a file, with the file's design."""
        return cls(Store.open(path), data)

    def check_options(self, options: StudyOptions, given: Collection[str]) -> None:
        """Raise where an option named in `given` differs from what the file fixed.

        The design of a study does not change once it has begun. A silently ignored option would
        make its user believe that it did.
        """
        meta = self.store.meta
        candidate, baseline = (*self.policies, None, None)[:2]
        now: dict[str, Any] = {name: getattr(options, name) for name in given}
        then: dict[str, Any] = {
            "count": int(meta["count"]), "design": meta["design"], "seed": int(meta["seed"]),
            "baseline": baseline, "candidate": candidate, "pairs": meta["pairs"] == "1",
            "scale": meta["scale"], "rubric": meta["rubric"], "overlap": float(meta["overlap"]),
            "third": meta["third"] == "1", "target": meta["target"],
        }  # fmt: skip
        if now.get("scale") is not None:
            now["scale"] = AnswerScale.parse(now["scale"]).to_json()
        for name, value in now.items():
            if name in then and value != then[name]:
                short = name not in ("rubric", "scale")
                raise CJEError(
                    f"the labels file was begun with another --{name}"
                    + (f": {then[name]}" if short else ""),
                    value=value if short else getattr(options, name)[:60],
                    hint=f"leave --{name} out to resume, or name a new file with --labels",
                )

    @property
    def policies(self) -> tuple[str, ...]:
        """Candidate and baseline, or nothing."""
        return tuple(json.loads(self.store.meta["policies"]))

    # ---- giving out items -------------------------------------------------------------------

    def next_item(self, rater: str, tab: str) -> Item | None:
        """The rater's next item; None if the study is complete for them."""
        found = self.store.take(rater, tab, steal=self._active is None)
        if found is not None or self._active is None:
            return found
        with self._lock:
            self._learn()
            while found is None and not self._active.finished:
                visit = self._active.visit()
                shown = _item_rows(
                    self.data, self._frame[visit.unit], visit.unit, visit.propensity,
                    self._wanted(), self.store.meta["pairs"] == "1",
                ) if visit.shown else []  # fmt: skip
                self.store.add_visit(visit.unit, visit.propensity, visit.shown, shown)
                if visit.shown:
                    found = self.store.take(rater, tab, steal=False)
        return self.store.take(rater, tab) if found is None else found

    def _wanted(self) -> int:
        return 2 if self._rng.random() < float(self.store.meta["overlap"]) else 1

    def _resume_active(self) -> ActiveDesign:
        meta = self.store.meta
        options = StudyOptions(
            design="active", pairs=meta["pairs"] == "1",
            candidate=self.policies[0] if self.policies else None,
            baseline=self.policies[1] if self.policies else None,
        )  # fmt: skip
        self._frame = _frame(self.data, options)
        self._all_scores = _unit_scores(self.data, self._frame, options.pairs)
        design = ActiveDesign(self._all_scores, int(meta["count"]), seed=int(meta["seed"]))
        (row,) = self.store.read("SELECT count(*), coalesce(sum(shown), 0) FROM visit")
        design.resume(row[0], row[1])
        return design

    def _learn(self) -> None:
        """Pass the labels that arrived since the last visit to the active design."""
        assert self._active is not None
        assert self.store.scale is not None
        scale = self.store.scale
        new = self.store.read(
            """SELECT l.id, l.value, i.unit FROM latest l JOIN item i ON i.id = l.item
               WHERE l.id > ? AND l.kind = 'label' ORDER BY l.id""",
            (self._learned,),
        )
        for r in new:
            unit = (r["value"] - scale.low) / (scale.high - scale.low)
            self._active.learn(self._all_scores[[r["unit"]]], np.array([unit]))
            self._learned = r["id"]

    @property
    def informative(self) -> bool | None:
        """Active design: whether the errors vary with the score; None before the first fit."""
        return None if self._active is None else self._active.informative

    @property
    def finished(self) -> bool:
        """Whether every item has the answers it needs."""
        if self._active is not None and not self._active.finished:
            return False
        (row,) = self.store.read(
            """SELECT (SELECT count(*) FROM item WHERE slots > 0)
                    + (SELECT count(*) FROM assignment WHERE done = 0)"""
        )
        return bool(row[0] == 0)


def _unit_scores(data: Dataset, frame: list[IntArray], pairs: bool) -> FloatArray:
    """Score of each unit that the design uses; of a pair, the judge's preference."""
    judge = data.judge_score
    if pairs:
        return np.array([0.5 + 0.5 * (judge[a] - judge[b]) for a, b in frame])
    return np.array([judge[rows[0]] for rows in frame])


def fingerprint(data: Dataset) -> str:
    """Fingerprint of the rows' keys, in order: the data that a labels file belongs to."""
    digest = hashlib.sha256()
    for column in zip(*row_keys(data), strict=True):
        digest.update(json.dumps(column).encode())
    return digest.hexdigest()[:32]


def _answer_scale(data: Dataset, options: StudyOptions) -> tuple[AnswerScale, str]:
    if options.pairs:
        return AnswerScale.pair(), "side by side"
    if options.scale is not None:
        return AnswerScale.parse(options.scale), "given"
    return scale_of(data)


def _frame(data: Dataset, options: StudyOptions) -> list[IntArray]:
    """The units that can be drawn, each with its rows (candidate first, side by side)."""
    chosen = options.policies or data.policies
    mask = np.any([data.policy.mask(name) for name in chosen], axis=0)
    rows = np.flatnonzero(mask)
    if options.pairs:
        first = data.policies.index(chosen[0])
        return [
            unit if data.policy.codes[unit[0]] == first else unit[::-1]
            for unit in common_prompts(data, rows, chosen)
        ]
    return [np.array([row]) for row in rows]


def _check_count(options: StudyOptions, n_units: int, frame: list[IntArray]) -> None:
    if isinstance(options.count, bool) or not 1 <= options.count <= n_units:
        what = "prompts" if options.pairs else "rows"
        raise CJEError(
            f"the number of labels must be between 1 and the {n_units:,} {what}",
            value=options.count,
        )


def _drawn_items(
    data: Dataset, options: StudyOptions, frame: list[IntArray]
) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng([options.seed, 2])
    if options.pairs:
        if options.design == "stratified":
            raise CJEError(
                "side-by-side labelling needs a random or an active design", value=options.design,
                hint="use --design random or active",
            )  # fmt: skip
        units = rng.permutation(len(frame))[: options.count]
        drawn = [(frame[u], int(u), options.count / len(frame)) for u in units]
    else:
        found = draw_rows(
            data, options.design, options.count, seed=options.seed, policies=options.policies,
            by=options.by, allocation=options.allocation,
        )  # fmt: skip
        drawn = [
            (np.array([row]), int(unit), float(p))
            for row, unit, p in zip(found.rows, found.unit, found.propensity, strict=True)
        ]
    for rows, unit, propensity in drawn:
        wanted = 2 if rng.random() < options.overlap else 1
        yield from _item_rows(data, rows, unit, propensity, wanted, options.pairs)


def _item_rows(
    data: Dataset, rows: IntArray, unit: int, propensity: float, wanted: int, pairs: bool
) -> list[dict[str, Any]]:
    """The store's items for the rows of one unit."""
    assert data.response is not None
    made = []
    policy, prompt = data.policy, data.prompt_id
    for row, other in [(rows[0], rows[1])] if pairs else [(row, None) for row in rows]:
        made.append({
            "unit": unit, "row": int(row), "prompt_id": prompt.names[prompt.codes[row]],
            "policy": policy.names[policy.codes[row]], "draw_idx": int(data.draw_idx[row]),
            "policy_b": None if other is None else policy.names[policy.codes[other]],
            "draw_b": None if other is None else int(data.draw_idx[other]),
            "propensity": propensity, "wanted": wanted,
            "prompt": "" if data.prompt is None else data.prompt[int(row)],
            "response": data.response[int(row)],
            "response_b": None if other is None else data.response[int(other)],
        })  # fmt: skip
    return made
