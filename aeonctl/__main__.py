"""``python -m aeonctl``."""

from aeonctl.main import run

run()
