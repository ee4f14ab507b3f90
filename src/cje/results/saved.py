"""The file format of an `EstimationResult`: JSON, versioned, influence packed exactly.

Besides what loading needs, a file holds the answers, for readers without this package:
``table`` (single and joint limits), ``differences`` (with adjusted p-values, intervals and
verdicts) and ``best``. A result saved without its influence matrix is loaded from them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cje.checks import is_number
from cje.errors import CJEError
from cje.hints import by_interface
from cje.inference import (
    LABELS,
    SAMPLE_LABELS,
    SAMPLING,
    CalibrationCurve,
    Component,
    Finding,
    InfluenceEstimate,
)
from cje.results.comparison import check_margin
from cje.results.kept import KeptAnswers
from cje.results.result import EstimationResult

__all__ = ["FORMAT", "VERSION", "dumps", "loads", "read", "write"]

FORMAT, VERSION = "cje-result", 3
_READABLE = (2, 3)  # version 2 had separate fields for the sources of uncertainty

# A file is foreign data: all that a wrong type, shape, number or code in it can raise.
_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, zlib.error)


def dumps(result: EstimationResult, *, influence: bool = True) -> str:
    """The result as JSON text; NaN and infinity are refused, never written."""
    whole = influence and result.kept is None  # a result loaded without the matrix cannot write it
    content = {"format": FORMAT, "version": VERSION, **_result_dict(result, whole)}
    try:
        return json.dumps(content, allow_nan=False, indent=1, default=_plain)
    except ValueError as error:
        raise CJEError(
            "the result holds a number that JSON cannot represent", value=str(error)
        ) from error


def loads(text: str) -> EstimationResult:
    """The inverse of `dumps`."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CJEError("not a saved result: the text is not JSON", value=str(error)) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CJEError("not a saved result", hint="files written by result.to_json(path) only")
    if content.get("version") not in _READABLE:
        raise CJEError(
            "this result was saved in a format version this release cannot read",
            value=content.get("version"),
            hint=f"this release reads versions {' and '.join(map(str, _READABLE))}",
        )
    try:
        result = _result_from(content)
        # Built once here, so that a damaged file is refused on reading and not inside a report.
        result.summary()
        result.report_parts()
        return result
    except _DAMAGE as error:
        raise CJEError(
            "the saved result is incomplete or damaged",
            value=error,
            hint=f"save it again with {_saving()}",
        ) from error


def write(result: EstimationResult, path: str | Path | None, *, influence: bool = True) -> str:
    """The text of `dumps`, written to `path` where given."""
    text = dumps(result, influence=influence)
    if path is not None:
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CJEError(
                f"cannot write the result: {error.strerror or error}",
                where=str(path),
                hint="give a file in an existing folder with write permission",
            ) from error
    return text


def read(source: str | Path) -> EstimationResult:
    """The inverse of `write`: from a path, or from the text itself."""
    if isinstance(source, Path) or not source.lstrip().startswith("{"):
        try:
            source = Path(source).read_text(encoding="utf-8")
        except OSError as error:
            raise CJEError(
                f"cannot read the result: {error.strerror or error}", where=str(source)
            ) from error
        except ValueError as error:  # not text, or not a path
            raise CJEError(
                "not a saved result: the file is not UTF-8 text",
                where=str(source)[:200],
                hint=f"give a file written by {_saving()}",
            ) from error
    return loads(source)


def _result_dict(result: EstimationResult, influence: bool) -> dict[str, Any]:
    refused = result.refused_values()
    values = _estimate_dict(result.influence, influence)
    diagnostics = {k: v for k, v in result.diagnostics.items() if k != "refused_values"}
    if refused:  # the only place with the number of a refused value
        diagnostics["refused_values"] = refused
        values["values"] = [
            None if name in refused else value
            for name, value in zip(values["names"], values["values"], strict=True)
        ]
        if "covariance" in values:
            whole, names = values["covariance"], values["names"]
            out = [name in refused for name in names]
            values["covariance"] = [
                [None if out[i] or out[j] else v for j, v in enumerate(row)]
                for i, row in enumerate(whole)
            ]
            for i, name in enumerate(names):
                if out[i]:
                    refused[name]["covariance"] = whole[i]
    return {
        "estimator": result.estimator,
        "policies": list(result.policies),
        "baseline": result.baseline,
        "table": result.rows(),
        "differences": result.differences(),
        "best": None if result.cells is not None else result.best_policy().to_dict(),
        "values": values,
        "diagnostics": diagnostics,
        "metadata": dict(result.metadata),
        "findings": [finding.to_dict() for finding in result.findings],
        "curves": {name: curve.to_dict() for name, curve in result.curves.items()},
        "subgroups": {k: _result_dict(part, influence) for k, part in result.subgroups.items()},
    }


