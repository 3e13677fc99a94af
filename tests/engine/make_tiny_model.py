# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, unused-ignore"
"""Make a tiny Qwen3 with random weights (2 layers, hidden size 64, a vocabulary of 512): loads fast, talks nonsense.

usage: make_tiny_model.py OUT_DIR        run by the engine venv's python: needs torch, transformers, tokenizers

OUT_DIR/flat    a plain folder of real files
OUT_DIR/hub     the same model laid out as in a Hugging Face hub cache, as the repository "test/tiny"
"""

import hashlib
import shutil
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

CONTEXT_TOKENS = 131_072
REPO_ID = "test/tiny"
REVISION = "0123456789abcdef0123456789abcdef01234567"
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
CHAT_TEMPLATE = """{%- if tools %}<|im_start|>system
# Tools
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}<|im_end|>
{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{%- if m.tool_calls %}{% for tc in m.tool_calls %}<tool_call>{{ tc | tojson }}</tool_call>{% endfor %}{% endif %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{%- if enable_thinking is defined and enable_thinking is false %}
<think>

</think>

{% else %}
<think>
{% endif %}{%- endif %}"""  # noqa: E501  (a line break here would be part of the prompt)


def train_tokenizer() -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer on the doc strings of what this file imports."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    corpus = [thing.__doc__ or "" for thing in (torch, Tokenizer, Qwen3Config, Path, shutil, hashlib, dict, str, list)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=SPECIAL_TOKENS, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(corpus, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=CONTEXT_TOKENS,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Build the network, with the same weights each time."""
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = Qwen3Config(
        vocab_size=(len(tokenizer) + 63) // 64 * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=CONTEXT_TOKENS,
        tie_word_embeddings=True,
        bos_token_id=None,
        dtype="bfloat16",
        rope_theta=1e6,
        **ends,
    )
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.generation_config = GenerationConfig(do_sample=True, temperature=0.6, top_k=20, top_p=0.95, **ends)
    return model


def lay_out_as_hub_cache(flat: Path, hub: Path) -> None:
    """Store the files of `flat` as a hub cache does: blobs by digest, and a snapshot of relative links to them."""
    repository = hub / f"models--{REPO_ID.replace('/', '--')}"
    snapshot = repository / "snapshots" / REVISION
    for folder in (repository / "blobs", repository / "refs", snapshot):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text(REVISION)
    for file in sorted(flat.iterdir()):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        # the hub names a large file's blob by its SHA-256 and a small one's by a 40-digit git hash
        blob = digest if file.suffix == ".safetensors" else digest[:40]
        shutil.copy(file, repository / "blobs" / blob)
        (snapshot / file.name).symlink_to(f"../../blobs/{blob}")


def main(out: Path) -> None:
    flat, hub = out / "flat", out / "hub"
    for folder in (flat, hub):
        shutil.rmtree(folder, ignore_errors=True)
    flat.mkdir(parents=True)
    tokenizer = train_tokenizer()
    tokenizer.save_pretrained(flat)
    build_model(tokenizer).save_pretrained(flat)
    for file in flat.iterdir():
        file.chmod(0o644)
    lay_out_as_hub_cache(flat, hub)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
