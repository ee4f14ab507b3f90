"""Calibrate a whole `Dataset`, or a list of dicts, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cje.calibration.rewards.judge import JudgeCalibrator
from cje.calibration.rewards.result import CalibrationResult
from cje.data.dataset import Dataset
from cje.errors import CJEError
from cje.kernels.arrays import FloatArray

__all__ = ["calibrate_dataset", "calibrate_from_raw_data"]


def calibrate_dataset(
    dataset: Dataset,
    judge_field: str = "judge_score",
    oracle_field: str = "oracle_label",
    calibration_mode: str = "auto",
    enable_cross_fit: bool = True,
    n_folds: int = 5,
    random_seed: int = 42,
    use_response_length: bool = False,
    covariate_names: Sequence[str] = (),
) -> tuple[Dataset, CalibrationResult]:
    """Learn judge score -> oracle label on the labelled rows and reward every row.

    Parameters
    ----------
    dataset : Dataset
        Where it has a `label_propensity`, labelled rows are weighted by its inverse.
    judge_field, oracle_field : str
        ``judge_score`` and ``oracle_label``, or the name of a covariate column to use instead.
    calibration_mode : {"auto", "monotone", "two_stage"}
    enable_cross_fit : bool
        Keep one model per prompt fold, for out-of-fold rewards (`JudgeCalibrator.predict_oof`).
    n_folds, random_seed : int
        The folds, from `cje.data.folds`.
    use_response_length : bool
        Add the response's length in characters to the first stage.
    covariate_names : sequence of str
        Further columns of ``dataset.covariates`` for the first stage.

    Returns
    -------
    calibrated : Dataset
        With `rewards`, and ``metadata["calibration_info"]``: the selected mode, why, and how well
        it fits.
    result : CalibrationResult

    Raises
    ------
    CJEError
        ``judge_field="reward"``, an unknown column, a missing score, no labels.
    """
    refuse_reward_field(judge_field)
    if not isinstance(dataset, Dataset):
        raise CJEError(
            "dataset must be a Dataset",
            value=type(dataset).__name__,
            hint="read files and frames with cje.read(...); a list of dicts goes to "
            "calibrate_from_raw_data",
        )
    scores = _column(dataset, judge_field)
    labels = _column(dataset, oracle_field)
    missing = np.isnan(scores)
    if missing.any():
        raise CJEError(
            f"{int(missing.sum())} rows have no {judge_field}",
            where=f"row {int(np.argmax(missing))}",
            hint="score them, or drop them: dataset.select(~np.isnan(dataset.judge_score))",
        )
    names = (["response_length"] if use_response_length else []) + list(covariate_names)
    covariates = np.column_stack([_covariate(dataset, name) for name in names]) if names else None
    shared: dict[str, Any] = {
        "covariates": covariates,
        "inclusion_probability": _known_propensity(dataset, labels),
    }
    calibrator = JudgeCalibrator(calibration_mode, random_seed, n_folds)
    if enable_cross_fit:
        result = calibrator.fit_cv(
            scores, labels, n_folds=n_folds, prompt_ids=dataset.prompt_id, **shared
        )
    else:
        result = calibrator.fit_transform(scores, labels, **shared)
    info = _info(result, judge_field, oracle_field, names, enable_cross_fit, n_folds, random_seed)
    calibrated = dataset.with_columns(rewards=result.calibrated_scores)
    return calibrated.with_metadata(calibration_info=info), result


def calibrate_from_raw_data(
    data: Sequence[Mapping[str, Any]],
    judge_field: str = "judge_score",
    oracle_field: str = "oracle_label",
    reward_field: str = "reward",
    calibration_mode: str = "auto",
    random_seed: int = 42,
) -> tuple[list[dict[str, Any]], CalibrationResult]:
    """The same for a list of dicts: new dicts with `reward_field` added, inputs untouched.

    A field is looked up in the record, then in its ``metadata``. Records with a ``prompt_id`` are
    split into folds by it.

    Examples
    --------
    >>> rows = [{"judge_score": i / 40, "oracle_label": i / 80} for i in range(20)]
    >>> rows += [{"judge_score": i / 40, "oracle_label": None} for i in range(20)]
    >>> calibrated, result = calibrate_from_raw_data(rows)
    >>> result.n_oracle, round(calibrated[1]["reward"], 4), "reward" in rows[0]
    (20, 0.0125, False)
    """
    refuse_reward_field(judge_field)
    if not isinstance(data, Sequence) or len(data) == 0:
        raise CJEError("No records to calibrate", value=type(data).__name__)
    for i, record in enumerate(data):
        if not isinstance(record, Mapping):
            raise CJEError("A record must be a dict", where=f"record {i}", value=record)
    scores = np.array([_number(record, judge_field, i) for i, record in enumerate(data)])
    missing = np.isnan(scores)
    if missing.any():
        raise CJEError(
            f"Judge field '{judge_field}' not found in record {int(np.argmax(missing))}",
            hint="give every record a score, or name the right field with judge_field=",
        )
    labels = np.array([_number(record, oracle_field, i) for i, record in enumerate(data)])
    calibrator = JudgeCalibrator(calibration_mode, random_seed)
    if all("prompt_id" in record for record in data) and np.sum(~np.isnan(labels)) >= 20:
        ids = [str(record["prompt_id"]) for record in data]
        result = calibrator.fit_cv(scores, labels, prompt_ids=ids)
    else:
        result = calibrator.fit_transform(scores, labels)
    rewards = result.calibrated_scores.tolist()
    return [{**r, reward_field: v} for r, v in zip(data, rewards, strict=True)], result


def refuse_reward_field(judge_field: str) -> None:
    """The founding document's guard: raw scores are not read from where calibrated ones go."""
    if not isinstance(judge_field, str):
        raise CJEError("a field name must be text", value=judge_field)
    if judge_field in ("reward", "rewards"):
        raise CJEError(
            f"Judge field '{judge_field}' not allowed",
            hint="rewards are what calibration writes; use a different field name in metadata "
            "(e.g., 'judge_score')",
        )


