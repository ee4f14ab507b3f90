"""Generate responses with a seed per row, and log-probs in the engine's numerics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from cje.models import BadOutputError, ModelCallError
from cje.policies.local.attention import StepAttention
from cje.policies.local.blocks import BlockNet
from cje.policies.local.engine import one_thread
from cje.policies.local.head import Sampling, distribution
from cje.policies.local.packing import Item, plan_packs

if TYPE_CHECKING:
    from cje.policies.local.model import LocalModel
    from cje.policies.local.planned import Answer

__all__ = ["Text", "begin_text", "generate"]

Tensor = torch.Tensor
#: Number of texts written together.
TEXTS = {"cuda": 256}
_FEW_TEXTS = 32


@dataclass
class Text:
    """One response being written.

    Attributes
    ----------
    limit : int
        Tokens it may have.
    top : int
        How many of the likeliest tokens are kept at each step, with their log-probs.
    """

    index: int
    name: str
    prompt: tuple[int, ...]
    stops: frozenset[int]
    sampling: Sampling
    limit: int
    draws: np.random.Generator
    finish: Callable[[Text], Answer]
    top: int = 0
    ids: list[int] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)
    failed: ModelCallError | None = None

    alternatives: list[list[tuple[int, float]]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        ended = bool(self.ids) and self.ids[-1] in self.stops
        return ended or len(self.ids) >= self.limit or self.failed is not None


class Call(Protocol):
    """The argument of `generate`: it begins the text, which knows how to become an answer."""

    def begin(self, index: int) -> Text: ...


def generate(
    model: LocalModel, calls: Sequence[tuple[int, Call]]
) -> Iterator[list[tuple[int, Answer]]]:
    """Responses with their positions, batch by batch."""
    refused: list[tuple[int, Answer]] = []
    texts = []
    for index, call in calls:
        try:
            texts.append(call.begin(index))
        except ModelCallError as error:
            refused.append((index, error))
    if refused:
        yield refused
    texts.sort(key=lambda text: (text.prompt, text.index))
    for batch in _batches(model, texts):
        with model.lock, torch.inference_mode(), one_thread(_needs_one_thread(model)):
            if isinstance(model.engine.net, BlockNet):
                _write_together(model, batch)
            else:
                for text in batch:
                    _write_alone(model, text)
        yield [(text.index, text.failed or text.finish(text)) for text in batch]


def _needs_one_thread(model: LocalModel) -> bool:
    return model.batch_invariant and model.engine.net.device.type == "cpu"


def begin_text(
    model: LocalModel,
    index: int,
    name: str,
    prompt: Sequence[int],
    stops: frozenset[int],
    sampling: Sampling,
    max_tokens: int,
    seed: int,
    finish: Callable[[Text], Answer],
    top: int = 0,
) -> Text:
    """A text with only its prompt; a prompt that leaves no room is refused."""
    longest = model.tokeniser.longest
    if not prompt:
        raise BadOutputError("the rendered prompt is empty", reason="empty_prompt")
    if len(prompt) >= longest:
        raise BadOutputError(
            f"{name}: the prompt has {len(prompt)} tokens, the model reads {longest}",
            reason="context_too_long",
        )
    limit = min(max_tokens, longest - len(prompt))
    draws = np.random.default_rng(seed)
    return Text(index, name, tuple(prompt), stops, sampling, limit, draws, finish, top)


def _batches(model: LocalModel, texts: Sequence[Text]) -> Iterator[list[Text]]:
    """Batches whose cached keys and values have at most the tokens of a scoring pass."""
    most = TEXTS.get(model.engine.net.device.type, _FEW_TEXTS)
    lot: list[Text] = []
    for text in texts:
        longest = max([text.limit, *(other.limit for other in lot)])
        if lot and ((len(lot) + 1) * longest > model.engine.batch_tokens or len(lot) == most):
            yield lot
            lot = []
        lot.append(text)
    if lot:
        yield lot


# the fast path -----------------------------------------------------------------------------------


class _Kept:
    """Keys and values of the prompts, which are read once, and of the text so far."""

    def __init__(self, net: BlockNet, texts: Sequence[Text]) -> None:
        self.net = net
        self.prompts = list(dict.fromkeys(text.prompt for text in texts))
        self.prompt_of = np.array([self.prompts.index(text.prompt) for text in texts])
        longest, shape = max(text.limit for text in texts), net.shape
        size = (len(texts), longest, shape.kv_heads, shape.head_dim)
        self.own = [
            tuple(torch.zeros(size, dtype=net.dtype, device=net.device) for _ in range(2))
            for _ in range(shape.layers)
        ]
        self.above: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(shape.layers)]
        self.spans: list[np.ndarray[Any, Any]] = [np.empty(0, np.int64)] * len(self.prompts)

    def read_prompts(self, batch_tokens: int) -> Tensor:
        """Hidden states at the prompts' ends, one per prompt."""
        items = [Item(prompt, (0,)) for prompt in self.prompts]
        states: list[Any] = [None] * len(items)
        start = 0
        for pack in plan_packs(items, batch_tokens=batch_tokens, align=self.net.align, share=False):
            hidden, _ = self.net.hidden(pack, keep=self._keep)
            for number, row in enumerate(pack.rows):
                states[row] = hidden[pack.row_cu[number]]
                segment = pack.paths[number][0]
                span = np.arange(pack.cu[segment], pack.cu[segment] + len(self.prompts[row]))
                self.spans[row] = start + span
            start += len(pack.tokens)
        self._whole = [
            tuple(torch.cat(part) for part in zip(*layer, strict=True)) for layer in self.above
        ]
        self.above = []
        return torch.stack(states)

    def _keep(self, layer: int, k: Tensor, v: Tensor) -> None:
        self.above[layer].append((k, v))

    def attention(self, rows: np.ndarray[Any, Any], step: int) -> Any:
        """``attend(layer, q, k, v)`` of one step for the texts `rows`, all of them at `step`."""
        net, at = self.net, torch.from_numpy(rows).to(self.net.device)
        prompts, counts = np.unique(self.prompt_of[rows], return_counts=True)
        spans = [self.spans[prompt] for prompt in prompts]
        above = torch.from_numpy(np.concatenate(spans)).to(net.device)
        attend = StepAttention(
            np.full(len(rows), step + 1), _cu(counts), _cu([len(span) for span in spans]),
            net.device, flash=net.flash, scale=net.shape.head_dim**-0.5, joining=net.joining,
        )  # fmt: skip

        def one_layer(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self.own[layer]
            keys[at, step], values[at, step] = k, v
            own = tuple(x[at, : step + 1].flatten(0, 1) for x in (keys, values))
            whole = self._whole[layer]
            joined: Tensor = attend(q, (own[0], own[1]), (whole[0][above], whole[1][above]))
            return joined

        return one_layer


def _cu(counts: Any) -> Any:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _write_together(model: LocalModel, texts: Sequence[Text]) -> None:
    """Write all texts together, one token per step; finished texts drop out."""
    net: Any = model.engine.net
    kept = _Kept(net, texts)
    hidden = kept.read_prompts(model.engine.batch_tokens)[torch.from_numpy(kept.prompt_of)]
    rows = np.arange(len(texts))
    step = 0
    while True:
        _draw(model, [texts[i] for i in rows.tolist()], hidden)
        rows = np.array([i for i in rows.tolist() if not texts[i].done], dtype=np.int64)
        if not len(rows):
            return
        tokens = torch.tensor([texts[i].ids[-1] for i in rows.tolist()], device=net.device)
        positions = torch.tensor(
            [len(texts[i].prompt) + step for i in rows.tolist()], device=net.device
        )
        hidden = net.step(tokens, positions, kept.attention(rows, step))
        step += 1


def _draw(model: LocalModel, texts: Sequence[Text], hidden: Tensor) -> None:
    """One token for each text, with its log-prob."""
    head = model.engine.head
    logits = head.logits(hidden, fixed=model.batch_invariant)
    fine = torch.isfinite(logits).all(-1).tolist()
    samplings = sorted({text.sampling for text in texts})
    chosen = torch.zeros(len(texts), dtype=torch.int64, device=hidden.device)
    for sampling in samplings:
        own = [i for i, text in enumerate(texts) if text.sampling == sampling]
        uniform = torch.tensor(
            [texts[i].draws.random() for i in own], dtype=torch.float64, device=hidden.device
        )
        chosen[own] = _inverse(distribution(logits[own], sampling), uniform)
    values = head(hidden, chosen, samplings).cpu().numpy()
    for i, text in enumerate(texts):
        if not fine[i]:
            text.failed = _overflow(text)
        text.ids.append(int(chosen[i]))
        text.logs.append(float(values[samplings.index(text.sampling), i]))
        _keep_alternatives(text, logits[i])


def _overflow(text: Text) -> BadOutputError:
    return BadOutputError(
        f"{text.name}: the model's numbers overflowed while writing",
        reason="non_finite_logits", hint="use dtype: bfloat16 or float32",
    )  # fmt: skip


def _keep_alternatives(text: Text, logits: Tensor) -> None:
    """The likeliest tokens with the model's own log-probs (temperature 1, no cut)."""
    if text.top:
        best = torch.log_softmax(logits, -1).topk(min(text.top, logits.shape[-1]))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        text.alternatives.append(list(pairs))


def _inverse(scores: Tensor, uniform: Tensor) -> Tensor:
    """The token at which the cumulative probability passes `uniform`, among those not cut."""
    device = scores.device
    if device.type == "mps":  # this device has no float64
        scores, uniform = scores.cpu(), uniform.cpu()
    mass = scores.double().exp().cumsum(-1)
    found = torch.searchsorted(mass, (uniform * mass[:, -1])[:, None], right=True)[:, 0]
    last = scores.shape[-1] - 1 - torch.isfinite(scores).flip(-1).int().argmax(-1)
    return torch.minimum(found, last).to(device)


# any other model ---------------------------------------------------------------------------------


def _write_alone(model: LocalModel, text: Text) -> None:
    """Write one text through transformers; a scoring pass over it gives its log-prob."""
    net: Any = model.engine.net
    cache: Any = None
    tokens = list(text.prompt)
    while not text.done:
        hidden, cache = net.next_hidden(tokens, cache)
        logits = net.project(hidden, net.head_weight())
        if not bool(torch.isfinite(logits).all()):
            text.failed = _overflow(text)
            return
        uniform = torch.tensor([text.draws.random()], dtype=torch.float64, device=logits.device)
        token = int(_inverse(distribution(logits, text.sampling), uniform)[0])
        text.ids.append(token)
        _keep_alternatives(text, logits[0])
        tokens.append(token)
    item = Item(text.prompt, tuple(text.ids))
    text.logs = model.engine.score_all([item], [text.sampling])[0][0].tolist()
