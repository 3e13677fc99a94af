"""``python -m aeonctl.rehearsal_engine serve MODEL_DIR [flags]``."""

import os
import sys

from aeonctl.rehearsal_engine.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
