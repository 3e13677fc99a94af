"""The wheel holds everything: unpacked elsewhere, without the checkout, it plans a seat."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


def run(*words: str, folder: Path, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=folder, env=inherited | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_plans_outside_of_the_checkout(tmp_path: Path) -> None:
    name = run(sys.executable, "-c", BUILD, str(tmp_path), folder=ROOT).split()[-1]
    site = tmp_path / "site"
    with zipfile.ZipFile(tmp_path / name) as wheel:
        wheel.extractall(site)
    environment = {"PYTHONPATH": str(site), "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}

    where = run(sys.executable, "-c", "import aeonctl; print(aeonctl.__file__)", folder=tmp_path, **environment)
    words = (sys.executable, "-m", "aeonctl", "plan", "--as", "rtx-5090", "--seat", "quality")
    text = run(*words, folder=tmp_path, **environment)

    assert where.startswith(str(site))
    assert text.startswith("# rtx-5090/quality on rtx-5090")
    assert "docker run" in text
    assert "aeonctl = aeonctl.main:run" in next(site.glob("*.dist-info/entry_points.txt")).read_text()
