"""Promises about what `analyze_dataset` is handed: columns, options, level and margin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import cje.simulate as simulate
from cje import analyze_dataset
from cje.errors import CJEError


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    data = simulate.policies_on_shared_prompts(200, 2, 60, seed=4).dataset
    return pd.DataFrame(
        {
            "policy": data.policy.decode(),
            "prompt_id": data.prompt_id.decode(),
            "judge_score": data.judge_score,
            "oracle_label": data.oracle_label,  # NaN where there is none
            "note": [np.nan if code % 2 else "seen" for code in data.prompt_id.codes],
        }
    )


def test_a_dict_of_columns_may_hold_arrays_series_and_nan(frame: pd.DataFrame) -> None:
    expected = analyze_dataset(frame)
    sources: dict[str, dict[str, Any]] = {
        "lists with NaN": frame.to_dict("list"),
        "arrays": {name: frame[name].to_numpy() for name in frame},
        "series": {name: frame[name] for name in frame},
        "nullable series": {name: frame[name].convert_dtypes() for name in frame},
        "mixed": {name: frame[name].tolist() if name == "policy" else frame[name].to_numpy()
                  for name in frame},
    }  # fmt: skip
    for name, source in sources.items():
        again = analyze_dataset(source)
        np.testing.assert_allclose(again.ci(), expected.ci(), atol=1e-12, err_msg=name)


def test_a_dict_of_columns_may_hold_log_probs_by_policy() -> None:
    rng = np.random.default_rng(0)
    n = 200
    score = rng.random(n)
    columns = {
        "prompt_id": [f"p{i}" for i in range(n)],
        "judge_score": score,
        "oracle_label": np.where(np.arange(n) < 80, np.clip(score + 0.1, 0, 1), np.nan),
        "base_policy_logprob": np.full(n, -5.0),
        "target_policy_logprobs": [{"t": -5.0 + x} for x in rng.normal(0, 0.2, n)],
    }
    assert analyze_dataset(logged_data=columns).policies == ("t",)


def test_columns_of_different_lengths_are_named() -> None:
    uneven = {"policy": ["a"], "prompt_id": ["p1", "p2"], "judge_score": [0.1]}
    with pytest.raises(CJEError, match=r"different lengths.*'prompt_id': 2"):
        analyze_dataset(uneven)


@pytest.mark.parametrize("margin", [-0.1, 0.0, float("nan"), "wide"])
def test_a_wrong_margin_is_reported_before_anything_is_read(margin: Any) -> None:
    with pytest.raises(CJEError, match="margin must be positive"):
        analyze_dataset("nowhere.csv", margin=margin)


@pytest.mark.parametrize("level", [0, 1.5, float("nan"), "high"])
def test_a_wrong_level_is_reported_before_anything_is_read(level: Any) -> None:
    with pytest.raises(CJEError, match="confidence level"):
        analyze_dataset("nowhere.csv", level=level)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": 1}, "has no such option.*colour.*min_labels"),
        ({"same_as_logging": ["x"]}, "estimators with same_as_logging: ips, snips"),
    ],
)
def test_an_unknown_option_is_reported_with_the_known_ones(
    frame: pd.DataFrame, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(CJEError, match=message):
        analyze_dataset(frame, estimator_options=options)


def test_options_passed_on_to_a_base_class_are_known() -> None:
    data = simulate.logged_with_logprobs(300, 100, seed=1, targets={"clone": 0.8}).dataset
    result = analyze_dataset(
        logged_data=data,
        estimator="snips",
        estimator_options={"log_ratio_shift": True, "n_folds": 4, "same_as_logging": "clone"},
    )
    assert result.policies == ("clone",)


def test_same_as_logging_takes_one_name_and_refuses_unknown_targets() -> None:
    score = np.linspace(0.1, 0.9, 60)
    rows = [
        {"prompt_id": f"p{i}", "judge_score": float(s), "oracle_label": float(s > 0.5),
         "base_policy_logprob": -5.0, "target_policy_logprobs": {"clone": -5.0}}
        for i, s in enumerate(score)
    ]  # fmt: skip

    def run(name: Any) -> Any:
        return analyze_dataset(
            logged_data=rows, estimator="snips", estimator_options={"same_as_logging": name}
        )

    assert run("clone").policies == ("clone",)
    for wrong in ("clon", ["clone", "other"]):
        with pytest.raises(CJEError, match="target policies: clone"):
            run(wrong)
