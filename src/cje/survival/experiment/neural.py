"""A small neural Cox model, to be swept over widths through the interpolation threshold."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from cje.errors import CJEError, require_extra
from cje.kernels.arrays import BoolArray, FloatArray
from cje.survival.experiment.models import ProportionalHazards

__all__ = ["NeuralCox"]


class NeuralCox(ProportionalHazards):
    """log-risk = v' relu(W x + b), trained on the Breslow partial likelihood by full-batch Adam.

    There is no output bias: the partial likelihood does not depend on it. No regularisation by
    default, so that a wide network can interpolate the training order.

    Parameters
    ----------
    width : int
        Hidden units; `n_parameters` is width * (columns + 2).
    """

    def __init__(
        self,
        width: int,
        *,
        epochs: int = 300,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.width, self.epochs, self.seed = width, epochs, seed
        self.learning_rate, self.weight_decay = learning_rate, weight_decay

    def n_parameters(self, n_columns: int) -> int:
        """Trainable numbers for this many covariates."""
        return self.width * (n_columns + 2)

    def fit(self, x: FloatArray, time: FloatArray, event: BoolArray) -> Self:
        """Train; the same seed gives the same weights."""
        torch: Any = require_extra("torch", "local", "the neural Cox model")
        self.centre_ = x.mean(axis=0)
        scale = x.std(axis=0)
        self.scale_ = np.where(scale > 0, scale, 1.0)
        order = np.argsort(-time, kind="stable")  # risk sets become prefixes
        z = torch.from_numpy(((x - self.centre_) / self.scale_)[order])
        happened = torch.from_numpy(event[order].astype(np.float64))
        generator = torch.Generator().manual_seed(self.seed)
        columns = x.shape[1]

        def normal(*shape: int, sd: float) -> Any:
            draw = torch.randn(*shape, generator=generator, dtype=torch.float64) * sd
            return draw.requires_grad_()

        weights = [
            normal(columns, self.width, sd=columns**-0.5),
            normal(self.width, sd=0.1),
            normal(self.width, sd=self.width**-0.5),
        ]
        optimiser = torch.optim.Adam(weights, lr=self.learning_rate, weight_decay=self.weight_decay)
        n_events = happened.sum()
        for _ in range(self.epochs):
            optimiser.zero_grad()
            eta = torch.relu(z @ weights[0] + weights[1]) @ weights[2]
            loss = -((eta - torch.logcumsumexp(eta, 0)) * happened).sum() / n_events
            loss.backward()
            optimiser.step()
        self.loss_ = float(loss.detach())
        self.weights_ = [w.detach().numpy() for w in weights]
        if not all(np.isfinite(w).all() for w in self.weights_):
            raise CJEError("training diverged", where=f"width {self.width}",
                           value=self.loss_, hint="lower learning_rate")  # fmt: skip
        self._fit_baseline(x, time, event)
        return self

    def predict_log_risk(self, x: FloatArray) -> FloatArray:
        """The network's output."""
        hidden, bias, out = self.weights_
        z = (x - self.centre_) / self.scale_
        return np.asarray(np.maximum(z @ hidden + bias, 0.0) @ out)
