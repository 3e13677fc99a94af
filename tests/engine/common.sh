# shellcheck shell=bash
# Shared by the scripts in this folder: where things lie, how a step is marked as done, how progress is told.
# Sourced, never run.
#
# A step's result counts as present only when its stamp, written last, holds the step's key. A step that was cut short
# therefore has no stamp and is done again; a recipe that changed has another key and is done again too.

umask 022

VLLM_VERSION=0.32.0
ENGINE_IMAGE=vllm-cpu:$VLLM_VERSION
SHIM_IMAGE=vllm-cpu:$VLLM_VERSION-shim
BUSYBOX_IMAGE=aeonctl-test/busybox:1

CACHE=${AEONCTL_TEST_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/aeonctl-tests}
VENV=$CACHE/venv
ENGINE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CACHE VENV ENGINE_DIR ENGINE_IMAGE SHIM_IMAGE BUSYBOX_IMAGE

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

require_root() { [ "$(id -u)" = 0 ] || die "$1 needs root"; }

# done_before STEP KEY: was STEP finished with this KEY?
done_before() { [ "$(cat "$CACHE/stamps/$1" 2>/dev/null)" = "$2" ]; }

# undo_stamp STEP: call before touching what STEP made
undo_stamp() { rm -f "$CACHE/stamps/$1"; }

mark_done() {
  mkdir -p "$CACHE/stamps"
  printf '%s\n' "$2" > "$CACHE/stamps/$1.new"
  mv "$CACHE/stamps/$1.new" "$CACHE/stamps/$1"
}

# one_at_a_time STEP: wait for another run of STEP on this cache, then hold the lock until this shell exits
one_at_a_time() {
  mkdir -p "$CACHE/locks"
  exec 8> "$CACHE/locks/$1"
  flock 8
}

# retry COMMAND...: three attempts, for downloads over a poor line
retry() {
  local attempt
  for attempt in 1 2 3; do
    "$@" && return 0
    say "attempt $attempt of 3 failed: $*"
  done
  return 1
}

# tree_hash PATH...: a key that changes with the content of these files
tree_hash() { cat -- "$@" | sha256sum | cut -c1-16; }
