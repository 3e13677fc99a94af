"""A deterministic tokenizer: pieces of at most five letters with the space before them, about four characters each."""

import re
import zlib
from collections.abc import Sequence
from typing import Any

VOCABULARY = 151_936
IMAGE_TOKENS = 256
_PIECE = re.compile(r" ?[^\W_]{1,5}| ?[^\w\s]{1,2}| ?_{1,2}|\s{1,4}")
_GENERATION_PROMPT = 3
_NO_THINKING_PROMPT = 4


def pieces(text: str) -> list[str]:
    """Cut a text into pieces; joined again they are the text."""
    return _PIECE.findall(text)


def token_ids(text: str) -> list[int]:
    """Return the ids of a text's pieces; the same piece has the same id in every run."""
    return [zlib.crc32(piece.encode()) % VOCABULARY for piece in pieces(text)]


def message_text(message: dict[str, Any]) -> str:
    """Return the text of a chat message whose content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict) and "text" in part)
    return "" if content is None else str(content)


def image_parts(messages: Sequence[dict[str, Any]]) -> int:
    """Count the image, video and audio parts in a conversation."""
    kinds = {"image_url", "image", "input_image", "video_url", "input_audio", "audio_url"}
    contents = (message.get("content") for message in messages)
    return sum(
        1
        for content in contents
        if isinstance(content, list)
        for part in content
        if isinstance(part, dict) and part.get("type") in kinds
    )


def chat_ids(messages: Sequence[dict[str, Any]], *, thinking: bool, extra: str = "") -> list[int]:
    """Return the prompt ids of a conversation under a ChatML-like template; ``extra`` is the tools' text."""
    ids = token_ids(extra)
    for message in messages:
        ids += [1, 2, *token_ids(message_text(message)), 3, 4]
    ids += [5] * (IMAGE_TOKENS * image_parts(messages) + _GENERATION_PROMPT)
    return ids if thinking else ids + [6] * _NO_THINKING_PROMPT
