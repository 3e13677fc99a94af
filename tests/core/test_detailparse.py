"""What doctor reads, from text as machines write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aeonctl.core import detailparse
from aeonctl.core.hostdetails import KernelLog

KMSG = """6,1,0,-;Linux version 6.14.0
4,900,1,-;NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
4,901,2,-;NVRM: Xid (PCI:0000:01:00): 31, pid=7, name=python3, MMU Fault
4,902,3,-;NVRM: Xid (PCI:0000:01:00): 31, pid=8, name=python3, MMU Fault
3,903,4,-;NVRM: nvCheckOkFailedNoLog: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from _memdescAllocInternal
3,904,5,-;Out of memory: Killed process 99 (python3) total-vm:1kB
3,905,6,-;NVRM: installed in this system requires use of the NVIDIA open kernel modules.
"""

STATUS = """Package: nvidia-utils-570
Status: install ok installed
Version: 570

Package: libnvidia-compute-570
Status: deinstall ok config-files

Package: cuda-drivers-575
Status: install ok installed

Package: cuda-toolkit-13-0
Status: install ok installed

Package: nvidia-container-toolkit
Status: install ok installed

Description: a block without a name
"""

DGX = """DGX_NAME="DGX Spark"
DGX_SERIAL_NUMBER="1234567890123"
DGX_SWBUILD_VERSION='7.2.3'
DGX_OTA_VERSION="7.5.0"
not a line
"""


def test_the_kernels_log() -> None:
    assert detailparse.kernel_log(KMSG) == KernelLog(
        xids={"79": 1, "31": 2}, no_memory=1, oom_kills=1, open_module_needed=True
    )
    assert detailparse.kernel_log("") == KernelLog()


def test_packages_of_a_driver_and_of_the_toolkit() -> None:
    assert detailparse.driver_packages(STATUS) == ("cuda-drivers-575", "nvidia-utils-570")
    assert detailparse.has_package(STATUS, "nvidia-container-toolkit")
    assert not detailparse.has_package(STATUS, "libnvidia-compute-570")


def test_wslconfig() -> None:
    text = "\ufeff# mine\n[wsl2]\nMemory = 24GB\n;no=1\n[ General ]\ninstanceIdleTimeout=-1\nnonsense\n"
    assert detailparse.wslconfig(text) == {"wsl2.memory": "24GB", "general.instanceidletimeout": "-1"}


def test_the_serial_number_is_not_read() -> None:
    found = detailparse.dgx_release(DGX)
    assert found == {"DGX_NAME": "DGX Spark", "DGX_SWBUILD_VERSION": "7.2.3", "DGX_OTA_VERSION": "7.5.0"}


@pytest.mark.parametrize(
    ("text", "runtimes"),
    [
        (
            '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}, "odd": 1}}',
            {"nvidia": "nvidia-container-runtime", "odd": ""},
        ),
        ("{}", {}),
        ('{"runtimes": []}', {}),
        ("[]", None),
        ("{", None),
    ],
)
def test_the_runtimes_of_daemon_json(text: str, runtimes: dict[str, str] | None) -> None:
    assert detailparse.daemon_runtimes(text) == runtimes


def test_versions() -> None:
    assert detailparse.cdi_driver("hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05") == "580.95.05"
    assert detailparse.cdi_driver("kind: nvidia.com/gpu") is None
    assert detailparse.library_version("libnvidia-ml.so.580.95.05") == "580.95.05"
    assert detailparse.library_version("libnvidia-ml.so.1") is None
    assert detailparse.wsl_version("WSL version: 2.6.1.0") == "2.6.1"
    assert detailparse.wsl_version("none") is None
    assert detailparse.tdr_delay("    TdrDelay    REG_DWORD    0x3c\r\n") == 60
    assert detailparse.tdr_delay("ERROR") is None
    assert detailparse.meminfo_bytes("MemFree:  8 kB\n", "MemFree") == 8192
    assert detailparse.meminfo_bytes("", "MemFree") is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://huggingface.co", "https://huggingface.co"),
        ("https://user:word@mirror.test:8443/path?x=1", "https://mirror.test:8443"),
        ("http://[::1]:80/", "http://[::1]:80"),
        ("huggingface.co", "invalid"),
        ("ftp://x", "invalid"),
        ("https://", "invalid"),
    ],
)
def test_of_an_endpoint_only_scheme_and_host(url: str, shown: str) -> None:
    assert detailparse.bare_endpoint(url) == shown


@given(st.text())
def test_no_text_makes_a_parser_raise(text: str) -> None:
    detailparse.kernel_log(text)
    detailparse.driver_packages(text)
    detailparse.wslconfig(text)
    detailparse.dgx_release(text)
    detailparse.daemon_runtimes(text)
    detailparse.bare_endpoint(text)
