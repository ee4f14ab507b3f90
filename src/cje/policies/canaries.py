"""Checks on log-probs before any estimate: pure functions, arrays in, a `Finding` out.

Each returns None if nothing is wrong. They detect a failure without symptoms: without teacher
forcing, every log-ratio is 0, every weight is 1, and each target policy seems to equal the logging
policy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from cje.checks import LARGEST, finite_array, n_rows
from cje.errors import CJEError
from cje.findings import Finding, Severity
from cje.findings.running import (
    GENERATED_VS_RESCORED,
    INSIDE_TOKEN,
    REPLICATE_NOISE,
    SCORING_NOISE,
    SELF_RATIO,
)
from cje.findings.weights import IDENTICAL_WEIGHTS
from cje.kernels.arrays import FloatArray
from cje.kernels.weights import effective_sample_size

__all__ = [
    "generated_vs_rescored_canary",
    "identical_weights_canary",
    "inside_token_canary",
    "replicate_noise_canary",
    "scoring_noise_canary",
    "self_ratio_canary",
]


def _finite(name: str, values: ArrayLike, ndim: int) -> FloatArray:
    """Log-probs, at least one."""
    n_rows(name, values)
    return finite_array(name, values, ndim=ndim, largest=LARGEST)


def _same_rows(**columns: FloatArray) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise CJEError(f"{' and '.join(columns)} differ in length", value=tuple(lengths.values()))


def _repeats(replicates: ArrayLike) -> FloatArray:
    """Repeated scores, at least two per response."""
    x = _finite("replicates", replicates, 2)
    if x.shape[1] < 2:
        raise CJEError("replicate noise needs at least two repeats", value=x.shape)
    return x


def _ess_share(log_ratios: FloatArray) -> float:
    """Kish's effective sample size over n, computed on the log scale."""
    return effective_sample_size(np.exp(log_ratios - log_ratios.max())) / len(log_ratios)


def self_ratio_canary(
    logged: ArrayLike,
    rescored: ArrayLike,
    *,
    max_mean_shift: float = SELF_RATIO["mean_shift"],
    min_ess: float = SELF_RATIO["ess_share"],
) -> Finding | None:
    """The logging policy scored twice must give ratios near 1 and an ESS near n.

    Parameters
    ----------
    logged, rescored : array (n,)
        log p(response | context) of the logging policy as stored, and scored again.
    """
    a, b = _finite("logged", logged, 1), _finite("rescored", rescored, 1)
    _same_rows(logged=a, rescored=b)
    ratio = b - a
    shift, ess = float(np.abs(ratio).mean()), _ess_share(ratio)
    if shift <= max_mean_shift and ess >= min_ess:
        return None
    return SELF_RATIO.finding(mean_abs_log_ratio=shift, ess_share=ess, n=len(a))


def generated_vs_rescored_canary(
    generated: ArrayLike,
    rescored: ArrayLike,
    n_tokens: ArrayLike,
    *,
    per_token: float = GENERATED_VS_RESCORED["per_token"],
) -> Finding | None:
    """Log-probs reported while writing must agree with those of scoring the same text."""
    a, b = _finite("generated", generated, 1), _finite("rescored", rescored, 1)
    count = np.maximum(_finite("n_tokens", n_tokens, 1), 1.0)
    _same_rows(generated=a, rescored=b, n_tokens=count)
    gap = np.abs(a - b) / count
    share = float((gap > per_token).mean())
    if float(np.median(gap)) <= per_token and share <= GENERATED_VS_RESCORED["share"]:
        return None
    return GENERATED_VS_RESCORED.finding(
        severity=_severity(share > GENERATED_VS_RESCORED["refuse_share"]),
        per_token=per_token,
        share_over=share,
        n=len(a),
        median_gap_per_token=float(np.median(gap)),
    )


def _severity(refuse: bool) -> Severity:
    return Severity.REFUSE if refuse else Severity.WARNING


def replicate_noise_canary(
    replicates: ArrayLike, *, max_sd: float = REPLICATE_NOISE["sd"]
) -> Finding | None:
    """Scoring one response several times should give the same number.

    Parameters
    ----------
    replicates : array (n, R)
        R repeated scores of n responses.
    """
    x = _repeats(replicates)
    sd = float(np.sqrt(x.var(axis=1, ddof=1).mean()))
    if sd <= max_sd:
        return None
    return REPLICATE_NOISE.finding(
        severity=_severity(sd > REPLICATE_NOISE["refuse_sd"]),
        sd=sd,
        factor=float(np.exp(min(sd, 700.0))),
        details={"sd": sd, "repeats": x.shape[1]},
    )


def scoring_noise_canary(
    replicates: ArrayLike, log_ratios: ArrayLike, *, max_share: float = SCORING_NOISE["share"]
) -> Finding | None:
    r"""Numerical noise must be small against the spread of the log-ratios.

    A log-prob with noise of variance s^2 gives a log-ratio with noise of variance 2 s^2, and
    multiplies the weights by a factor with mean exp(s^2).

    Parameters
    ----------
    replicates : array (n, R)
        R repeated scores of n responses under one policy.
    log_ratios : array (m,)
        log p_target - log p_logging of the data.
    """
    x, ratios = _repeats(replicates), _finite("log_ratios", log_ratios, 1)
    variance = float(x.var(axis=1, ddof=1).mean())
    noise, spread = (2.0 * variance) ** 0.5, float(ratios.std())
    if noise <= max_share * spread:
        return None
    share = noise / spread if spread > 0.0 else float(LARGEST)
    return SCORING_NOISE.finding(
        severity=_severity(share > SCORING_NOISE["refuse_share"]),
        noise=noise,
        spread=spread,
        share=share,
        factor=float(np.exp(min(variance, 700.0))),
    )


def inside_token_canary(inside: ArrayLike) -> Finding | None:
    """Count the responses whose score starts inside the prompt.

    Parameters
    ----------
    inside : array (n,)
        Number of a row's scores that start at a token that also holds the end of the prompt.
    """
    counts = _finite("inside", inside, 1)
    rows = int((counts > 0).sum())
    if rows == 0:
        return None
    return INSIDE_TOKEN.finding(rows=rows, n=len(counts))


def identical_weights_canary(
    logged: ArrayLike,
    targets: ArrayLike,
    names: Sequence[str],
    same_as_logging: Sequence[bool],
) -> list[Finding]:
    """Identical weights mean that the scoring step was skipped, unless it is an A/A check.

    Parameters
    ----------
    logged : array (n,)
        log p of the logging policy.
    targets : array (n, K)
        log p of each target policy.
    same_as_logging : sequence of bool
        Whether each target is configured exactly like the logging policy.
    """
    base, matrix = _finite("logged", logged, 1), _finite("targets", targets, 2)
    sized = isinstance(names, Sequence) and isinstance(same_as_logging, Sequence)
    if not sized or isinstance(names, str) or len(same_as_logging) != len(names):
        raise CJEError("names and same_as_logging must be lists of one length", value=names)
    if matrix.shape != (len(base), len(names)):
        raise CJEError("targets must have one row per response and one column per policy")
    findings = []
    for k, (name, same) in enumerate(zip(names, same_as_logging, strict=True)):
        ratio = matrix[:, k] - base
        if same or len(base) < 2 or np.ptp(ratio) > IDENTICAL_WEIGHTS["spread"]:
            continue
        details = {"log_ratio": float(ratio[0]), "log_prob": float(matrix[0, k])}
        findings.append(
            IDENTICAL_WEIGHTS.finding(
                name, log_ratio=details["log_ratio"], n=len(base), details=details
            )
        )
    return findings
