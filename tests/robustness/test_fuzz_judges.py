"""What models say, which rows to label, canaries and chunks under the fuzz rule."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cje import judges as j
from cje import pipeline, policies, simulate
from cje.data import Scale, get_content_folds, get_fold, get_folds
from cje.errors import CJEError
from tests.robustness.fuzzing import columns, fuzz, holds_rule, sizes, sound_columns

TEMPLATES = j.template_names()
numeral = st.sampled_from(
    ["7", "0.5", "-1", "101", "1e9", "nan", "7/10", "Score: 8", "**9**", "{}"]
)


@fuzz()
@given(st.sampled_from(TEMPLATES), st.text(max_size=40), numeral, st.text(max_size=40))
def test_answers_of_a_judge_are_finite_or_refused(
    name: str, before: str, number: str, after: str
) -> None:
    raw = before + number + after
    made = holds_rule(lambda: j.parse_verdict(raw, j.load_template(name), before))
    assert made is None or 0.0 <= made.value <= 1.0


@fuzz()
@given(st.lists(st.floats(0.0, 1.0) | st.floats(), max_size=4),
       st.sampled_from(["samples", "none", "interval", "logprobs"]))  # fmt: skip
def test_verdicts_are_finite_or_refused(scores: list[float], method: Any) -> None:
    holds_rule(lambda: j.combine_verdicts([j.Verdict(score) for score in scores], method).score)


cells = st.none() | st.text(max_size=3) | st.integers()


@fuzz()
@given(st.lists(cells | st.dictionaries(st.sampled_from(["context", "response"]), cells)))
def test_samples_are_sound_or_refused(samples: list[Any]) -> None:
    holds_rule(lambda: j.check_samples(samples))
    holds_rule(lambda: j.OfflineJudge().score_batch(samples[:3]).mean)
    holds_rule(lambda: j.DeterministicJudge(lambda c, r: len(r) / 9).score_batch(samples[:3]).mean)


@fuzz()
@given(st.data(), sizes, st.none() | st.floats(), st.none() | st.integers(-1, 70))
def test_label_slices_are_sound_or_refused(
    data: Any, n: int, fraction: float | None, count: int | None
) -> None:
    strata = data.draw(st.none() | columns(n))
    holds_rule(lambda: j.draw_label_slice(n, fraction=fraction, count=count, strata=strata, seed=1))


@fuzz()
@given(
    st.sampled_from([b"", b"id,label\n", b"id,label\na,0.5\n", b"\xff\xfe"]), st.binary(max_size=60)
)
def test_label_files_are_sound_or_refused(start: bytes, rest: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.csv"
        path.write_bytes(start + rest)
        holds_rule(lambda: j.CSVOracle(path) and None)


@fuzz()
@given(st.dictionaries(st.sampled_from(["provider", "model", "template", "variance", "n_repeats"]),
                       st.none() | st.integers(-1, 3) | st.text(max_size=6)
                       | st.sampled_from(["offline", "samples", "rubric_score"])))  # fmt: skip
def test_judge_configurations_are_sound_or_refused(given_config: dict[str, Any]) -> None:
    holds_rule(lambda: j.make_judge({"provider": "offline", **given_config}) and None,
               refusals=(CJEError, ValueError))  # fmt: skip


@fuzz()
@given(st.data(), sizes)
def test_canaries_are_finite_or_refused(data: Any, n: int) -> None:
    logged, again = (data.draw(columns(n, low=-50.0, high=0.0)) for _ in range(2))
    holds_rule(lambda: str(policies.self_ratio_canary(logged, again)))
    holds_rule(lambda: str(policies.generated_vs_rescored_canary(logged, again, np.ones(n))))
    holds_rule(lambda: str(policies.replicate_noise_canary([logged, again])))
    holds_rule(lambda: str(policies.scoring_noise_canary([logged, again], logged)))
    holds_rule(lambda: str(policies.inside_token_canary(logged)))
    holds_rule(lambda: str(policies.identical_weights_canary(logged, [again], ["a"], [True])))


@fuzz()
@given(st.data(), sizes)
def test_canaries_of_sound_columns_are_finite_or_refused(data: Any, n: int) -> None:
    logged, again = (data.draw(sound_columns(n, low=-50.0, high=0.0)) for _ in range(2))
    table = np.stack([logged, again], axis=1)
    holds_rule(lambda: str(policies.self_ratio_canary(logged, again)))
    holds_rule(lambda: str(policies.generated_vs_rescored_canary(logged, again, np.ones(n))))
    holds_rule(lambda: str(policies.replicate_noise_canary(table)))
    holds_rule(lambda: str(policies.scoring_noise_canary(table, logged)))
    holds_rule(lambda: str(policies.inside_token_canary(np.arange(n) % 2)))
    holds_rule(
        lambda: str(policies.identical_weights_canary(logged, table, ["a", "b"], [True, False]))
    )


@fuzz()
@given(st.text(max_size=60), st.text(max_size=60))
def test_the_quality_of_the_demo_is_finite_or_refused(context: str, response: str) -> None:
    made = holds_rule(lambda: j.lexical_quality(context, response))
    assert made is None or 0.0 <= made <= 1.0


@fuzz()
@given(st.lists(st.text(max_size=20), max_size=3), st.text(max_size=20), st.text(max_size=20))
def test_the_small_language_model_is_finite_or_refused(
    corpus: list[str], context: str, response: str
) -> None:
    def work() -> Any:
        model = policies.NgramModel(corpus or None)
        return policies.NgramPolicy(model).log_prob(context, response)

    holds_rule(work)


@fuzz()
@given(
    st.lists(cells | st.lists(cells | st.floats(), max_size=3), max_size=3),
    st.text(max_size=5), cells,
)  # fmt: skip
def test_scored_rows_are_finite_or_refused(values: list[Any], context: str, rows: Any) -> None:
    given_rows = [{"logp_target_all": v, "context": context, "response": "r"} for v in values]
    holds_rule(lambda: pipeline.validate_target_policy_computation(given_rows))
    assert len(pipeline.compute_contexts_hash(given_rows)) > 8
    holds_rule(lambda: pipeline.validate_target_policy_computation(rows))
    holds_rule(lambda: pipeline.validate_target_policy_computation(values))


@fuzz()
@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=9),
       st.binary(max_size=40))  # fmt: skip
def test_chunks_of_any_bytes_are_sound_or_refused(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder) / "chunks" / "judge"
        stage.mkdir(parents=True)
        if name.isalnum():
            (stage / f"{name}.parquet").write_bytes(content)
            assert pipeline.chunk_exists(folder, "judge", name)
        recorded = "0" * 64  # of other bytes: what a run does with a file somebody changed
        holds_rule(lambda: pipeline.load_chunk(folder, "judge", name, sha256=recorded))
        holds_rule(lambda: pipeline.load_chunk(folder, "judge", name))
        holds_rule(lambda: pipeline.load_chunk(folder, name, "judge"))


@fuzz()
@given(st.lists(st.text(max_size=5)), st.integers(-1, 9), st.data())
def test_folds_and_scales_are_finite_or_refused(ids: list[str], k: int, data: Any) -> None:
    holds_rule(lambda: get_folds(ids, k))
    holds_rule(lambda: [get_fold(name, k) for name in ids])
    holds_rule(lambda: get_content_folds([data.draw(sound_columns(len(ids)))], k))
    one, other = data.draw(columns(len(ids))), data.draw(columns(len(ids)))
    holds_rule(lambda: get_content_folds([one, other], k))
    holds_rule(lambda: get_content_folds(one, k))
    holds_rule(lambda: get_folds(one, k))
    holds_rule(lambda: Scale(data.draw(st.floats()), data.draw(st.floats())))


@fuzz()
@given(st.sampled_from([n for n in simulate.__all__ if n not in ("Simulation", "true_curve")]),
       st.integers(-2, 40), st.integers(-2, 50), st.integers(-1, 9))  # fmt: skip
def test_simulators_are_finite_or_refused(name: str, n: int, labels: int, seed: int) -> None:
    holds_rule(lambda: dict(getattr(simulate, name)(n, n_labels=labels, seed=seed).truth))


@fuzz()
@given(st.sampled_from(["monotone", "non_monotone", "mild_dip", "other"]), st.data(), sizes)
def test_true_curves_are_finite_or_refused(shape: Any, data: Any, n: int) -> None:
    holds_rule(lambda: simulate.true_curve(shape)(data.draw(sound_columns(n))))
