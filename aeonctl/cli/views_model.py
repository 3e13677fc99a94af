"""How a model's folder is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aeonctl.cli.session import Outcome, Session
from aeonctl.core.units import human_bytes

if TYPE_CHECKING:
    from aeonctl.core.checkpoint import Checkpoint
    from aeonctl.core.kernels import KernelPath
    from aeonctl.workflows.show_model import ImageView, ModelView


def model(view: ModelView, session: Session) -> Outcome:
    """What it is, what is missing of it, the kernels on this card, and the images that know it."""
    facts, output = view.facts, session.output
    rows = [("folder", facts.path), ("files", f"{facts.files}, {human_bytes(facts.bytes or 0)}")]
    rows += [("missing", problem) for problem in facts.missing]
    rows += _checkpoint(view.checkpoint)
    if view.architecture is not None:
        rows.append(("needs vLLM", f"{view.architecture.since_vllm} or newer ({view.architecture.source})"))
    rows += [("image", _image(image)) for image in view.images]
    output.data(output.table(rows))
    card = f"compute capability {view.sm}" if view.sm else "a machine without a GPU"
    output.data(f"kernels on {card} ({view.host.name}):\n")
    for path in view.kernels:
        output.data(_kernel(path))
    return Outcome(view.as_json())


def _checkpoint(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    parts = f" ({', '.join(checkpoint.parts)})" if len(checkpoint.parts) > 1 else ""
    types = ", ".join(f"{name} {human_bytes(size)}" for name, size in checkpoint.bytes_by_type.items())
    return [
        ("kind", checkpoint.kind),
        ("architecture", checkpoint.architecture or "not stated"),
        ("quantization", checkpoint.quantization + parts),
        ("weights", types or "no safetensors files"),
        ("KV cache", checkpoint.kv_cache or "not stated"),
        ("experts", str(checkpoint.experts or "none: dense")),
        ("vision", "yes" if checkpoint.vision else "no"),
        ("MTP head", f"{checkpoint.mtp_layers} layers" if checkpoint.mtp_layers else "none"),
        ("chat template", "yes" if checkpoint.chat_template else "none: chat requests need --chat-template"),
        ("context", f"{checkpoint.context} tokens" if checkpoint.context else "not stated"),
    ]


def _image(image: ImageView) -> str:
    words = {True: "new enough", False: "older than the first that is known to serve it", None: "unverified"}[
        image.new_enough
    ]
    return f"{image.id} (vLLM {image.vllm or 'unknown'}): {words}"


def _kernel(path: KernelPath) -> str:
    part, row = path
    if row is None:
        return f"  {part}: nothing is known of it on this card\n"
    advice = f"      {row.advice}\n" if row.advice else ""
    return f"  {part}: {row.path} ({row.source})\n{advice}"