def _with_refused(values: dict[str, Any], computed: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with the computed values of refused policies in their places."""
    names = list(values["names"])
    found = dict(values)
    found["values"] = [
        computed[name]["estimate"] if value is None else value
        for name, value in zip(names, values["values"], strict=True)
    ]
    if "covariance" in values:
        found["covariance"] = [
            [
                v
                if v is not None
                else (
                    computed[a]["covariance"][j] if a in computed else computed[b]["covariance"][i]
                )
                for j, (b, v) in enumerate(zip(names, row, strict=True))
            ]
            for i, (a, row) in enumerate(zip(names, values["covariance"], strict=True))
        ]
    return found


def _result_from(content: dict[str, Any]) -> EstimationResult:
    diagnostics = dict(content["diagnostics"])
    computed = diagnostics.pop("refused_values", {})
    estimate = _estimate_from(_with_refused(content["values"], computed))
    metadata = _metadata_from(content["metadata"], len(estimate))
    kept = None
    if "covariance" in content["values"]:
        kept = KeptAnswers.from_dict(content, float(metadata.get("level", 0.95)))
        if set(kept.rows) != set(estimate.names):
            raise ValueError("the table and the values have different names")
    return EstimationResult(
        str(content["estimator"]),
        estimate,
        diagnostics,
        metadata,
        tuple(Finding.from_dict(item) for item in content["findings"]),
        {name: CalibrationCurve.from_dict(item) for name, item in content["curves"].items()},
        {name: _result_from(item) for name, item in content["subgroups"].items()},
        kept=kept,
    )


def _metadata_from(metadata: Any, n_names: int) -> dict[str, Any]:
    """The metadata; fields that the answers rely on are checked."""
    found = dict(metadata)
    if not 0.0 < float(found.get("level", 0.95)) < 1.0:
        raise ValueError("the level must lie between 0 and 1")
    check_margin(found.get("margin"))
    for key in ("n_rows", "n_labels"):
        counts = found.get(key, {})
        if not isinstance(counts, Mapping):
            raise ValueError(f"{key} is not a mapping")
        if not all(count is None or is_number(count) for count in counts.values()):
            raise ValueError(f"{key} holds something that is not a count")
    if not isinstance(found.get("borrowed", []), list):
        raise ValueError("borrowed is not a list")
    cells = found.get("cells")
    if cells is not None:
        parts = [(str(c["policy"]), str(c["column"]), str(c["level"])) for c in cells]
        if len(parts) != n_names:
            raise ValueError("one cell per value")
    return found


def _estimate_dict(estimate: InfluenceEstimate, influence: bool) -> dict[str, Any]:
    bounds = None
    if estimate.bounds is not None:
        bounds = [[_finite(v) for v in pair] for pair in np.asarray(estimate.bounds).tolist()]
    common = {"names": list(estimate.names), "values": estimate.values.tolist(), "bounds": bounds}
    if not influence:
        df = float(estimate.degrees_of_freedom().min())
        return common | {"covariance": estimate.covariance().tolist(), "df": _finite(df)}
    return common | {
        "components": [_component_dict(part) for part in estimate.components],
        "clusters": None if estimate.clusters is None else list(estimate.clusters),
        "trials": None
        if estimate.trials is None
        else [_finite(v) for v in estimate.trials.tolist()],
        "shrinkage": None if estimate.shrinkage is None else estimate.shrinkage.tolist(),
    }


def _component_dict(part: Component) -> dict[str, Any]:
    return {
        "kind": part.kind,
        "influence": None if part.influence is None else _packed(part.influence),
        "covariance": None if part.covariance is None else part.covariance.tolist(),
        "df": _finite(part.df),
        "spread": None if part.spread is None else _packed(part.spread),
        "label_variance": None if part.label_variance is None else _packed(part.label_variance),
    }


def _component_from(data: dict[str, Any]) -> Component:
    return Component(
        str(data["kind"]),
        None if data["influence"] is None else _unpacked(data["influence"]),
        data["covariance"],
        np.inf if data["df"] is None else float(data["df"]),
        None if data["spread"] is None else _unpacked(data["spread"]),
        None if data.get("label_variance") is None else _unpacked(data["label_variance"]),
    )


def _version_2_components(data: dict[str, Any]) -> list[Component]:
    """The components of a file whose fields were one per source."""
    kind = LABELS if data["labels_apart"] else SAMPLE_LABELS
    df = np.inf if data["extra_df"] is None else float(data["extra_df"])
    spread = None if data["pieces"] is None else _unpacked(data["pieces"])
    found = [Component(SAMPLING, _unpacked(data["influence"]))]
    if data["label_influence"] is not None:
        found.append(Component(kind, _unpacked(data["label_influence"]), df=df, spread=spread))
    if data["extra_covariance"] is not None:
        found.append(Component(kind, covariance=data["extra_covariance"], df=df))
    return found


def _estimate_from(data: dict[str, Any]) -> InfluenceEstimate:
    bounds: Any = data["bounds"]
    if bounds is not None:
        limits = (-np.inf, np.inf)
        bounds = np.array(
            [[lim if v is None else v for v, lim in zip(p, limits, strict=True)] for p in bounds],
            dtype=np.float64,
        )
        if not (bounds[:, 0] <= bounds[:, 1]).all():
            raise ValueError("a lower bound lies above its upper bound")
    if "covariance" in data:
        return InfluenceEstimate.from_covariance(
            data["names"], data["values"], data["covariance"], df=data["df"], bounds=bounds
        )
    if "components" in data:
        components = [_component_from(item) for item in data["components"]]
    else:
        components = _version_2_components(data)
    return InfluenceEstimate(
        tuple(data["names"]),
        np.array(data["values"], dtype=np.float64),
        tuple(components),
        None if data["clusters"] is None else tuple(data["clusters"]),
        bounds,
        None if data.get("trials") is None else np.array(data["trials"], dtype=np.float64),
        data.get("shrinkage"),
    )


def _packed(array: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, Any]:
    raw = np.ascontiguousarray(array, dtype="<f8").tobytes()
    return {"shape": list(array.shape), "zlib_f8": base64.b85encode(zlib.compress(raw, 1)).decode()}


def _unpacked(data: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    raw = zlib.decompress(base64.b85decode(data["zlib_f8"]))
    return np.frombuffer(raw, dtype="<f8").reshape(data["shape"]).astype(np.float64)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays as plain types; anything else is an error."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    raise CJEError("the result holds a value that JSON cannot represent", value=value)


def _saving() -> str:
    return by_interface("result.to_json(path)", "cje analyze --save FILE")
