"""Write a Llama of `train_tiny.py` as GGUF, in float32: ``to_gguf.py MODEL OUT [--no-bos]``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--no-bos", action="store_true", help="the server puts no BOS in front")
    options = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(options.model).float()
    config = model.config
    writer = gguf.GGUFWriter(options.out, "llama")
    writer.add_name(options.out.stem)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _vocabulary(writer, options.model, bos=not options.no_bos)
    for name, tensor in model.state_dict().items():
        if name in NAMES:
            writer.add_tensor(NAMES[name], tensor.numpy())
            continue
        _, _, layer, rest = name.split(".", 3)
        part = rest.removesuffix(".weight")
        values = tensor.numpy()
        if part.endswith(("q_proj", "k_proj")):
            values = _rotary_pairs(values, config.num_attention_heads)
        writer.add_tensor(f"blk.{layer}.{LAYER[part]}.weight", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _rotary_pairs(weights: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """GGUF keeps the two halves of each rotated pair beside each other."""
    rows, columns = weights.shape
    split = weights.reshape(heads, 2, rows // heads // 2, columns)
    return split.swapaxes(1, 2).reshape(rows, columns)


def _vocabulary(writer: gguf.GGUFWriter, folder: Path, *, bos: bool) -> None:
    data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = data["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    special = {entry["content"] for entry in data["added_tokens"] if entry["special"]}
    spm = bool(data["model"].get("byte_fallback"))

    def kind(token: str) -> gguf.TokenType:
        if token == "<unk>":
            return gguf.TokenType.UNKNOWN
        if token in special:
            return gguf.TokenType.CONTROL
        byte = spm and token.startswith("<0x")
        return gguf.TokenType.BYTE if byte else gguf.TokenType.NORMAL

    writer.add_tokenizer_model("llama" if spm else "gpt2")
    if not spm:
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_merges([" ".join(merge) for merge in data["model"]["merges"]])
    writer.add_token_list(tokens)
    # SentencePiece merges the pair with the best score first: scores in the order of the merges.
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types([kind(token) for token in tokens])
    end = "</s>" if spm else "<|im_end|>"
    writer.add_bos_token_id(vocabulary["<s>"])
    writer.add_eos_token_id(vocabulary[end])
    writer.add_add_bos_token(bos)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(spm)


if __name__ == "__main__":
    main()
