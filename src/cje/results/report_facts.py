"""Options, versions and fingerprints of a result: the last part of a report."""

from __future__ import annotations

import hashlib
import platform
import zlib
from typing import Any

import numpy as np

from cje._version import __version__
from cje.report import Facts
from cje.results.estimator_names import DESCRIPTIONS
from cje.results.result import EstimationResult

__all__ = ["facts_part"]


def facts_part(result: EstimationResult) -> Facts:
    meta = result.metadata
    description = DESCRIPTIONS.get(result.estimator)
    items = [
        ("estimator", f"{result.estimator}: {description}" if description else result.estimator)
    ]
    for key in ("level", "margin", "seed", "scale", "calibration_mode", "label_uncertainty"):
        if meta.get(key) is not None:
            items.append((key.replace("_", " "), _plain(meta[key])))
    mode = result.diagnostics.get("calibration_mode")
    if mode is not None and "calibration_mode" not in meta:
        items.append(("calibration mode", str(mode)))
    for key, value in (meta.get("config") or {}).items():
        items.append((str(key), _plain(value)))
    for policy, check in (result.diagnostics.get("labelling") or {}).items():
        if check["checked"]:
            items.append((f"labelling of {policy} checked against", ", ".join(check["checked"])))
    for role, notes in meta.get("reading", {}).items():
        items.append((f"how the {role} data were read", "\n".join(notes)))
    items.append(("versions", f"cje {__version__}, NumPy {np.__version__}, "
                              f"Python {platform.python_version()}"))  # fmt: skip
    items.append(("fingerprint of the result", _result_fingerprint(result)))
    if result.evidence is not None:
        items.append(("fingerprint of the data", _data_fingerprint(result)))
    items.append(
        ("citation", f"The CJE authors. CJE: calibrated judge evaluation, version {__version__}.")
    )
    return Facts("How it was made", tuple(items))


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " to ".join(map(str, value)) if len(value) == 2 else ", ".join(map(str, value))
    return str(value)


def _result_fingerprint(result: EstimationResult) -> str:
    """SHA-256 of names, values and covariance."""
    digest = hashlib.sha256("\x00".join(result.policies).encode("utf-8", "surrogatepass"))
    digest.update(np.ascontiguousarray(result.estimates, dtype="<f8").tobytes())
    digest.update(np.ascontiguousarray(result.influence.covariance(), dtype="<f8").tobytes())
    return digest.hexdigest()[:32]


def _data_fingerprint(result: EstimationResult) -> str:
    """SHA-256 of the policies' names and of a CRC-32 of each column: it identifies a data set.

    It does not protect against forgery: a checksum of a large table is ten times faster than a
    cryptographic hash of it.
    """
    assert result.evidence is not None
    data = result.evidence.dataset
    digest = hashlib.sha256("\x00".join(data.policies).encode("utf-8", "surrogatepass"))
    for column in (data.judge_score, data.oracle_label, data.prompt_id.codes, data.policy.codes):
        checksum = zlib.crc32(np.ascontiguousarray(column).data)
        digest.update(f"{len(column)}:{checksum};".encode())
    return digest.hexdigest()[:32]
