"""Coverage of the survival intervals: competing risks, delayed entry, clusters, strata, pairs.

``python -m benchmarks.survival_coverage`` prints the share of nominal 95% intervals that hold the
truth, at 2,000 repetitions per design (``--quick``: 100). Truths are exact integrals over the
simulated covariates' distribution, or the limit at 400,000 rows where censoring enters the
definition (Harrell's C).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from cje.survival import (
    brier_score,
    calibration_in_the_large,
    calibration_slope,
    compare_survival,
    d_calibration,
    harrell_c,
    index_of_prediction_accuracy,
    integrated_calibration_index,
    observed_expected_at_horizon,
    time_dependent_auc,
)

Hits = Iterator[tuple[str, bool]]
FIRST_SEED = 50_000


def _log_risk(rng: np.random.Generator, n: int) -> np.ndarray:
    return 0.7 * rng.normal(size=n)


def _incidence(eta: np.ndarray, t: float) -> np.ndarray:
    """Fine and Gray's model: a subdistribution hazard proportional in exp(eta)."""
    return 1 - (1 - 0.5 * -np.expm1(-t)) ** np.exp(eta)


def subdistribution_sample(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """eta, time, status (0 censored, 1 of interest, 2 competing)."""
    rng = np.random.default_rng(seed)
    eta = _log_risk(rng, n)
    last = 1 - 0.5 ** np.exp(eta)
    first = rng.random(n) < last
    u = rng.random(n) * last
    inner = (1 - (1 - u) ** np.exp(-eta)) / 0.5
    latent = np.where(first, -np.log1p(-np.minimum(inner, 1 - 1e-15)), rng.exponential(1.0, n))
    limit = rng.exponential(2.5, n)
    status = np.where(latent <= limit, np.where(first, 1, 2), 0)
    return eta, np.minimum(latent, limit), status


@cache
def _prediction_truths(t: float) -> dict[str, float]:
    """Brier score, IPA and AUC(t) of the true incidence."""
    f = np.sort(_incidence(_log_risk(np.random.default_rng(1), 400_000), t))
    brier, mean = float((f * (1 - f)).mean()), float(f.mean())
    below = np.cumsum(1 - f) - 0.5 * (1 - f)
    return {"Brier": brier, "IPA": 1 - brier / (mean * (1 - mean)),
            "AUC": float((f @ below) / (f.sum() * (1 - f).sum()))}  # fmt: skip


def competing(seed: int) -> Hits:
    """A perfect model of the cumulative incidence, n = 500, about 28% censored."""
    eta, time, status = subdistribution_sample(seed, 500)
    t, options = 1.0, {"cause": 1}
    survival = 1 - _incidence(eta, t)
    truth = _prediction_truths(t)
    y = (time, status, t)
    yield "O/E", 1.0 in observed_expected_at_horizon(survival, *y, **options).interval
    for method in ("pseudo", "conditional"):
        index = integrated_calibration_index(survival, *y, method=method, **options)
        yield f"ICI {method}", 0.0 in index.interval
        low, high = index.curve.low, index.curve.high
        yield f"curve {method}", bool(np.all((low <= index.curve.x) & (index.curve.x <= high)))
    slope = calibration_slope(eta, time, status, hazard="subdistribution", **options)
    yield "subdistribution slope", 1.0 in slope.interval
    yield "Brier", truth["Brier"] in brier_score(survival, *y, **options).interval
    yield "IPA", truth["IPA"] in index_of_prediction_accuracy(survival, *y, **options).interval
    yield "AUC", truth["AUC"] in time_dependent_auc(eta, *y, **options).interval


def cause_specific(seed: int) -> Hits:
    """Constant cause-specific hazards, n = 500."""
    rng = np.random.default_rng(seed)
    eta = _log_risk(rng, 500)
    first, second = 0.5 * np.exp(eta), 0.4 * np.exp(-0.5 * eta)
    latent = rng.exponential(1 / (first + second))
    kind = np.where(rng.random(500) < first / (first + second), 1, 2)
    limit = rng.exponential(2.5, 500)
    time, status = np.minimum(latent, limit), np.where(latent <= limit, kind, 0)
    yield "slope", 1.0 in calibration_slope(eta, time, status, cause=1).interval
    own = np.exp(-first * time)
    yield "O/E own time", 1.0 in calibration_in_the_large(own, status, cause=1).interval


def truncated_sample(seed: int, n: int) -> tuple[np.ndarray, ...]:
    """eta, entry, time, event: Weibull times, 60% enter late, some never; n rows are observed."""
    rng = np.random.default_rng(seed)
    eta = _log_risk(rng, 3 * n)
    latent = 2 * np.sqrt(rng.exponential(size=3 * n) * np.exp(-eta))
    entry = np.where(rng.random(3 * n) < 0.6, rng.uniform(0, 1.5, 3 * n), 0.0)
    limit = entry + rng.exponential(4.0, 3 * n)
    seen = np.flatnonzero(latent > entry)[:n]
    eta, latent, entry, limit = (a[seen] for a in (eta, latent, entry, limit))
    return eta, entry, np.minimum(latent, limit), latent <= limit


def _weibull(eta: np.ndarray, t: Any) -> np.ndarray:
    return np.exp(-((t / 2) ** 2) * np.exp(eta))


@cache
def _truncated_c() -> float:
    eta, entry, time, event = truncated_sample(2, 400_000)
    return float(harrell_c(eta, time, event, entry=entry))


def delayed_entry(seed: int) -> Hits:
    """A perfect model under delayed entry, n = 600."""
    eta, entry, time, event = truncated_sample(seed, 600)
    own = calibration_in_the_large(
        _weibull(eta, time), event, survival_at_entry=_weibull(eta, entry)
    )
    yield "O/E own time", 1.0 in own.interval
    survival = _weibull(eta, 1.5)
    at = observed_expected_at_horizon(survival, time, event, 1.5, entry=entry)
    yield "O/E at horizon", 1.0 in at.interval
    yield "slope", 1.0 in calibration_slope(eta, time, event, entry=entry).interval
    index = integrated_calibration_index(survival, time, event, 1.5, entry=entry)
    yield "ICI", 0.0 in index.interval
    low, high = index.curve.low, index.curve.high
    yield "curve", bool(np.all((low <= index.curve.x) & (index.curve.x <= high)))
    yield "C", _truncated_c() in harrell_c(eta, time, event, entry=entry).interval


@cache
def _plain_truths() -> dict[str, float]:
    rng = np.random.default_rng(3)
    eta = _log_risk(rng, 400_000)
    latent = 2 * np.sqrt(rng.exponential(size=len(eta)) * np.exp(-eta))
    limit = rng.exponential(4.0, len(eta))
    f = np.sort(1 - _weibull(eta, 1.5))
    below = np.cumsum(1 - f) - 0.5 * (1 - f)
    brier, mean = float((f * (1 - f)).mean()), float(f.mean())
    c = harrell_c(eta, np.minimum(latent, limit), latent <= limit)
    return {"C": float(c), "Brier": brier, "IPA": 1 - brier / (mean * (1 - mean)),
            "AUC": float((f @ below) / (f.sum() * (1 - f).sum()))}  # fmt: skip


def clusters(seed: int) -> Hits:
    """Five copies of each of 150 subjects, with `groups`."""
    rng = np.random.default_rng(seed)
    eta = _log_risk(rng, 150)
    latent = 2 * np.sqrt(rng.exponential(size=150) * np.exp(-eta))
    limit = rng.exponential(4.0, 150)
    time, event = np.minimum(latent, limit), latent <= limit
    subject = np.repeat(np.arange(150), 5)
    eta, time, event = eta[subject], time[subject], event[subject]
    truth, g = _plain_truths(), {"groups": subject}
    survival = _weibull(eta, 1.5)
    y = (time, event, 1.5)
    own = _weibull(eta, time)
    yield "O/E own time", 1.0 in calibration_in_the_large(own, event, **g).interval
    yield "O/E at horizon", 1.0 in observed_expected_at_horizon(survival, *y, **g).interval
    yield "slope", 1.0 in calibration_slope(eta, time, event, **g).interval
    yield "ICI", 0.0 in integrated_calibration_index(survival, *y, **g).interval
    yield "C", truth["C"] in harrell_c(eta, time, event, **g).interval
    yield "Brier", truth["Brier"] in brier_score(survival, *y, **g).interval
    yield "IPA", truth["IPA"] in index_of_prediction_accuracy(survival, *y, **g).interval
    yield "AUC", truth["AUC"] in time_dependent_auc(eta, *y, **g).interval
    yield "D-calibration", 0.0 in d_calibration(own, event, **g).interval


def strata(seed: int) -> Hits:
    """Four centres whose baselines and mean risks differ, n = 400."""
    rng = np.random.default_rng(seed)
    centre = rng.integers(0, 4, 400)
    eta = _log_risk(rng, 400) + 0.5 * centre
    rate = np.array([1.0, 0.2, 3.0, 0.5])[centre] * np.exp(eta)
    latent, limit = rng.exponential(1 / rate), rng.exponential(2.0, 400)
    time, event = np.minimum(latent, limit), latent <= limit
    yield "slope", 1.0 in calibration_slope(eta, time, event, strata=centre).interval


def pairs(seed: int) -> Hits:
    """Differences between a perfect model and: a noisy, an over-predicting, an equal one; n=500."""
    rng = np.random.default_rng(seed)
    n = 500
    eta = _log_risk(rng, n)
    latent = 2 * np.sqrt(rng.exponential(size=n) * np.exp(-eta))
    limit = rng.exponential(4.0, n)
    y = (np.minimum(latent, limit), latent <= limit)
    t, good = 1.5, _weibull(eta, 1.5)
    high = good**1.6
    twin = np.clip(good, 1e-9, 1 - 1e-9) ** np.exp(0.02 * rng.normal(size=n))
    for name, other, ici in (
        ("over-predicting", high, -float(np.abs(good - high).mean())),
        ("twin", twin, 0.0),
    ):
        result = compare_survival(good, other, y, horizons=[t])
        by_name = {d.name: d for d in result.differences}
        yield f"ICI difference, {name}", ici in by_name[f"ICI at {t:g}"].interval
        if name == "over-predicting":
            yield "Brier difference", _brier_gap() in by_name[f"Brier score at {t:g}"].interval


@cache
def _brier_gap() -> float:
    good = _weibull(_log_risk(np.random.default_rng(4), 400_000), 1.5)
    high, f = good**1.6, 1 - good
    return float((f * good - (f * high**2 + good * (1 - high) ** 2)).mean())


DESIGNS: tuple[Callable[[int], Hits], ...] = (
    competing, cause_specific, delayed_entry, clusters, strata, pairs,
)  # fmt: skip


def study(design: Callable[[int], Hits], repetitions: int) -> dict[str, float]:
    """Coverage of each interval of one design."""
    counts: dict[str, int] = {}
    for seed in range(FIRST_SEED, FIRST_SEED + repetitions):
        for name, hit in design(seed):
            counts[name] = counts.get(name, 0) + int(hit)
    return {name: count / repetitions for name, count in counts.items()}


# Of nominal 95%: what 2,000 repetitions may show, and less where an interval is conservative.
LEAST, QUICK_LEAST = 0.935, 0.85


def run(quick: bool) -> list[dict[str, Any]]:
    """One row per design and interval; the quick form has 100 repetitions."""
    repetitions, least = (100, QUICK_LEAST) if quick else (2000, LEAST)
    warnings.simplefilter("ignore")
    return [
        {
            "bar": f"coverage: {design.__name__.replace('_', ' ')}, {name}",
            "value": share,
            "limit": least,
            "ok": share >= least,
            "note": f"{repetitions} repetitions; {(design.__doc__ or '').splitlines()[0]}",
        }
        for design in DESIGNS
        for name, share in study(design, repetitions).items()
    ]


def main() -> None:
    """Print every design's coverage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 repetitions")
    parser.add_argument("--design", choices=[d.__name__ for d in DESIGNS])
    arguments = parser.parse_args()
    repetitions = 100 if arguments.quick else 2000
    warnings.simplefilter("ignore")
    for design in DESIGNS:
        if arguments.design in (None, design.__name__):
            for name, share in study(design, repetitions).items():
                print(f"{design.__name__:16s} {name:32s} {share:.1%} of {repetitions}", flush=True)


if __name__ == "__main__":
    main()
