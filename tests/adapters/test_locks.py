"""Locks between real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aeonctl.adapters.clock import SystemClock
from aeonctl.adapters.locks import FileLocks, holder_words
from aeonctl.errors import HostError

HOLD = (
    "import sys\n"
    "from pathlib import Path\n"
    "from aeonctl.adapters.clock import SystemClock\n"
    "from aeonctl.adapters.locks import FileLocks\n"
    "with FileLocks(Path(sys.argv[1]), SystemClock()).hold('engine', 'aeonctl up') as holder:\n"
    "    print(holder, flush=True)\n"
    "    sys.stdin.read()\n"
)


class At(SystemClock):
    """A clock that stands still."""

    def timestamp(self) -> float:
        return datetime(2026, 9, 18, 12, 30, tzinfo=UTC).timestamp()


def test_the_second_hears_who_holds_it(tmp_path: Path) -> None:
    locks = FileLocks(tmp_path / "not/yet", At())
    with locks.hold("engine", "aeonctl up") as mine:
        assert mine is None
        with locks.hold("engine", "aeonctl down") as theirs:
            assert str(theirs).startswith("aeonctl up (pid ")
            assert str(theirs).endswith(", since 2026-09-18 12:30:00 UTC)")
        with locks.hold("another", "aeonctl up") as another:
            assert another is None
        note = json.loads((tmp_path / "not/yet/locks/engine.lock").read_text())
        assert (note["who"], sorted(note)) == ("aeonctl up", ["pid", "since", "who"])
    with locks.hold("engine", "aeonctl up") as again:
        assert again is None


def test_a_lock_is_given_back_after_an_error(tmp_path: Path) -> None:
    locks = FileLocks(tmp_path, At())
    with pytest.raises(KeyboardInterrupt), locks.hold("engine", "x"):
        raise KeyboardInterrupt
    with locks.hold("engine", "x") as holder:
        assert holder is None


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "None\n"
    locks = FileLocks(tmp_path, At())
    with locks.hold("engine", "me") as holder:
        assert str(holder).startswith(f"aeonctl up (pid {process.pid}, since ")
    process.kill()
    process.communicate()
    with locks.hold("engine", "me") as holder:
        assert holder is None


def test_a_child_does_not_keep_it(tmp_path: Path) -> None:
    locks = FileLocks(tmp_path, At())
    with locks.hold("engine", "me"):
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        with locks.hold("engine", "me") as holder:
            assert holder is None
    finally:
        child.communicate()


def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError) as caught, FileLocks(tmp_path / "file", At()).hold("engine", "me"):
        pass
    assert (caught.value.code, bool(caught.value.hint)) == ("state_unwritable", True)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "a\0"])
def test_names_that_would_leave_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"), FileLocks(tmp_path, At()).hold(name, "me"):
        pass


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b"{}", b'{"pid": 1, "who": "x", "since": 1e300}', b"\xff"])
def test_a_note_that_says_nothing(note: bytes) -> None:
    assert holder_words(note) == "another process"


def test_the_clock_goes_forward() -> None:
    clock = SystemClock()
    before = clock.now()
    clock.sleep(0)
    clock.sleep(-1)
    clock.sleep(0.001)
    assert clock.now() > before
    assert clock.timestamp() > 1_700_000_000
