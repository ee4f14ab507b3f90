"""Any causal language model that transformers loads: packed if that is correct, else one by one.

Packing relies on transformers to separate texts by their positions. Not all releases and
architectures do (recurrent ones cannot), so packing is tested on each model when it is loaded, and
not used if a packed text gets other scores than the text alone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cje.errors import CJEError, require_extra
from cje.policies.local.head import product
from cje.policies.local.packing import Item, Pack, plan_packs

__all__ = ["GeneralNet"]

Tensor = torch.Tensor
#: Largest difference in nats between a packed text and the text alone, by precision.
_SAME = {torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.3}


class GeneralNet:
    """Hidden states through transformers' own code.

    Parameters
    ----------
    folder : Path
    dtype : torch.dtype
        float16: weights and residual stream in float32, products under autocast. bfloat16 and
        float32: everything in that precision.
    device : torch.device
    alone : bool
        Score each text by itself, regardless of the check: its bits then depend on nothing else.

    Attributes
    ----------
    packed : bool
        Whether texts share a forward pass.
    """

    shares = False  # transformers has no attention over a prefix shared by several texts
    align = 1
    rows: int | None = None

    def __init__(
        self, folder: Path, dtype: torch.dtype, device: torch.device, *, alone: bool = False
    ) -> None:
        transformers = require_extra("transformers", "local", "provider: transformers")
        held = torch.float32 if dtype == torch.float16 else dtype
        try:
            self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=held, local_files_only=True
            )
        except (OSError, ValueError, TypeError, KeyError, ImportError) as error:
            raise CJEError(
                "transformers cannot load this model as a causal language model",
                where=str(folder), hint=f"{type(error).__name__}: {error}"[:300],
            ) from error  # fmt: skip
        self.model.to(device).eval()
        self.device, self.dtype = device, dtype
        self.base: Any = getattr(self.model, self.model.base_model_prefix)
        self._tail = _tail_of(self.model)
        self.packed = not alone
        self._check_head()
        if self.packed:
            self.packed = self._keeps_texts_apart()

    # hidden states ------------------------------------------------------------------------------

    def hidden(self, pack: Pack, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """Hidden states of ``pack.head``; all tokens count as finite: overflow shows in them."""
        half = self.dtype == torch.float16 and dtype in (None, torch.float16)
        tokens = torch.from_numpy(pack.tokens).to(self.device)
        positions = torch.from_numpy(pack.positions).to(self.device)
        whole = [slice(0, len(tokens))]
        alone = [slice(a, b) for a, b in zip(pack.cu, pack.cu[1:], strict=False)]
        with self._precision(half):
            parts = [
                self.base(
                    input_ids=tokens[None, part], position_ids=positions[None, part],
                    use_cache=False,
                ).last_hidden_state[0]
                for part in (whole if self.packed else alone)
            ]  # fmt: skip
        states = torch.cat(parts)[torch.from_numpy(pack.head).to(self.device)]
        fine = torch.ones(len(tokens), dtype=torch.bool, device=self.device)
        return states.float(), fine

    def next_hidden(self, tokens: Sequence[int], cache: Any) -> tuple[Tensor, Any]:
        """The hidden state (1, d) after `tokens`; `cache` holds those of an earlier call."""
        new = list(tokens) if cache is None else list(tokens[-1:])
        ids = torch.tensor([new], device=self.device)
        more = {} if cache is None else {"past_key_values": cache}
        with self._precision(self.dtype == torch.float16):
            out = self.base(input_ids=ids, use_cache=True, **more)
        kept = getattr(out, "past_key_values", None)
        return out.last_hidden_state[0, -1:].float(), kept

    def _precision(self, half: bool) -> AbstractContextManager[Any]:
        if half:
            return torch.autocast(self.device.type, dtype=torch.float16)
        return nullcontext()

    # the head -----------------------------------------------------------------------------------

    def head_weight(self) -> Tensor:
        weight: Tensor = self.model.get_output_embeddings().weight
        return weight.detach()

    def project(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Float32 logits, with the model's own changes to them (a scale, a cap, a bias)."""
        if self._tail is None:
            return product(hidden, weight)
        logits: Tensor = self._tail(hidden)
        return logits

    def _check_head(self) -> None:
        """Check that the logits of one short text equal the model's own."""
        ids = torch.arange(2, 10, device=self.device)[None] % int(self.head_weight().shape[0])
        with torch.inference_mode():
            own = self.model(input_ids=ids, use_cache=False).logits[0].float()
            states = self.base(input_ids=ids, use_cache=False).last_hidden_state[0]
            ours = product(states.float(), self.head_weight())
            if _close(own, ours, self.dtype):
                self._tail = None
                return
            ours = self.project(states, self.head_weight())
        if not _close(own, ours, self.dtype):
            raise CJEError(
                "the logits of this model cannot be computed from its hidden states",
                where=type(self.model).__name__,
                hint="serve it with vLLM and use provider: vllm",
            )

    def _keeps_texts_apart(self) -> bool:
        """Whether packed texts get the same scores as alone."""
        rng = np.random.default_rng(0)
        size = int(self.head_weight().shape[0])
        items = [
            Item(tuple(rng.integers(0, size, 9).tolist()), tuple(rng.integers(0, size, 7).tolist()))
            for _ in range(4)
        ]
        pack = plan_packs(items, batch_tokens=1000, share=False)[0]
        with torch.inference_mode():
            together = self.project(self.hidden(pack)[0], self.head_weight())
            self.packed = False
            apart = self.project(self.hidden(pack)[0], self.head_weight())
        return _close(together, apart, self.dtype)


def _close(a: Tensor, b: Tensor, dtype: torch.dtype) -> bool:
    """Whether two sets of logits give the same log-probs within the precision."""
    gap = (torch.log_softmax(a, -1) - torch.log_softmax(b, -1)).abs().max()
    return bool(gap <= _SAME[dtype])


def _tail_of(model: Any) -> Any:
    """The model's function from hidden states to logits: its forward pass with a replaced base.

    The copy shares every tensor with the model; only the base is replaced, by a module that returns
    given hidden states.
    """
    transformers = require_extra("transformers", "local", "provider: transformers")
    output = transformers.modeling_outputs.BaseModelOutputWithPast

    class Given(torch.nn.Module):
        states: Tensor

        def forward(self, *_: Any, **__: Any) -> Any:
            return output(last_hidden_state=self.states)

    given = Given()
    tail = copy.copy(model)
    tail._modules = dict(model._modules)
    tail._modules[model.base_model_prefix] = given

    def logits(hidden: Tensor) -> Tensor:
        given.states = hidden.to(model.dtype)[None]
        ids = torch.zeros((1, len(hidden)), dtype=torch.int64, device=hidden.device)
        found: Tensor = tail(input_ids=ids, use_cache=False).logits[0]
        return found.float()

    return logits
