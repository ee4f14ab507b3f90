"""Real data load as finite arrays, and the metrics run on them."""

from __future__ import annotations

import numpy as np
import pytest

from cje.errors import CJEError
from cje.survival import calibration_in_the_large, calibration_slope, integrated_calibration_index
from cje.survival.datasets import DATASETS, load_dataset
from cje.survival.experiment import CoxPHBaseline

SIZES = {
    "rossi": (432, 114),
    "gbsg2": (686, 299),
    "flchain": (7874, 2169),
    "whas500": (500, 215),
    "veterans": (137, 128),
}


@pytest.mark.parametrize("name", DATASETS)
def test_data_sets_have_their_known_size_and_a_cox_model_is_calibrated_on_its_own_data(
    name: str,
) -> None:
    pytest.importorskip("lifelines")
    pytest.importorskip("sksurv")
    data = load_dataset(name)
    assert (len(data.time), int(data.event.sum())) == SIZES[name]
    assert data.x.shape == (len(data.time), len(data.columns))
    model = CoxPHBaseline().fit(data.x, data.time, data.event)
    own = model.predict_own_survival(data.x, data.time)
    score = model.predict_log_risk(data.x)
    horizon = float(np.median(data.time[data.event]))
    at = model.predict_survival(data.x, np.array([horizon]))[:, 0]
    # On the training rows O/E and slope are one by construction, ties aside.
    assert float(calibration_in_the_large(own, data.event)) == pytest.approx(1.0, abs=0.02)
    assert float(calibration_slope(score, data.time, data.event)) == pytest.approx(1.0, abs=0.01)
    assert float(integrated_calibration_index(at, data.time, data.event, horizon)) < 0.12


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(CJEError, match="rossi"):
        load_dataset("titanic")
