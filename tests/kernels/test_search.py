"""The bucket search gives exactly what bisection gives."""

import numpy as np
import pytest

from cje.kernels.search import segment_finder


@pytest.mark.parametrize("n_edges", [1, 2, 5, 50, 2000])
@pytest.mark.parametrize("spread", ["uniform", "clustered", "tiny", "huge"])
def test_the_finder_equals_bisection_also_on_edges_and_outside(n_edges: int, spread: str) -> None:
    rng = np.random.default_rng(n_edges)
    edges = np.unique(rng.random(n_edges))
    if spread == "clustered":
        edges = edges**9
    elif spread == "tiny":
        edges = 0.3 + 1e-13 * edges
        edges = np.unique(edges)
    elif spread == "huge":
        edges = (edges - 0.5) * 1e308
    inside = edges[0] + (edges[-1] - edges[0]) * rng.random(40_000)
    points = np.concatenate(
        [inside, edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), [-1e308, 1e308]]
    )
    found = segment_finder(edges, len(points))(points)
    assert np.array_equal(found, edges.searchsorted(points, side="right"))
