"""A probe of the planned size passes its audit as often as the plan says."""

from __future__ import annotations

import numpy as np
import pytest

from cje.analysis.label_plan import JudgeQuality
from cje.analysis.transport_plan import plan_probe
from cje.diagnostics import TransportStatus, audit_transport
from cje.errors import CJEError


def test_a_planned_probe_passes_as_often_as_promised() -> None:
    """600 audits of a calibration from 200 labels; the 0.1% binomial bound of 0.8 is 0.05."""
    rng, behind, sd = np.random.default_rng(0), 200, 0.2
    plan = plan_probe(JudgeQuality(sd / np.sqrt(0.5), 0.5), 0.08, calibration_labels=behind)
    n, passed = plan.n_labels, 0
    for _ in range(600):
        noise = rng.normal(0, sd, behind)
        influence = np.r_[np.zeros(n), (noise - noise.mean()) / behind]
        labels = 0.5 + rng.normal(0, sd, n)
        found = audit_transport(
            "p", labels, np.full(n, 0.5 + noise.mean()), clusters=np.arange(n),
            prediction_influence=influence, margin=0.08,
        )  # fmt: skip
        passed += found.status is TransportStatus.PASS
    assert passed / 600 == pytest.approx(plan.power, abs=0.06)


def test_more_versions_and_fewer_labels_behind_need_a_larger_probe() -> None:
    quality = JudgeQuality(0.25, 0.5)

    def size(**options: int) -> int:
        given = {"calibration_labels": 500} | options
        return plan_probe(quality, 0.08, **given).n_labels  # type: ignore[arg-type]

    assert size() < size(n_policies=3) < size(n_policies=10)
    assert size() < size(calibration_labels=100)
    assert plan_probe(quality, 5.0, calibration_labels=500).n_labels == 20
    with pytest.raises(CJEError, match="no probe is large enough"):
        plan_probe(quality, 0.01, calibration_labels=100)
