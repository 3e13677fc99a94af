"""The beginnings of a model's files: enough to tell weights from pointers to them and from pieces of them."""

from __future__ import annotations

from pathlib import Path

from aeonctl.core.safetensors import LENGTH_BYTES, LFS_POINTER, Header, HeaderError, header_length, parse_header

_LARGEST_POINTER = 1024


def read_header(path: Path, size: int) -> Header:
    """A safetensors file's header. HeaderError for what is none; OSError when it cannot be read."""
    with path.open("rb", buffering=0) as stream:
        length = header_length(stream.read(LENGTH_BYTES), size)
        raw = bytearray()
        while len(raw) < length and (piece := stream.read(length - len(raw))):
            raw += piece
    return parse_header(bytes(raw), size)


def problem_of(path: Path, size: int) -> str | None:
    """Why a file that is there is not what its name says; None when nothing speaks against it."""
    try:
        if path.suffix == ".safetensors":
            read_header(path, size)
        elif size <= _LARGEST_POINTER:
            with path.open("rb", buffering=0) as stream:
                if stream.read(len(LFS_POINTER)) == LFS_POINTER:
                    return "it is a git LFS pointer, not the file itself (git lfs pull)"
    except HeaderError as error:
        return str(error)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return None
