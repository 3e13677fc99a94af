"""What follows from a host's facts."""

from __future__ import annotations

import pytest

from aeonctl.core.host import Gpu, Host, Memory, MemoryKind, usable_bytes, vram_gib
from aeonctl.errors import ConfigurationError


def test_two_gpus_cannot_share_an_index() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Host.parse({"gpus": [{"index": 0}, {"index": 0}]}, "host.yaml", "host_invalid")
    assert "two GPUs have the same index" in caught.value.causes[0]


def test_an_unknown_size_stays_unknown() -> None:
    gpu = Gpu(index=0)
    assert usable_bytes(gpu, Memory(total_bytes=1)) is None
    assert vram_gib(gpu, Memory(total_bytes=1)) is None


def test_unified_memory_is_the_systems() -> None:
    assert usable_bytes(Gpu(index=0, memory=MemoryKind.UNIFIED), Memory(total_bytes=7)) == 7


def test_a_port_nobody_listens_on_has_no_owner() -> None:
    assert Host(ports=()).port_owner(8000) is None
    assert Host.parse({"ports": [{"port": 8000}]}, "x").port_owner(8000) == "an unknown process"
