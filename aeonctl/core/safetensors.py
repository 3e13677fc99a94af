"""The head of a safetensors file: which tensors it holds, of which type, and whether the file can be whole.

The format: 8 bytes with the header's length (little-endian), a JSON object that names every tensor with its type, shape
and place, then the data (huggingface/safetensors, README, "Format").
"""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

LENGTH_BYTES = 8
LARGEST_HEADER = 100_000_000
"""Bytes; the reference reader refuses more."""
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""What a large file begins with where only git's pointer to it was fetched."""


class HeaderError(ValueError):
    """No safetensors file, or not a whole one."""


class Tensor(NamedTuple):
    """One tensor: its type as written (``BF16``, ``F8_E4M3``, ``U8``), its shape, its size in bytes."""

    dtype: str
    shape: tuple[int, ...]
    size: int


class Header(NamedTuple):
    """Everything that a header says."""

    tensors: dict[str, Tensor]

    def bytes_by_type(self) -> Counter[str]:
        """Bytes of data per type."""
        count: Counter[str] = Counter()
        for tensor in self.tensors.values():
            count[tensor.dtype] += tensor.size
        return count


def header_length(start: bytes, file_size: int) -> int:
    """The header's length in bytes from the file's first eight; HeaderError when the file cannot hold it."""
    if start.startswith(LFS_POINTER[:LENGTH_BYTES]):
        raise HeaderError("it is a git LFS pointer, not the file itself")
    if len(start) < LENGTH_BYTES:
        raise HeaderError(f"it is {file_size} bytes long, too short for a header")
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if not 2 <= length <= min(LARGEST_HEADER, file_size - LENGTH_BYTES):
        raise HeaderError(f"its header would be {length} bytes long in a file of {file_size}")
    return length


def parse_header(raw: bytes, file_size: int) -> Header:
    """The header's JSON, and the data's size against the file's; HeaderError for what is damaged or cut off."""
    try:
        data = json.loads(raw)
        listed = {name: entry for name, entry in data.items() if name != "__metadata__"}
        tensors = {name: _tensor(entry) for name, entry in listed.items()}
        end = max((entry["data_offsets"][1] for entry in listed.values()), default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise HeaderError(f"its header cannot be read: {type(error).__name__}: {error}"[:200]) from error
    expected = LENGTH_BYTES + len(raw) + end
    if expected != file_size:
        raise HeaderError(f"it is {file_size} bytes long, and its header speaks of {expected}")
    return Header(tensors)


def _tensor(entry: dict[str, object]) -> Tensor:
    begin, end = (int(offset) for offset in entry["data_offsets"])  # type: ignore[attr-defined]
    if not 0 <= begin <= end:
        raise ValueError(f"a tensor's place is {begin} to {end}")
    shape = tuple(int(part) for part in entry["shape"])  # type: ignore[attr-defined]
    return Tensor(str(entry["dtype"]), shape, end - begin)
