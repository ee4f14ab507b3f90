"""Scoring on a GPU: speed against the chip's own matrix products, memory, noise.

    python -m benchmarks.scoring [--quick] [--out FILE] [SECTION ...]

One command, ten minutes on one H200. Sections: check, write, speed, prefix, temperatures,
invariant, transformers, error (all by default). The 8B Llama shape has random weights, which is
enough for speed. `error` trains a model of about 110 million parameters on this machine's own
Python sources. Every speed is a ratio within this run. ``--out`` writes a record that
``python -m benchmarks --record FILE`` puts into `results.json`. Needs torch and a CUDA GPU; what
else is missing (transformers, tokenizers) is reported as such.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["run"]

SOURCE = Path(__file__).resolve().parent.parent / "src"
LLAMA_8B = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 8192,
}  # fmt: skip
TOTAL = 65_536


def engine_modules() -> None:
    """Make the engine importable where the rest of this package's dependencies are absent.

    The engine needs torch and numpy only; the packages above it need more.
    """
    if str(SOURCE) not in sys.path:
        sys.path.insert(0, str(SOURCE))
    try:
        importlib.import_module("cje.policies")
    except ImportError as error:
        print(f"only the engine is imported: {error}", flush=True)
        for name in ("cje", "cje.policies"):
            module = types.ModuleType(name)
            module.__path__ = [str(SOURCE / name.replace(".", "/"))]
            sys.modules[name] = module


# Timing ------------------------------------------------------------------------------------------


def seconds_of(call: Callable[[], Any], repeats: int, warm: int = 2) -> list[float]:
    """Device seconds of each of `repeats` calls, measured with events."""
    import torch

    for _ in range(warm):
        call()
    torch.cuda.synchronize()
    found = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end) / 1e3)
    return found


def median(values: Sequence[float]) -> float:
    return float(np.median(values))


def matmul_rate(dtype: Any, repeats: int = 600, warm: int = 100, n: int = 8192) -> float:
    """TFLOP/s of an n^3 product on random data, sustained for about a second."""
    import torch

    a, b = (torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(2))
    return 2 * n**3 / median(seconds_of(lambda: a @ b, repeats, warm)) / 1e12


def bar(name: str, value: float, limit: float | str, note: str = "") -> dict[str, Any]:
    """One line of the result; fine when `value` is at most `limit`."""
    fine = True if isinstance(limit, str) else bool(value <= limit)
    line = {"bar": name, "value": float(value), "limit": limit, "ok": fine, "note": note}
    print("ok  " if fine else "MISS", name, f"{value:.4g} (limit {limit})", note, flush=True)
    return line


# The work ----------------------------------------------------------------------------------------


def ragged(total: int, responses: int = 1, seed: int = 1) -> list[Any]:
    """Rows of 64 to 1,024 tokens, half of each a response, that fill `total` tokens unshared."""
    from cje.policies.local.packing import Item

    rng = np.random.default_rng(seed)
    items: list[Any] = []
    used = 0
    while True:
        length = int(rng.integers(64, 1025))
        prompt = length // 2
        size = (length - 1) * responses
        if used + size > total:
            length, responses_left = total - used + 1, 1
            if length < 8:
                return items
            prompt, responses = length // 2, responses_left
            size = length - 1
        shared = tuple(rng.integers(0, LLAMA_8B["vocab_size"], prompt).tolist())
        for _ in range(responses):
            own = rng.integers(0, LLAMA_8B["vocab_size"], length - prompt).tolist()
            items.append(Item(shared, tuple(own)))
        used += size
        if used >= total:
            return items


def useful_flops(shape: Any, items: Sequence[Any]) -> float:
    """Of the blocks, the causal half of attention, and the head at response positions."""
    width = shape.heads * shape.head_dim
    total = 0.0
    for item in items:
        n = len(item.prompt) + len(item.response) - 1
        total += n * shape.flops_per_token + 2.0 * shape.layers * n * n * width
        total += 2.0 * len(item.response) * shape.hidden * shape.vocabulary
    return total


class Big:
    """The 8B shape with random weights in float16, and what was measured on it."""

    def __init__(self, quick: bool) -> None:
        import torch

        from cje.policies.local.blocks import BlockNet
        from cje.policies.local.engine import ScoringEngine
        from cje.policies.local.shape import read_shape
        from cje.policies.local.weights import random_weights

        config = LLAMA_8B | ({"num_hidden_layers": 4} if quick else {})
        shape = read_shape(config)
        assert not isinstance(shape, str), shape
        self.shape, self.quick, self.config = shape, quick, config
        self.weights = random_weights(shape, torch.float16, torch.device("cuda"))
        self._make: Callable[..., Any] = lambda rows, **more: ScoringEngine(
            BlockNet(shape, self.weights, rows=rows, compiled=True), compiled=True, **more
        )
        self.engine = self._make(None)
        self.items = ragged(TOTAL)
        self.repeats = 3 if quick else 5

    def invariant(self) -> Any:
        return self._make(self._rows())

    def unshared(self) -> Any:
        return self._make(None, share_prefixes=False)

    @staticmethod
    def _rows() -> int:
        from cje.policies.local.engine import INVARIANT_ROWS

        return INVARIANT_ROWS["cuda"]

    def time(
        self,
        engine: Any,
        items: Sequence[Any],
        samplings: Sequence[Any] = (),
        *,
        repeats: int | None = None,
        warm: int = 2,
    ) -> list[float]:
        """Seconds of whole passes, planned once; results stay on the device."""
        from cje.policies.local.head import Sampling

        packs = engine.plan(items)
        chosen = list(samplings) or [Sampling()]

        def once() -> None:
            for pack in packs:
                engine._start(pack, chosen)

        return seconds_of(once, repeats or self.repeats, warm)


def speed(big: Big) -> list[dict[str, Any]]:
    """Share of the sustained matmul rate; memory above the weights."""
    import torch

    packs = big.engine.plan(big.items)
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    big.time(big.engine, big.items, repeats=1)
    torch.cuda.reset_peak_memory_stats()
    big.time(big.engine, big.items, repeats=1, warm=0)
    peak = (torch.cuda.max_memory_allocated() - held) / 2**30
    # Interleaved, and the product for as long as a pass: a short burst runs at a higher clock.
    rates, times = [], []
    for _ in range(big.repeats):
        rates.append(matmul_rate(torch.float16))
        times += big.time(big.engine, big.items, repeats=1, warm=0)
    rates.append(matmul_rate(torch.float16))
    rate, burst = median(rates), matmul_rate(torch.float16, 60, warm=10)
    print("products", [round(r) for r in rates], f"in a short burst {burst:.0f} TFLOP/s")
    flops = useful_flops(big.shape, big.items) / 1e12
    tokens = sum(pack.used for pack in packs)
    best, typical = flops / min(times), flops / median(times)
    note = (
        f"{typical:.0f} TFLOP/s beside {rate:.0f} of the sustained 8192^3 product ({burst:.0f} in "
        f"a burst of 0.1 s: {typical / burst:.1%}), fastest pass {best:.0f}; "
        f"{tokens} tokens in {len(packs)} packs, {tokens / median(times):.0f} tokens/s"
    )
    print(f"share of matmul {typical / rate:.4f}, bare products {_bare(big):.0f} TFLOP/s")
    big.tokens_per_second = tokens / median(times)
    return [
        bar("8B shape: matmul rate over useful rate", rate / typical, 1 / 0.84,
            f"share {typical / rate:.1%}; {note}"),
        bar("peak memory above the weights, 65,536 tokens (GiB)", peak, 10.0),
    ]  # fmt: skip


def _plain() -> list[Any]:
    from cje.policies.local.head import Sampling

    return [Sampling()]


def _bare(big: Big) -> float:
    """TFLOP/s of the blocks' products alone, at the same shapes."""
    import torch
    import torch.nn.functional as F

    x = torch.randn(TOTAL, big.shape.hidden, device="cuda", dtype=torch.float16)
    y = torch.randn(TOTAL, big.shape.inner, device="cuda", dtype=torch.float16)

    def products() -> None:
        for block in big.weights.blocks:
            for weight in (block.qkv, block.out, block.gate_up):
                F.linear(x, weight)
            F.linear(y, block.down)

    return TOTAL * big.shape.flops_per_token / 1e12 / median(seconds_of(products, 3, warm=1))


