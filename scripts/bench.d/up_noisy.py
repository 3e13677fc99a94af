"""``aeonctl`` with a rehearsal engine that writes a boot log of many megabytes before it starts.

up_noisy.py MEGABYTES WORD ...            run aeonctl with these words
up_noisy.py --engine MEGABYTES WORD ...   be that engine
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace

LINES = (
    "(EngineCore pid=73) DEBUG 11-30 12:00:00 [backends.py:{n}] compiled subgraph {n} of a model with a long name",
    "(APIServer pid=1) INFO 11-30 12:00:00 [loader.py:{n}] a line that no phase and no signature knows, number {n}",
    "Loading safetensors checkpoint shards:   0% Completed | 0/{n} [00:00<?, ?it/s]\r",
)


def be_engine(megabytes: int, words: list[str]) -> None:
    written = number = 0
    while written < megabytes * 1_000_000:
        block = "".join(f"{line.format(n=number + i)}\n" for i in range(200) for line in LINES).encode()
        sys.stdout.buffer.write(block)
        written += len(block)
        number += 200
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "aeonctl.rehearsal_engine", *words])


def run_aeonctl(megabytes: str, words: list[str]) -> int:
    from aeonctl.adapters.real import build_ports
    from aeonctl.adapters.rehearsal import Rehearsal
    from aeonctl.main import main

    ports = build_ports(None, os.environ)
    command = (sys.executable, __file__, "--engine", megabytes)
    return main(words, replace(ports, rehearsal=Rehearsal(ports.state, command=command)))


if __name__ == "__main__":
    if sys.argv[1] == "--engine":
        be_engine(int(sys.argv[2]), sys.argv[3:])
    else:
        raise SystemExit(run_aeonctl(sys.argv[1], sys.argv[2:]))
