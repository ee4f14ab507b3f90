"""Side-by-side answers of `cje label --pairs`, on the data that they were made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from cje.data.comparisons import Comparisons
from cje.data.dataset import Dataset
from cje.data.label_keys import place_entries
from cje.data.label_store import StoredLabels
from cje.data.style import style_of
from cje.errors import CJEError
from cje.hints import by_interface, option_hint
from cje.kernels.arrays import IntArray

__all__ = ["stored_comparisons"]


def stored_comparisons(
    data: Dataset,
    stored: StoredLabels,
    where: str = "the labels file",
    styles: Sequence[str] = (),
) -> Comparisons:
    """One comparison per prompt that both policies answered, with the answers that there are.

    The judge's verdict is one half plus half the difference of its two scores: the judge scored the
    responses separately, so there is no position bias. A person's verdict belongs to the order that
    person was shown. `styles` are counted in the responses (see `STYLES`), for data that keep their
    text.

    Raises
    ------
    CJEError
        The file holds no side-by-side answers, or one of a response that the data do not have.
    """
    if not stored.pairs:
        raise CJEError(
            "the labels file holds labels of single responses, not comparisons", where=where,
            hint=f"use {option_hint('estimator', 'direct')}, or collect comparisons "
            + by_interface("on the labelling page", "with cje label --pairs"),
        )  # fmt: skip
    policies = tuple(json.loads(stored.meta["policies"]))
    for name in policies:
        if name not in data.policies:
            raise CJEError("the data have no such policy", where=where, value=name)
    rows = _first_draws(data, policies)
    place = {
        (prompt, draw, other): k
        for k, (prompt, draw, other) in enumerate(
            zip(
                data.prompt_id.take(rows[:, 0]).decode(),
                data.draw_idx[rows[:, 0]].tolist(),
                data.draw_idx[rows[:, 1]].tolist(),
                strict=True,
            )
        )
    }
    keys = [(pair["prompt_id"], pair["draw_a"], pair["draw_b"]) for pair in stored.pairs]
    found, at, lost = place_entries(keys, place, data, where, "answer")
    pairs = [stored.pairs[i] for i in found]
    answered = np.array(at, dtype=np.int64)
    prompts = data.prompt_id.take(np.concatenate([rows[:, 0], rows[answered, 0]])).decode()
    swapped = np.array([pair["sides"] == "ba" for pair in pairs])
    value = np.array([pair["value"] for pair in pairs])
    n, m = len(rows), len(answered)
    judge = 0.5 + 0.5 * (data.judge_score[rows[:, 0]] - data.judge_score[rows[:, 1]])
    names = np.array(policies)
    note = f"{len(np.unique(answered))} of {n} prompts compared side by side in {where}"
    return Comparisons.from_arrays(
        prompt_id=prompts,
        first=[policies[0]] * n + names[swapped.astype(int)].tolist(),
        second=[policies[1]] * n + names[1 - swapped.astype(int)].tolist(),
        judge=np.concatenate([judge, np.full(m, np.nan)]),
        human=np.concatenate([np.full(n, np.nan), np.where(swapped, 1.0 - value, value)]),
        shown=np.concatenate([np.zeros(n, dtype=bool), np.ones(m, dtype=bool)]),
        label_propensity=np.concatenate(
            [np.full(n, np.nan), [pair["propensity"] for pair in pairs]]
        ),
        covariates=_style(data, rows, answered, swapped, styles),
        groups={
            name: codes.take(np.concatenate([rows[:, 0], rows[answered, 0]]))
            for name, codes in data.groups.items()
        },
        metadata={
            **{name: data.metadata[name] for name in ("skipped",) if name in data.metadata},
            "reading": (*data.metadata.get("reading", ()), note, *lost),
        },
    )


def _first_draws(data: Dataset, policies: tuple[str, ...]) -> IntArray:
    """(n, 2) rows of the first draws of each prompt that both policies answered."""
    columns = []
    for name in policies:
        rows = np.flatnonzero(data.policy.mask(name))
        order = rows[np.lexsort((data.draw_idx[rows], data.prompt_id.codes[rows]))]
        prompts, first = np.unique(data.prompt_id.codes[order], return_index=True)
        columns.append(dict(zip(prompts.tolist(), order[first].tolist(), strict=True)))
    shared = sorted(columns[0].keys() & columns[1].keys())
    if not shared:
        raise CJEError("no prompt was answered by both policies", value=policies)
    return np.array([[columns[0][p], columns[1][p]] for p in shared])


def _style(
    data: Dataset,
    rows: IntArray,
    answered: IntArray,
    swapped: np.ndarray[Any, Any],
    styles: Sequence[str],
) -> dict[str, Any]:
    """Covariates of the responses as differences, turned with the order of each answer."""
    gaps = {
        name: values[rows[:, 0]] - values[rows[:, 1]] for name, values in data.covariates.items()
    }
    for name in styles:
        if data.response is None:
            raise CJEError("the data have no text of responses", value=name)
        gaps[name] = style_of(name, *(data.response.take(rows[:, side]) for side in (0, 1)))
    found = {}
    for name, gap in gaps.items():
        found[name] = np.concatenate([gap, np.where(swapped, -gap[answered], gap[answered])])
    return found