def prefix(big: Big) -> list[dict[str, Any]]:
    """Four responses per prompt: rows per second with the prompt read once, and four times."""
    items = ragged(int(1.58 * TOTAL), responses=4, seed=3)
    shared, alone = big.time(big.engine, items), big.time(big.unshared(), items)
    read = sum(pack.used for pack in big.engine.plan(items))
    whole = sum(len(item.prompt) + len(item.response) - 1 for item in items)
    return [
        bar("4 responses per prompt: time shared over unshared", median(shared) / median(alone),
            1 / 1.5, f"{median(alone) / median(shared):.2f} x rows/s; {whole / read:.2f} x fewer "
            f"tokens are read ({len(items)} rows)"),
    ]  # fmt: skip


def temperatures(big: Big) -> list[dict[str, Any]]:
    """Three policies that differ by temperature, and one."""
    from cje.policies.local.head import Sampling

    three = [Sampling(t) for t in (0.7, 1.0, 1.3)]
    one = big.time(big.engine, big.items)
    all_three = big.time(big.engine, big.items, three)
    return [
        bar("3 temperatures: time over that of one", median(all_three) / median(one), 1.1),
    ]


def invariant(big: Big) -> list[dict[str, Any]]:
    """Batch-invariant mode: its time, and whether the bits really are the same."""
    engine = big.invariant()
    slow, fast = big.time(engine, big.items), big.time(big.engine, big.items)
    rows = big.items[:48]
    whole = engine.score_all(rows)
    order = np.random.default_rng(5).permutation(len(rows))
    halves: dict[int, Any] = {}
    for part in (order[:17], order[17:]):
        halves |= dict(zip(part, engine.score_all([rows[i] for i in part]), strict=True))
    same = sum(bool((whole[i] == halves[i]).all()) for i in range(len(rows)))
    usual = big.engine.score_all(rows)
    again = big.engine.score_all([rows[i] for i in order[:17]])
    moved = sum(
        not bool((usual[i] == values).all()) for i, values in zip(order[:17], again, strict=True)
    )
    return [
        bar("batch-invariant mode: rows whose bits differ in another batch", len(rows) - same, 0,
            f"of {len(rows)}; in the usual mode {moved} of {len(again)}"),
        bar("batch-invariant mode: time over the usual mode's", median(slow) / median(fast),
            "reported"),
    ]  # fmt: skip


