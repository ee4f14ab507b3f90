"""Bradley-Terry fits of arena-rank and choix on comparisons that humans judged completely.

    python -m venv peers && peers/bin/pip install arena-rank==0.1.1 choix==0.4.1
    peers/bin/python scripts/pairwise_fixtures.py

Writes `tests/fixtures/pairwise/complete.json`: the comparisons and both libraries' values. Ties
count half: choix has no ties, so it gets every win twice and every tie once in each direction.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import choix
import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.models.contextual_bradley_terry import ContextualBradleyTerry
from arena_rank.utils.data_utils import ContextualPairDataset, PairDataset

OUT = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "pairwise" / "complete.json"
MODELS = ("cedar", "fir", "larch", "oak", "yew")
N = 500


def comparisons() -> pd.DataFrame:
    """Battles of five models with ties, and a difference in length that sways the verdict."""
    rng = np.random.default_rng(20)
    strength = np.linspace(0.8, -0.8, len(MODELS))
    pairs = np.array([rng.permutation(len(MODELS))[:2] for _ in range(N)])
    length = np.round(rng.normal(0.0, 0.4, N), 3)
    line = strength[pairs[:, 0]] - strength[pairs[:, 1]] + 0.9 * length
    chance = 1.0 / (1.0 + np.exp(-line))
    draw = rng.random(N)
    winner = np.where(draw < 0.8 * chance, "model_a", np.where(draw < 0.8, "model_b", "tie"))
    return pd.DataFrame({
        "prompt_id": [f"p{i}" for i in range(N)],
        "model_a": [MODELS[a] for a in pairs[:, 0]],
        "model_b": [MODELS[b] for b in pairs[:, 1]],
        "winner": winner, "length": length,
    })  # fmt: skip


def _values(found: dict[str, Any], model: Any) -> dict[str, Any]:
    """Ratings in log-odds of mean zero, and the variances of the sandwich."""
    ratings = np.asarray(found["ratings"]) - model.init_rating
    return {
        "ratings": ((ratings - ratings.mean()) / model.alpha).tolist(),
        "variances": (np.asarray(found["variances"]) / model.alpha**2).tolist(),
    }


def main() -> None:
    frame = comparisons()
    plain = PairDataset.from_pandas(frame)
    model = BradleyTerry(len(MODELS), ftol=1e-14, gtol=1e-12)
    arena = _values(model.compute_ratings_and_cis(plain), model)
    styled = ContextualPairDataset.from_pandas(
        frame, ["length"], reweighted=False, normalize_features=False
    )
    context = ContextualBradleyTerry(len(MODELS), 1, reg=0.0, ftol=1e-14, gtol=1e-12)
    with_style = _values(context.compute_ratings_and_cis(styled), context)
    with_style["coefficients"] = np.asarray(context.params["coeffs"]).tolist()
    wins = []
    for a, b, w in zip(frame.model_a, frame.model_b, frame.winner, strict=True):
        i, j = MODELS.index(a), MODELS.index(b)
        wins += {"model_a": [(i, j)] * 2, "model_b": [(j, i)] * 2, "tie": [(i, j), (j, i)]}[w]
    luce = choix.opt_pairwise(len(MODELS), wins, alpha=0.0, tol=1e-12)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({
        "models": MODELS,
        "versions": {name: metadata.version(name) for name in ("arena-rank", "choix")},
        "comparisons": frame.to_dict("list"),
        "arena_rank": arena, "arena_rank_style": with_style,
        "choix": (luce - luce.mean()).tolist(),
    }, indent=1) + "\n")  # fmt: skip


if __name__ == "__main__":
    main()
