"""`LocalModel`: a model in this process, loaded once for all policies that use it."""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from cje.errors import CJEError, require_extra
from cje.models.endpoint_config import EndpointConfig
from cje.policies.local.shape import Shape, read_config, read_shape

if TYPE_CHECKING:
    from cje.policies.local.engine import ScoringEngine
    from cje.policies.local.tokens import Tokeniser

__all__ = ["LocalModel", "shared_model"]

_LOADED: WeakValueDictionary[tuple[Any, ...], LocalModel] = WeakValueDictionary()
_LOCK = threading.Lock()


def shared_model(config: EndpointConfig) -> LocalModel:
    """The model of a configuration, shared by policies that differ only in prompt or sampling."""
    from cje.policies.local.weights import find_model

    folder = find_model(config.model, config.revision)
    key = (
        str(folder.resolve()), config.dtype, config.device, config.batch_invariant,
        config.batch_tokens,
    )  # fmt: skip
    with _LOCK:
        model = _LOADED.get(key)
        if model is None:
            model = _LOADED[key] = LocalModel(
                folder, dtype=config.dtype, device=config.device,
                batch_invariant=config.batch_invariant, batch_tokens=config.batch_tokens,
            )  # fmt: skip
        return model


class LocalModel:
    """A model's folder and tokeniser, and its weights once something is scored.

    Parameters
    ----------
    folder : Path
        A folder written by `save_pretrained`: configuration, weights, tokeniser.
    dtype : {"auto", "float16", "bfloat16", "float32"}
        Precision of the matrix products; the residual stream and the logits are float32. ``auto``:
        float16 on a GPU, float32 elsewhere.
    device : str, optional
        ``"cuda:1"``, ``"mps"``, ``"cpu"``; the first GPU by default.
    batch_invariant : bool
        A row has the same bits in every batch, at some cost in speed.
    batch_tokens : int, optional
        Maximum number of tokens per forward pass.
    """

    def __init__(
        self,
        folder: Path,
        *,
        dtype: str = "auto",
        device: str | None = None,
        batch_invariant: bool = False,
        batch_tokens: int | None = None,
    ) -> None:
        self.folder, self.dtype_name, self.device_name = folder, dtype, device
        self.batch_invariant, self.batch_tokens = batch_invariant, batch_tokens
        self.config = read_config(folder)
        self.lock = threading.RLock()  # one pass at a time

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """Texts to tokens."""
        from cje.policies.local.tokens import Tokeniser

        longest = int(self.config.get("max_position_embeddings") or 1 << 30)
        return Tokeniser(self.folder, longest, self.config.get("vocab_size"))

    @cached_property
    def engine(self) -> ScoringEngine:
        """Tokens to log-probs; loads the weights."""
        from cje.policies.local.engine import INVARIANT_ROWS, ScoringEngine

        with self.lock:
            device = self._device()
            rows = INVARIANT_ROWS.get(device.type, INVARIANT_ROWS["cpu"])
            compiled = device.type == "cuda"
            shape = self.fast_shape
            if isinstance(shape, Shape):
                from cje.policies.local.blocks import BATCH_TOKENS, BlockNet
                from cje.policies.local.weights import load_weights

                weights = load_weights(self.folder, shape, self._dtype(device), device)
                net: Any = BlockNet(
                    shape, weights, rows=rows if self.batch_invariant else None,
                    compiled=compiled, whole=self.batch_tokens or BATCH_TOKENS["cuda"],
                )  # fmt: skip
            else:
                from cje.policies.local.general import GeneralNet

                compiled = False
                net = GeneralNet(
                    self.folder, self._dtype(device), device, alone=self.batch_invariant
                )
            return ScoringEngine(net, batch_tokens=self.batch_tokens, compiled=compiled)

    @cached_property
    def fast_shape(self) -> Shape | str:
        """The model's shape for the fast path, or the reason why that cannot compute it."""
        shape = read_shape(self.config)
        if isinstance(shape, str):
            return shape
        if shape.window is not None:
            return f"it attends to a window of {shape.window} positions"
        if not any(self.folder.glob("*.safetensors")):
            return "its weights are not in safetensors"
        return shape

    def describe(self) -> str:
        """How the scores will be computed, as text, without loading the weights."""
        device = self._device()
        name = str(self._dtype(device)).removeprefix("torch.")
        shape = self.fast_shape
        path = "fast path" if isinstance(shape, Shape) else f"through transformers ({shape})"
        mode = ", batch-invariant" if self.batch_invariant else ""
        return f"{name} products, float32 residual stream on {device}, {path}{mode}"

    def _device(self) -> Any:
        torch = require_extra("torch", "local", "provider: transformers")
        name = self.device_name
        if name is None:
            mps = getattr(torch.backends, "mps", None)
            on_mac = mps is not None and mps.is_available()
            name = "cuda" if torch.cuda.is_available() else "mps" if on_mac else "cpu"
        try:
            device = torch.device(name)
        except RuntimeError as error:
            raise CJEError("no such device", value=name, hint="use cuda, cuda:1, mps or cpu") from (
                error
            )
        if device.type == "cuda" and not torch.cuda.is_available():
            raise CJEError("this machine has no CUDA GPU that torch can use", value=name)
        return device

    def _dtype(self, device: Any) -> Any:
        torch = require_extra("torch", "local", "provider: transformers")
        if self.dtype_name == "auto":
            return torch.float16 if device.type == "cuda" else torch.float32
        return getattr(torch, self.dtype_name)
