"""Promises of `CalibrationCurve`, its drawing, and `Finding`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cje.errors import CJEError
from cje.inference import CalibrationCurve, Finding, Severity


def _curve(points: int = 12) -> CalibrationCurve:
    x = np.linspace(0.05, 1.0, points)
    return CalibrationCurve(
        x, x**2, np.maximum(x**2 - 0.1, 0), np.minimum(x**2 + 0.1, 1), np.arange(points) + 1.0,
        band="pointwise", title="a curve",
    )  # fmt: skip


def test_curve_survives_json() -> None:
    curve = _curve()
    back = CalibrationCurve.from_dict(json.loads(json.dumps(curve.to_dict())))
    np.testing.assert_array_equal(back.observed, curve.observed)
    assert back.title == curve.title
    assert len(back) == 12


def test_curve_refuses_columns_of_another_length_and_is_read_only() -> None:
    with pytest.raises(CJEError, match="observed"):
        CalibrationCurve(np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        _curve().x[0] = 1.0


def test_plot_draws_line_band_markers_and_diagonal() -> None:
    ax = _curve().plot(label="base")
    line = next(item for item in ax.lines if len(item.get_xdata()) == 12)
    np.testing.assert_allclose(np.asarray(line.get_ydata(), float), _curve().observed)
    assert len(ax.collections) == 2  # band and markers
    assert ax.get_legend() is not None
    assert ax.get_xlim() == (-0.02, 1.02)


def test_two_curves_share_axes_and_a_long_one_gets_a_rug() -> None:
    ax = _curve().plot(label="one")
    assert _curve(90).plot(ax, color="#D55E00", label="two") is ax
    assert len(ax.get_legend().get_texts()) == 2


def test_one_point_and_no_band_can_be_drawn() -> None:
    point = CalibrationCurve(np.array([0.5]), np.array([0.4]), np.array([0.3]), np.array([0.6]))
    assert any(list(line.get_xdata()) == [0.5] for line in point.plot().lines)
    plain = CalibrationCurve(np.array([10.0, 20.0]), np.array([1.0, 3.0]), reference=False).plot()
    assert [list(line.get_xdata()) for line in plain.lines] == [[10.0, 20.0]]


def test_finding_survives_json_and_reads_as_a_sentence() -> None:
    finding = Finding("few", "only 3 labels", Severity.WARNING, "label more", "b", {"n": 3})
    assert Finding.from_dict(json.loads(json.dumps(finding.to_dict()))) == finding
    assert str(finding) == "[warning] b: only 3 labels. Next: label more"
