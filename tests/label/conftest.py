"""A small data set with sentinels that must never reach a rater, and studies made from it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cje.data import read
from cje.data.dataset import Dataset
from cje.inference import GateRule
from cje.inference.sequential import AnytimeRule
from cje.label.organiser import Organiser
from cje.label.store import Store
from cje.label.study import Study, StudyOptions

PROD, CAND = "SENTINEL-prod", "SENTINEL-cand"
SCORE = 0.73914  # a judge score whose digits occur nowhere else


def rows(n_prompts: int = 60, seed: int = 1) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n_prompts):
        for policy in (PROD, CAND):
            found.append({
                "prompt_id": f"SENTINEL-id-{i}", "policy": policy,
                "judge_score": SCORE if i % 7 == 0 else round(float(rng.random()), 3),
                "prompt": f"question {i}", "response": f"answer {i} number {len(found)}",
            })  # fmt: skip
    return found


@pytest.fixture(scope="session")
def data() -> Dataset:
    return read(rows(), text=True, judge_scale=(0, 1))


@pytest.fixture
def make(tmp_path: Path, data: Dataset) -> Callable[..., Study]:
    numbers = itertools.count()

    def made(**options: Any) -> Study:
        options = {"count": 40, "scale": "1-5"} | options
        return Study.create(tmp_path / f"{next(numbers)}.db", data, StudyOptions(**options))

    return made


@pytest.fixture
def organiser_of(tmp_path: Path) -> Callable[..., Organiser]:
    def made(study: Study, path: Path, **gate: Any) -> Organiser:
        return Organiser(study, path, GateRule(**gate), AnytimeRule(200), label_cost=2.0)

    return made


KEYS = (f"test-key-{i:08d}" for i in itertools.count())


def put(store: Store, rater: str, item: Any, word: str | None, **options: Any) -> int:
    """One answer to an item in hand."""
    return store.answer(
        rater, item.id, word=word, revision=item.revision, key=next(KEYS), seconds=3.0, **options
    )