def _column(dataset: Dataset, name: str) -> FloatArray:
    if not isinstance(name, str):
        raise CJEError("a column name must be text", value=name)
    if name == "judge_score":
        return dataset.judge_score
    if name == "oracle_label":
        return dataset.oracle_label
    if name in dataset.covariates:
        return dataset.covariates[name]
    raise CJEError(
        f"The data set has no column '{name}'",
        hint=f"one of judge_score, oracle_label, {', '.join(dataset.covariates) or '(no others)'}",
    )


def _covariate(dataset: Dataset, name: str) -> FloatArray:
    if name == "response_length" and name not in dataset.covariates:
        if dataset.response is None:
            raise CJEError(
                "use_response_length needs the responses",
                hint="read a file with a 'response' field, or add a response_length covariate",
            )
        return dataset.response.lengths().astype(np.float64)
    column = _column(dataset, name)
    bad = ~np.isfinite(column)
    if bad.any():
        raise CJEError(f"Covariate '{name}' is missing", where=f"row {int(np.argmax(bad))}")
    return column


def _known_propensity(dataset: Dataset, labels: FloatArray) -> FloatArray | None:
    """Labelling probabilities, where every labelled row has one; the rest do not matter."""
    propensity = dataset.label_propensity
    if propensity is None or np.isnan(propensity[~np.isnan(labels)]).any():
        return None
    return np.where(np.isnan(propensity), 1.0, propensity)


def _number(record: Mapping[str, Any], field: str, row: int) -> float:
    """A field as a float, NaN where absent; judge scores may come as {"mean": ...}."""
    metadata = record.get("metadata")
    value = record.get(field)
    if value is None and isinstance(metadata, Mapping):
        value = metadata.get(field)
    if isinstance(value, Mapping):
        value = value.get("mean")
    value = getattr(value, "mean", value) if not isinstance(value, int | float | str) else value
    if value is None:
        return float("nan")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise CJEError(f"{field} is not a number", where=f"record {row}", value=value) from None
    if not np.isfinite(number):
        raise CJEError(f"{field} is not finite", where=f"record {row}", value=value)
    return number


def _info(
    result: CalibrationResult,
    judge_field: str,
    oracle_field: str,
    covariates: list[str],
    enable_cross_fit: bool,
    n_folds: int,
    random_seed: int,
) -> dict[str, Any]:
    return {
        "selected_mode": result.selected_mode,
        "reason": result.selection.reason,
        "selection": result.selection.to_dict(),
        "rmse": result.calibration_rmse,
        "coverage_at_01": result.coverage_at_01,
        "r2": result.r2,
        "oof_rmse": result.oof_rmse,
        "oof_coverage_at_01": result.oof_coverage_at_01,
        "oof_r2": result.oof_r2,
        "n_oracle": result.n_oracle,
        "oracle_coverage": result.oracle_coverage,
        "judge_field": judge_field,
        "oracle_field": oracle_field,
        "covariates": covariates,
        "enable_cross_fit": enable_cross_fit,
        "n_folds": n_folds,
        "random_seed": random_seed,
        "findings": [finding.to_dict() for finding in result.findings],
    }
