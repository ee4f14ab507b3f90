"""Short form of benchmarks/survival_coverage.py: intervals cover under clusters, entry, strata."""

from __future__ import annotations

import pytest

from benchmarks.survival_coverage import cause_specific, clusters, delayed_entry, strata, study


@pytest.mark.parametrize("design", [cause_specific, clusters, delayed_entry, strata])
def test_intervals_cover_with_competing_events_clusters_entry_and_strata(design: object) -> None:
    repetitions = 80
    for name, share in study(design, repetitions).items():  # type: ignore[arg-type]
        # four binomial standard errors below 95%
        assert share > 0.95 - 4 * (0.95 * 0.05 / repetitions) ** 0.5, (name, share)


def test_without_groups_copies_of_rows_are_taken_for_independent_ones() -> None:
    import numpy as np

    from cje.survival import calibration_in_the_large

    plain = grouped = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        own, event = rng.uniform(size=120), np.ones(120)
        subject = np.repeat(np.arange(120), 5)
        own, event = own[subject], event[subject]
        plain += 1.0 in calibration_in_the_large(own, event).interval
        grouped += 1.0 in calibration_in_the_large(own, event, groups=subject).interval
    assert plain / 200 < 0.75
    assert grouped / 200 > 0.89
