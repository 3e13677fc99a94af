# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, unused-ignore"
"""Turn the GGUF of SmolLM2-135M-Instruct into a Hugging Face folder that vLLM serves: a real model that really answers.

usage: make_small_model.py GGUF OUT_DIR
       run by the engine venv's python, with gguf and accelerate beside it

270 MB, Llama architecture, 30 layers, 8,192 tokens of context, Apache-2.0. It answers a simple question; it does not
find a fact in more than a few hundred tokens.
"""

import sys
from pathlib import Path

import gguf
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig

LAYER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
MODEL_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}


def number(reader: gguf.GGUFReader, key: str) -> float:
    """Read a scalar of the GGUF's metadata."""
    field = reader.fields[key]
    return float(field.parts[field.data[0]][0].item())


def hugging_face_name(name: str) -> str:
    """Translate a tensor's name: "blk.3.attn_q.weight" is "model.layers.3.self_attn.q_proj.weight"."""
    if not name.startswith("blk."):
        return f"{MODEL_NAMES[name.removesuffix('.weight')]}.weight"
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{LAYER_NAMES[part]}.weight"


def split_rotary_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo GGUF's order of the rows of q and k: it interleaves the rotary halves, Hugging Face keeps them apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def dequantized_weights(reader: gguf.GGUFReader) -> dict[str, torch.Tensor]:
    """Read every tensor as bfloat16, by its Hugging Face name."""
    heads = {
        ".attn_q.": int(number(reader, "llama.attention.head_count")),
        ".attn_k.": int(number(reader, "llama.attention.head_count_kv")),
    }
    weights: dict[str, torch.Tensor] = {}
    for tensor in reader.tensors:
        weight = torch.tensor(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        for part, count in heads.items():
            if part in tensor.name:
                weight = split_rotary_halves(weight, count)
        weights[hugging_face_name(tensor.name)] = weight.to(torch.bfloat16).contiguous()
    return weights


def main(source: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(source)
    weights = dequantized_weights(reader)
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.save_pretrained(out)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    LlamaConfig(
        vocab_size=weights["model.embed_tokens.weight"].shape[0],
        hidden_size=int(number(reader, "llama.embedding_length")),
        intermediate_size=int(number(reader, "llama.feed_forward_length")),
        num_hidden_layers=int(number(reader, "llama.block_count")),
        num_attention_heads=int(number(reader, "llama.attention.head_count")),
        num_key_value_heads=int(number(reader, "llama.attention.head_count_kv")),
        max_position_embeddings=int(number(reader, "llama.context_length")),
        rms_norm_eps=number(reader, "llama.attention.layer_norm_rms_epsilon"),
        rope_theta=number(reader, "llama.rope.freq_base"),
        tie_word_embeddings="lm_head.weight" not in weights,
        pad_token_id=tokenizer.pad_token_id,
        architectures=["LlamaForCausalLM"],
        dtype="bfloat16",
        **ends,
    ).save_pretrained(out)
    GenerationConfig(**ends).save_pretrained(out)
    for file in out.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
