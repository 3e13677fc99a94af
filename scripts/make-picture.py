"""Make docs/rehearsal.svg: a real session of ``aeonctl up --rehearse`` and ``aeonctl down`` on a pseudo-terminal.

    python scripts/make-picture.py

What the terminal showed at the end is drawn, colours and all; nothing is written by hand. A reader sees the same when
running the README's first command on a terminal.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import tempfile
import termios
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COLUMNS, ROWS = 118, 60
COMMANDS = (
    ("up", "--seat", "quality", "--rehearse", "rtx-5090"),
    ("down", "aeon-mixed-5090"),
)
ERASES = re.compile(r"\x1b\[(?:\?25[lh]|\d*[AKJ])")
ERASE_LINE = "\x1b[2K"


def record(words: tuple[str, ...], state: str) -> str:
    """What one command wrote to its terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        for name in ("NO_COLOR", "CI", "DOCKER_HOST"):
            os.environ.pop(name, None)
        os.environ |= {"TERM": "xterm-256color", "HOME": state, "XDG_STATE_HOME": state, "LINES": str(ROWS)}
        os.environ["COLUMNS"] = str(COLUMNS)
        if docker_host := os.environ.get("AEONCTL_TEST_DOCKER_HOST"):  # without a Docker, status and down warn of that
            os.environ["DOCKER_HOST"] = docker_host
        os.execv(sys.executable, [sys.executable, "-m", "aeonctl", *words])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    written = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        written += chunk
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(written.decode())
    return written.decode()


def settled(written: str) -> list[str]:
    """The lines that stay on the screen: what a progress display erased is gone."""
    lines = [""]
    for piece in re.split(r"(\r\n|\n|\r|\x1b\[\d*A|\x1b\[2K)", written):
        if piece in ("\n", "\r\n"):
            lines.append("")
        elif piece.endswith("A") and piece.startswith("\x1b["):
            del lines[-1:]
        elif piece in ("\r", ERASE_LINE):
            lines[-1] = "" if piece == ERASE_LINE else lines[-1]
        else:
            lines[-1] += ERASES.sub("", piece)
    return lines


def main() -> None:
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    with tempfile.TemporaryDirectory() as state:
        for words in COMMANDS:
            console.print(Text(f"$ aeonctl {' '.join(words)}", style="bold"))
            for line in settled(record(words, state))[:-1]:
                console.print(Text.from_ansi(line))
    svg = console.export_svg(title="a rehearsal: no GPU, no Docker, no model")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # fonts from elsewhere: the reader's own will do
    (ROOT / "docs").mkdir(exist_ok=True)
    (ROOT / "docs" / "rehearsal.svg").write_text(svg)


if __name__ == "__main__":
    main()
