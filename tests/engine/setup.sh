#!/bin/bash
# Prepare everything the tests marked "docker" and "engine" need, and print it as export lines:
#
#     eval "$(tests/engine/setup.sh)"
#
# A private Docker engine is started, and in it are the images; the models lie beside it. What is there already is kept:
# the second run takes seconds. Progress goes to stderr. Needs root; installs the Debian packages that are missing.
# DOCKER_HOST is left alone, so that your own docker commands go on meaning your own engine.
#
# AEONCTL_TEST_CACHE         where all of it lies, 8 GB (default: ~/.cache/aeonctl-tests)
# AEONCTL_TEST_DOCKERD_DIR   the private engine's folder (default: dockerd in the cache)
# To stop the engine: tests/engine/dockerd.sh stop DIR
set -euo pipefail
. "$(dirname "$0")/common.sh"

"$ENGINE_DIR/install-packages.sh"
DOCKER_HOST=$("$ENGINE_DIR/dockerd.sh" start "${AEONCTL_TEST_DOCKERD_DIR:-$CACHE/dockerd}")
export DOCKER_HOST
"$ENGINE_DIR/build-busybox.sh"
SHIM=1 "$ENGINE_DIR/build-image.sh"
"$ENGINE_DIR/make-models.sh"

export_line() { printf 'export %s=%q\n' "$1" "$2"; }
export_line AEONCTL_TEST_DOCKER_HOST "$DOCKER_HOST"
export_line AEONCTL_TEST_BUSYBOX_IMAGE "$BUSYBOX_IMAGE"
export_line AEONCTL_TEST_ENGINE_IMAGE "$ENGINE_IMAGE"
export_line AEONCTL_TEST_SHIM_IMAGE "$SHIM_IMAGE"
export_line AEONCTL_TEST_TINY_MODEL "$CACHE/models/tiny/flat"
export_line AEONCTL_TEST_TINY_HUB "$CACHE/models/tiny/hub"
export_line AEONCTL_TEST_SMALL_MODEL "$CACHE/models/smol"
