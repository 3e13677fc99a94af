"""A report tells nothing of who and where: planted secrets never appear in it."""

from __future__ import annotations

import ipaddress
import uuid

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aeonctl.core.checks import Check, Status, checks_of
from aeonctl.core.checks_own import Surroundings, host_findings
from aeonctl.core.host import Host
from aeonctl.core.report import redacted, report_text
from tests.core.test_checks import ROWS, host, spark, wsl2

ALNUM = st.text("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789", min_size=10, max_size=20)
SERIAL = ALNUM.filter(lambda text: any(c.isdigit() for c in text) and any(c.isalpha() for c in text))
TOKEN = st.builds(
    lambda head, tail: head + tail,
    st.sampled_from(["hf_", "sk-", "ghp_", "nvapi-", "github_pat_"]),
    st.text("abcdefghijABCDEFGHIJ0123456789", min_size=20, max_size=40),
)
NAME = st.text("abcdefghijklmnopqrstuvwxyz", min_size=5, max_size=12).map(lambda text: f"zq{text}")
ADDRESS = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6)
    .filter(lambda a: isinstance(a, ipaddress.IPv6Address) and a > ipaddress.IPv6Address(2**64))
    .map(str),
    st.lists(st.integers(0, 255), min_size=6, max_size=6).map(lambda parts: ":".join(f"{p:02x}" for p in parts)),
)
GPU_UUID = st.uuids().map(lambda value: f"GPU-{value}")


def planted(secret: str, name: str) -> Host:
    """A host whose free texts hold a secret everywhere that foreign text can come from."""
    return host(
        about=f"of {secret}",
        gpus=[{"index": 0, "name": f"NVIDIA {secret}", "uuid": secret, "processes": [{"pid": 1, "name": secret}]}],
        docker={
            "reachable": False,
            "problem": "failed",
            "detail": f"dial {secret} failed for {name}",
            "endpoint": f"ssh://{name}@{secret}",
            "context": secret,
        },
        disks=[{"role": "hub-cache", "path": f"/home/{name}/.cache", "free_bytes": 10**12}],
        details__own={"held": [f"up: {secret} (pid 7)"], "stale": [], "containers": []},
        details__system={"product": secret, "firmware": "5.36"},
    )


@given(st.one_of(TOKEN, SERIAL, ADDRESS, GPU_UUID), NAME)
@example(str(uuid.UUID(int=7)), "zqalice")
@settings(deadline=None)
def test_nothing_planted_appears(secret: str, name: str) -> None:
    one = planted(secret, name)
    text = report_text(one, checks_of(host_findings(one, Surroundings(), ROWS), ROWS), "1.0", [name])
    assert secret not in text
    assert name not in text


@given(st.text(min_size=3, max_size=30).filter(lambda word: word.strip() == word and "\n" not in word), st.text())
def test_a_private_word_is_taken_out_wherever_it_stands(word: str, around: str) -> None:
    if word.lower() not in "<private>":
        assert f" {word} " not in redacted(f"{around} {word} {around}".replace("\n", " "), [word]).replace(
            "<private>", ""
        )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("kernel 6.6.114.1-microsoft-standard-WSL2", "kernel 6.6.114.1-microsoft-standard-WSL2"),
        ("driver 580.95.05, CUDA 13.0", "driver 580.95.05, CUDA 13.0"),
        (
            "Docker 20.10.24+dfsg1 at unix:///var/run/docker.sock",
            "Docker 20.10.24+dfsg1 at unix:///var/run/docker.sock",
        ),
        ("NVIDIA GeForce RTX 5090 sm 12.0 34.2 GB", "NVIDIA GeForce RTX 5090 sm 12.0 34.2 GB"),
        ("from https://huggingface.co and ghcr.io/org/x", "from https://huggingface.co and ghcr.io/org/x"),
        ("/home/alice/.cache and /mnt/c/Users/Alice/x", "/home/<user>/.cache and /mnt/c/Users/<user>/x"),
        ("C:\\Users\\Alice\\.wslconfig", "C:\\Users\\<user>\\.wslconfig"),
        ("ssh://alice@gx10 and tcp://10.0.0.1:2375", "ssh://<host> and tcp://<host>"),
        ("lookup gx10.lan: no such host", "lookup <host>: no such host"),
        ("HF_TOKEN=abc password: secret1", "HF_TOKEN=<secret> password: <secret>"),
        ("Authorization: Bearer abc.def", "Authorization: <secret>"),
        ("serial number 1234567890123", "serial number <id>"),
        ("mail a.b@c.de", "mail <address>"),
    ],
)
def test_what_stays_and_what_goes(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_a_report_whole() -> None:
    one = spark(
        details__system={"dgx": {"DGX_OTA_VERSION": "7.5.0"}, "product": "NVIDIA_DGX_Spark", "firmware": "5.36"},
        details__wsl={"version": "2.6.1"},
    )
    checks = [
        Check(id="docker", status=Status.FAIL, summary="Docker does not run", detail="at /home/alice/docker.sock"),
        Check(id="wsl-memory", status=Status.SKIP, summary="no", applies=False),
    ]
    assert report_text(one, checks, "0.1.0") == (
        "### aeonctl doctor\n\naeonctl 0.1.0\n\n```\n"
        "platform   linux arm64 6.14.0\n"
        "memory     68.7 GB available 64.4 GB\n"
        "swap       8.6 GB\n"
        "driver     580.95.05 CUDA 13.0\n"
        "gpu        NVIDIA GB10 sm 12.1 shared memory free unknown\n"
        "docker     28.5.1 native\n"
        "docker gpu runtime True hook True cdi 0\n"
        "dgx        7.5.0 NVIDIA_DGX_Spark 5.36\n"
        "wsl        2.6.1\n"
        "\n"
        "fail  docker             Docker does not run\n"
        "                         at /home/<user>/docker.sock\n"
        "```\n"
    )


def test_a_report_of_a_machine_without_a_gpu() -> None:
    text = report_text(wsl2(gpus=None, driver={}), [], "0.1.0")
    assert "driver     \n" in text
    assert "gpu  " not in text