def padded_transformers(big: Big) -> list[dict[str, Any]]:
    """transformers with padded batches of 16 and full logits, in bfloat16: the usual recipe."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**{k: v for k, v in big.config.items() if k != "model_type"})
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            model = LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(default)
    items, size = big.items, 16
    batches = []
    for at in range(0, len(items), size):
        part = items[at : at + size]
        longest = max(len(item.prompt) + len(item.response) for item in part)
        ids = torch.zeros((len(part), longest), dtype=torch.int64)
        mask = torch.zeros((len(part), longest), dtype=torch.int64)
        for row, item in enumerate(part):
            text = [*item.prompt, *item.response]
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        batches.append((ids.cuda(), mask.cuda()))

    @torch.inference_mode()
    def once() -> None:
        for ids, mask in batches:
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
            scores = torch.log_softmax(logits.float(), -1)
            scores.gather(2, ids[:, 1:, None])

    theirs = seconds_of(once, 3, warm=1)
    ours = big.time(big.engine, items)
    padding = sum(ids.numel() for ids, _ in batches) / sum(int(m.sum()) for _, m in batches)
    return [
        bar("time over transformers, padded, full logits, bfloat16", median(ours) / median(theirs),
            1 / 2.2, f"{median(theirs) / median(ours):.2f} x tokens/s; padding {padding:.2f} x"),
    ]  # fmt: skip


# Correctness on the device -----------------------------------------------------------------------


def _small() -> tuple[Any, Any]:
    """Shape and weights of a small model, the same numbers in float16 and float32."""
    import torch

    from cje.policies.local.shape import read_shape
    from cje.policies.local.weights import random_weights

    shape = read_shape(LLAMA_8B | {
        "num_hidden_layers": 4, "hidden_size": 512, "num_attention_heads": 8,
        "num_key_value_heads": 2, "intermediate_size": 1408, "vocab_size": 4096,
    })  # fmt: skip
    assert not isinstance(shape, str)
    cpu = random_weights(shape, torch.float32, torch.device("cpu"), scale=0.06)
    for block in cpu.blocks:  # the same numbers in both precisions
        for value in vars(block).values():
            if value is not None:
                value.copy_(value.half().float())
    cpu.embedding.copy_(cpu.embedding.half().float())
    cpu.head.copy_(cpu.head.half().float())
    return shape, cpu


def write() -> list[dict[str, Any]]:
    """What was written, scored again: the self-ratio, in both modes."""
    import torch

    from cje.policies.local.blocks import BlockNet
    from cje.policies.local.engine import ScoringEngine
    from cje.policies.local.generation import Text, _write_together
    from cje.policies.local.head import Sampling
    from cje.policies.local.packing import Item

    shape, cpu = _small()
    weights, rng = _moved(cpu, torch.float16), np.random.default_rng(8)
    prompts = [tuple(rng.integers(0, 4096, int(n)).tolist()) for n in rng.integers(5, 300, 16)]
    rows = []
    for name, at_once, limit in (("batch-invariant", 1024, 0.0), ("usual", None, "reported")):
        net = BlockNet(shape, weights, rows=at_once, compiled=True, whole=8192)
        engine = ScoringEngine(net, batch_tokens=8192, compiled=True)
        holder = types.SimpleNamespace(engine=engine, batch_invariant=at_once is not None)
        texts = [
            Text(i, "t", prompts[i % 16], frozenset(), Sampling(0.5 + 0.5 * (i % 2)), 48,
                 np.random.default_rng(i), lambda text: text)
            for i in range(64)
        ]  # fmt: skip
        with torch.inference_mode():
            _write_together(holder, sorted(texts, key=lambda text: text.prompt))
        gaps = []
        for sampling in {text.sampling for text in texts}:
            own = [text for text in texts if text.sampling == sampling]
            scored = engine.score_all([Item(t.prompt, tuple(t.ids)) for t in own], [sampling])
            gaps += [
                abs(float(np.sum(values[0] - np.array(text.logs, dtype=np.float32))))
                + float(np.abs(values[0] - np.array(text.logs, dtype=np.float32)).max())
                for values, text in zip(scored, own, strict=True)
            ]
        rows.append(bar(f"{name}: written against scored, worst response (nats)", max(gaps), limit,
                        f"{sum(g == 0 for g in gaps)} of {len(gaps)} exactly equal"))  # fmt: skip
    return rows


def check() -> list[dict[str, Any]]:
    """Flash attention, prefixes, invariance and overflow on a small model, against the CPU twin."""
    import torch

    from cje.policies.local.blocks import BlockNet
    from cje.policies.local.engine import ScoringEngine
    from cje.policies.local.head import Sampling
    from cje.policies.local.packing import Item

    shape, cpu = _small()
    gpu = _moved(cpu, torch.float16)
    rng = np.random.default_rng(2)

    def words(n: int) -> tuple[int, ...]:
        return tuple(rng.integers(0, 4096, n).tolist())

    system = words(70)
    items = []
    for number in range(40):
        prompt = (system if number % 2 else ()) + words(int(rng.integers(1, 200)))
        items += [Item(prompt, words(int(rng.integers(1, 200)))) for _ in range(1 + number % 4)]
    samplings = [Sampling(t) for t in (0.7, 1.0, 1.3)] + [Sampling(1.0, 0.999)]
    truth = ScoringEngine(BlockNet(shape, cpu)).score_all(items, samplings[:3])
    rows = []
    for name, rows_at_once, share in (
        ("shared prefixes", None, True), ("each row alone", None, False),
        ("batch-invariant", 1024, True),
    ):  # fmt: skip
        net = BlockNet(shape, gpu, rows=rows_at_once, compiled=True)
        engine = ScoringEngine(net, batch_tokens=8192, share_prefixes=share, compiled=True)
        found = engine.score_all(items, samplings[:3])
        worst = max(float(np.abs(a - b).max()) for a, b in zip(truth, found, strict=True))
        rows.append(bar(f"{name}: worst token against the float32 twin (nats)", worst, 0.05))
        if rows_at_once:
            order = rng.permutation(len(items))
            again = engine.score_all([items[i] for i in order], samplings[:3])
            bad = sum(not bool((found[i] == v).all()) for i, v in zip(order, again, strict=True))
            rows.append(bar("batch-invariant: rows whose bits differ when reordered", bad, 0))
    loud = _moved(cpu, torch.float16)
    loud.blocks[1].gate_up.mul_(300.0)
    overflowing = ScoringEngine(BlockNet(shape, loud), batch_tokens=8192)
    quiet = _moved(loud, torch.float32)
    exact = ScoringEngine(BlockNet(shape, quiet), batch_tokens=8192).score_all(items)
    found = overflowing.score_all(items)
    worst = max(float(np.abs(a - b).max()) for a, b in zip(exact, found, strict=True))
    rows.append(bar("overflowing rows, rescored: worst token (nats)", worst, 0.05,
                    f"{overflowing.counts.rescored} of {len(items)} rows rescored"))  # fmt: skip
    return rows


def _moved(weights: Any, dtype: Any) -> Any:
    """A copy of weights on the GPU."""
    from cje.policies.local.blocks import Block, Weights

    def moved(name: str, value: Any) -> Any:
        if value is None:
            return None
        return value.to("cuda", copy=True) if "norm" in name else value.to("cuda", dtype, copy=True)

    blocks = [Block(**{k: moved(k, v) for k, v in vars(b).items()}) for b in weights.blocks]
    return Weights(moved("embedding", weights.embedding), blocks, moved("norm", weights.norm),
                   moved("head", weights.head))  # fmt: skip


SECTIONS = (
    "check",
    "write",
    "speed",
    "temperatures",
    "prefix",
    "invariant",
    "transformers",
    "error",
)


def run(quick: bool = False, sections: Sequence[str] = SECTIONS) -> list[dict[str, Any]]:
    """All bars; a section that fails is a row that says so."""
    engine_modules()
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("scoring needs a CUDA GPU: no device was found")
    print(torch.__version__, torch.cuda.get_device_name(), flush=True)
    torch.manual_seed(0)
    big: list[Big] = []

    def on_big(section: Callable[[Big], list[dict[str, Any]]]) -> Callable[[], Any]:
        def call() -> list[dict[str, Any]]:
            if not big:
                big.append(Big(quick))
            return section(big[0])

        return call

    def errors() -> list[dict[str, Any]]:
        from benchmarks.scoring_error import log_ratio_error

        big.clear()
        torch.cuda.empty_cache()
        return log_ratio_error(quick)

    made: Mapping[str, Callable[[], list[dict[str, Any]]]] = {
        "check": check, "write": write, "speed": on_big(speed), "prefix": on_big(prefix),
        "temperatures": on_big(temperatures), "invariant": on_big(invariant),
        "transformers": on_big(padded_transformers), "error": errors,
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    for name in sections:
        start = time.perf_counter()
        try:
            rows += made[name]()
        except Exception as error:  # the other sections still have something to say
            traceback.print_exc()
            said = f"{type(error).__name__}: {error}"[:200]
            rows.append({"bar": f"section {name}", "value": None, "limit": "runs", "ok": False,
                         "note": said})  # fmt: skip
        print(f"-- {name}: {time.perf_counter() - start:.0f} s", flush=True)
    return rows


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 layers, fewer repetitions")
    parser.add_argument("--out", type=Path, help="write the record here")
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], default=[])
    chosen = parser.parse_args()
    start, cpu = time.perf_counter(), time.process_time()
    rows = run(chosen.quick, chosen.sections or SECTIONS)
    if chosen.out is not None:
        import torch

        entry = {
            "module": "scoring", "size": "quick" if chosen.quick else "full", "rows": rows,
            "seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu,
            "where": f"{torch.cuda.get_device_name()}, torch {torch.__version__}",
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        }  # fmt: skip
        chosen.out.write_text(json.dumps(entry, indent=1), encoding="utf-8")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
