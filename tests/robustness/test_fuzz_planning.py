"""Plans, pilots and pipeline configurations under the fuzz rule."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from cje import simulate
from cje.analysis.label_plan import Goal, JudgeQuality, UnitCosts, plan_study
from cje.analysis.pilot import plan_from_pilot
from cje.pipeline import load_config
from tests.robustness.fuzzing import fuzz, holds_rule

number = st.one_of(st.floats(0.0, 1.0), st.floats(), st.sampled_from([1e-9, 0.05, 0.25, 1e9]))
kinds = st.sampled_from(["value", "difference", "power", "other"])
limits = st.none() | st.integers(-1, 10**6)


@fuzz()
@given(st.tuples(number, number, number, number), kinds, st.integers(-1, 4), limits)
def test_plans_are_finite_or_refused(
    numbers: tuple[float, ...], kind: Any, policies: int, most: int | None
) -> None:
    sd, r2, size, cost = numbers

    def work() -> Any:
        quality, goal, costs = JudgeQuality(sd, r2), Goal(kind, size), UnitCosts(cost, 0.05)
        return plan_study(quality, goal, costs, n_policies=policies, max_prompts=most)

    holds_rule(work)


@fuzz()
@given(st.integers(2, 60), st.integers(2, 25), st.floats(0.01, 0.5), kinds)
def test_plans_from_pilots_are_finite_or_refused(
    prompts: int, labels: int, size: float, kind: Any
) -> None:
    data = simulate.policies_on_shared_prompts(
        prompts, 2, min(labels, prompts), seed=labels
    ).dataset

    def work() -> Any:
        plan = plan_from_pilot(data, Goal(kind, size), n_draws=5)
        return plan.design, plan.labels_range

    holds_rule(work)


SOUND: dict[str, Any] = {
    "work_dir": "run",
    "dataset": {"path": "rows.jsonl", "response_field": "r", "logprob_field": "l"},
    "judge": {"provider": "offline"},
    "target_policies": [{"name": "near", "provider": "ngram", "temperature": 0.9}],
    "oracle_config": {"source": "csv", "path": "labels.csv"},
    "limits": {"default": {"max_concurrency": 4}},
    "chunk_rows": 100,
    "executor": "local",
}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


@fuzz()
@given(st.sampled_from([*SOUND, "seed", "nonsense"]), anything)
def test_configurations_are_sound_or_refused(field: str, value: Any) -> None:
    _load(yaml.safe_dump({**SOUND, field: value}).encode())


@fuzz()
@given(st.binary(max_size=60), st.integers(0, 200))
def test_configurations_of_any_bytes_are_sound_or_refused(junk: bytes, at: int) -> None:
    sound = yaml.safe_dump(SOUND).encode()
    _load(sound[:at] + junk + sound[at:])


def _load(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_bytes(text)
        holds_rule(lambda: load_config(path).model_dump_json())
