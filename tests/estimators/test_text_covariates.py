"""`text_model`: embeddings of responses as automatic covariates."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from cje.analysis import analyze_dataset
from cje.cli.main import main
from cje.data.codes import Strings
from cje.data.dataset import Dataset
from cje.data.embedding import embed
from cje.errors import CJEError, MissingExtraError
from cje.estimators import DirectEstimator
from cje.estimators.direct.text_offset import fit_text_offset, ridge_slopes
from studies.covariates import hedged, saving, tiny_text_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_text_model(tmp_path_factory.mktemp("models") / "tiny")


def _data(effect: float, labels: int = 50) -> Dataset:
    return hedged(np.random.default_rng([3, 11]), effect, labels=labels)[0]


def test_text_pays_where_it_shifts_the_labels_and_costs_at_most_a_percent_elsewhere(
    model: Path,
) -> None:
    helped = saving(1.0, 40, draw=hedged, text_model=model)
    useless = saving(0.0, 20, draw=hedged, text_model=model)
    assert helped.ratio < 0.9
    assert helped.errors < 0.9
    assert helped.used == 1.0
    assert useless.ratio < 1.01
    assert useless.errors < 1.01
    assert useless.used <= 0.25


def test_the_prediction_of_a_fold_does_not_change_with_the_labels_of_that_fold() -> None:
    rng = np.random.default_rng(0)
    x, folds = rng.normal(size=(90, 12)), np.arange(90) % 5
    residuals = np.tile((x[:, 0] + 0.3 * rng.normal(size=90))[:, None], (1, 5))
    shares = np.full(5, 0.2)
    before = fit_text_offset(x, x, residuals, folds, shares)
    changed = residuals.copy()
    changed[folds == 2] += rng.normal(size=(18, 1))
    after = fit_text_offset(x, x, changed, folds, shares)
    np.testing.assert_array_equal(before.at_labels[folds == 2], after.at_labels[folds == 2])
    assert np.abs(before.at_labels - after.at_labels)[folds != 2].min() > 0


def test_residuals_of_a_fold_come_from_the_calibration_that_did_not_see_it(model: Path) -> None:
    data = _data(1.0)
    fitted = DirectEstimator(data, covariates="auto", text_model=model)
    fitted.fit_and_estimate()
    pool, predictor = fitted.pool_, fitted.predictor_
    each = predictor.each_fold(pool.scores, pool.covariates)
    plain = each[np.arange(len(pool.labels)), pool.folds]
    without = DirectEstimator(data).fit_and_estimate()
    assert without.estimates.shape == (2,)
    # at_labels has the offset; without it the out-of-fold prediction is that of the fold's fit.
    again = DirectEstimator(data, covariates="auto")
    again.fit_and_estimate()
    np.testing.assert_allclose(plain, again.predictor_.at_labels, atol=1e-12)
    assert np.abs(predictor.at_labels - plain).max() > 0.01


def test_slopes_are_those_of_a_ridge_with_the_likeliest_penalty() -> None:
    rng = np.random.default_rng(1)
    for n, d in ((60, 8), (20, 50)):
        x = rng.normal(size=(n, d))
        y = x[:, 0] - 0.5 * x[:, 1] + rng.normal(size=n)
        centred, level = x - x.mean(axis=0), y - y.mean()

        def loss(ratio: float, x: np.ndarray = centred, y: np.ndarray = level) -> float:
            """Minus twice the restricted log-likelihood, from the covariance itself."""
            n = len(y)
            base = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
            cov = base.T @ (np.eye(n) + ratio * x @ x.T) @ base
            z = base.T @ y
            quadratic = float(z @ np.linalg.solve(cov, z))
            return float(np.linalg.slogdet(cov)[1] + (n - 1) * np.log(quadratic))

        grid = np.concatenate([[0.0], 2.0 ** np.arange(-12.0, 7.0)])
        best = grid[int(np.argmin([loss(ratio) for ratio in grid]))]
        assert best > 0
        want = np.linalg.solve(centred.T @ centred + np.eye(d) / best, centred.T @ level)
        np.testing.assert_allclose(ridge_slopes(x, y), want, atol=1e-8)


def test_constant_embeddings_and_constant_residuals_give_no_slopes() -> None:
    x = np.ones((10, 3))
    assert not ridge_slopes(x, np.arange(10.0)).any()
    assert not ridge_slopes(np.random.default_rng(0).normal(size=(10, 3)), np.ones(10)).any()


def test_a_result_says_what_was_tried_and_what_is_used(model: Path) -> None:
    found = {}
    for effect in (0.0, 1.0):
        result = analyze_dataset(_data(effect), covariates="auto", text_model=model)
        (line,) = [f for f in result.findings if f.code == "automatic-covariates"]
        found[effect] = line
        assert result.diagnostics["covariates"][-1]["columns"] == ["text (tiny)"]
    assert "nothing beside the score; tried and not used: text (tiny)" in found[0.0].message
    assert "uses text (tiny) beside the score" in found[1.0].message
    assert found[1.0].details["used"] == ["text (tiny)"]


def test_a_borrowed_value_does_not_use_the_text(model: Path) -> None:
    data = _data(1.0)
    own = data.policy.codes == data.policy.names.index("b")
    hidden = data.with_columns(oracle_label=np.where(own, np.nan, data.oracle_label))
    plain = DirectEstimator(hidden).fit_and_estimate()
    auto = DirectEstimator(hidden, covariates="auto", text_model=model).fit_and_estimate()
    at = plain.policies.index("b")
    assert "b" in auto.metadata["borrowed"]
    assert plain.estimates[at] == auto.estimates[at]
    assert plain.estimates[1 - at] != auto.estimates[1 - at]


def test_labels_of_a_calibration_file_teach_the_text_too(model: Path) -> None:
    rng = np.random.default_rng([4, 11])
    elsewhere, _ = hedged(rng, 1.0, labels=100)
    elsewhere = elsewhere.select(np.flatnonzero(elsewhere.is_labelled)).with_columns(
        prompt_id=[f"other{i}" for i in range(200)]
    )
    data = _data(1.0, labels=12)
    alone = DirectEstimator(data, covariates="auto", text_model=model).fit_and_estimate()
    taught = DirectEstimator(
        data, calibration_data=[elsewhere], covariates="auto", text_model=model
    ).fit_and_estimate()
    assert taught.diagnostics["covariates"][-1]["used"]
    assert taught.standard_errors.mean() < alone.standard_errors.mean()


def test_an_embedding_is_the_mean_of_the_vectors_of_its_words(model: Path) -> None:
    texts = ["word001 word002", "word002", "word001", "", "unheard of"]
    found = embed(Strings(texts), model)
    np.testing.assert_allclose(found[0], (found[1] + found[2]) / 2, atol=1e-6)
    assert not found[3:].any()


def test_no_model_is_ever_downloaded(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    import huggingface_hub

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a download was tried")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    with pytest.raises(CJEError, match="text_model is not a folder"):
        DirectEstimator(
            _data(0.0), covariates="auto", text_model="minishlab/potion-base-8M"
        ).fit_and_estimate()
    DirectEstimator(_data(0.0), covariates="auto", text_model=model).fit_and_estimate()


def test_wrong_folders_and_missing_texts_are_refused_with_the_remedy(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _data(0.0)
    with pytest.raises(CJEError, match=r"model2vec cannot read.*config\.json"):
        DirectEstimator(data, covariates="auto", text_model=tmp_path).fit_and_estimate()
    with pytest.raises(CJEError, match="text_model is for automatic covariates"):
        DirectEstimator(data, text_model=model)
    bare = Dataset.from_arrays(
        prompt_id=data.prompt_id, policy=data.policy, judge_score=data.judge_score,
        oracle_label=data.oracle_label,
    )  # fmt: skip
    with pytest.raises(CJEError, match="needs the text of every response"):
        DirectEstimator(bare, covariates="auto", text_model=model).fit_and_estimate()
    monkeypatch.setitem(sys.modules, "model2vec", None)
    folder = tmp_path / "elsewhere"  # not in the cache of loaded models
    folder.mkdir()
    with pytest.raises(MissingExtraError, match=r"causal-judge\[text\]"):
        DirectEstimator(data, covariates="auto", text_model=folder).fit_and_estimate()


def test_the_command_tries_the_text_and_prints_a_line_about_it(
    tmp_path: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, file = _data(1.0), tmp_path / "rows.jsonl"
    rows = zip(
        data.prompt_id.decode(), data.policy.decode(), data.judge_score.tolist(),
        data.oracle_label.tolist(), data.response or (), strict=True,
    )  # fmt: skip
    file.write_text(
        "\n".join(
            json.dumps({"prompt_id": p, "policy": v, "judge_score": s, "response": r}
                       | ({} if np.isnan(y) else {"oracle_label": y}))
            for p, v, s, y, r in rows
        ),
        encoding="utf-8",
    )  # fmt: skip
    command = ["analyze", str(file), "--covariate", "auto", "--text-model", str(model)]
    monkeypatch.setattr(sys, "argv", ["cje", *command, "--judge-scale", "0-1"])
    with pytest.raises(SystemExit):
        main()
    said = " ".join(capsys.readouterr().out.split())
    assert "the prediction of the labels uses text (tiny) beside the score" in said
