#!/bin/bash
# Make the image vllm-cpu:0.32.0, a real vLLM on the CPU, in the engine at DOCKER_HOST: without any image registry, from
# a Debian root, this machine's Python and a venv. Its entrypoint is that of the upstream image, "vllm serve".
#
# SHIM=1          make vllm-cpu:0.32.0-shim as well: the same with vllm-cpu-shim/ as one more layer
#
# Containers of it need --ipc=host or a --shm-size of 1g: vLLM asks for 160 MiB of shared memory.
set -euo pipefail
. "$(dirname "$0")/common.sh"

LABEL=aeonctl.test.recipe
RECIPE="vllm-cpu $VLLM_VERSION, recipe 1"
R=$CACHE/rootfs

# has_image IMAGE RECIPE: an import or a build names its image last, so that one which has a name is whole
has_image() { [ "$(docker image inspect -f "{{index .Config.Labels \"$LABEL\"}}" "$1" 2>/dev/null)" = "$2" ]; }

# The interpreter, only what is needed of it: its prefix may be /usr.
copy_python() {
  local base=$1 minor=$2 part
  rm -rf "$R/opt/python"
  mkdir -p "$R/opt/python"/{bin,lib,include}
  cp -a "$base/bin/python$minor" "$R/opt/python/bin/"
  for part in "$base/include/python$minor" "$base"/lib/libpython"$minor".so*; do
    if [ -e "$part" ]; then cp -a "$part" "$R/opt/python/${part#"$base"/}"; fi
  done
  tar -C "$base/lib" --exclude='*/site-packages' --exclude='*/test' --exclude='*/idlelib' --exclude='*/config-*' \
    -cf - "python$minor" | tar -C "$R/opt/python/lib" -xf -
  mkdir -p "$R/opt/python/lib/python$minor/site-packages"
}

# The venv, as hard links: nothing is stored twice. sed -i writes a new file and so leaves the venv's own as it is.
copy_venv() {
  local base=$1 minor=$2 site
  rm -rf "$R/opt/vllm"
  cp -al "$VENV" "$R/opt/vllm"
  site=$R/opt/vllm/lib/python$minor/site-packages
  # triton is a gigabyte, comes with a dependency and is not used on a CPU
  rm -rf "$site"/triton "$site"/triton-* "$site"/pip "$site"/pip-* "$site"/torch/include/ATen/ops
  sed -i "s#$base#/opt/python#g; s#$VENV#/opt/vllm#g" "$R/opt/vllm/pyvenv.cfg"
  find "$R/opt/vllm/bin" -type f -exec sed -i "1s#$VENV/bin#/opt/vllm/bin#" {} +
  ln -sfn "/opt/python/bin/python$minor" "$R/opt/vllm/bin/python$minor"
  ln -sfn "python$minor" "$R/opt/vllm/bin/python3"
  ln -sfn "python$minor" "$R/opt/vllm/bin/python"
}

build_engine_image() {
  local base minor
  "$ENGINE_DIR/build-venv.sh"
  "$ENGINE_DIR/build-rootfs.sh"
  base=$("$VENV/bin/python" -c 'import sys; print(sys.base_prefix)')
  minor=$("$VENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  say "engine image: Python and vLLM into the root"
  copy_python "$base" "$minor"
  copy_venv "$base" "$minor"
  echo /opt/python/lib > "$R/etc/ld.so.conf.d/python.conf"
  chroot "$R" ldconfig
  ln -sfn /opt/vllm/bin/vllm "$R/usr/local/bin/vllm"
  ln -sfn /opt/vllm/bin/python3 "$R/usr/local/bin/python3"
  mkdir -p "$R/vllm-workspace" "$R/root/.cache"
  chroot "$R" /opt/vllm/bin/python -c 'import bz2, ctypes, lzma, sqlite3, ssl, zlib, torch' ||
    die "$base/bin/python$minor does not run inside Debian: choose another PYTHON or DEBIAN_SUITE"
  say "engine image: importing"
  tar -C "$R" --numeric-owner --exclude='./proc/*' --exclude='./sys/*' --exclude='./dev/*' -cf - . | docker import \
    --change 'ENTRYPOINT ["vllm","serve"]' --change 'WORKDIR /vllm-workspace' \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'ENV VLLM_USAGE_SOURCE=production-docker-image' --change 'ENV VLLM_NO_USAGE_STATS=1' \
    --change 'ENV HF_HUB_OFFLINE=1' --change 'ENV VLLM_CPU_KVCACHE_SPACE=1' \
    --change "LABEL org.opencontainers.image.version=$VLLM_VERSION" --change "LABEL \"$LABEL\"=\"$RECIPE\"" \
    - "$ENGINE_IMAGE" >&2
}

# Here a build, not an import: the large layer is shared, and the small one takes seconds.
build_shim_image() {
  local site
  site=$(docker run --rm --network none --entrypoint /opt/vllm/bin/python "$ENGINE_IMAGE" \
    -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  printf 'FROM %s\nCOPY . %s/\nLABEL "%s"="%s"\n' "$ENGINE_IMAGE" "$site" "$LABEL" "$1" |
    DOCKER_BUILDKIT=0 docker build -q -t "$SHIM_IMAGE" -f - "$ENGINE_DIR/vllm-cpu-shim" >&2
}

one_at_a_time image
if has_image "$ENGINE_IMAGE" "$RECIPE"; then
  say "engine image: present"
else
  require_root "making the engine image"
  build_engine_image
  say "engine image: $ENGINE_IMAGE"
fi

if [ "${SHIM:-0}" = 1 ]; then
  PLUGIN=("$ENGINE_DIR"/vllm-cpu-shim/*.py "$ENGINE_DIR"/vllm-cpu-shim/*.dist-info/*)
  SHIM_RECIPE="$(docker image inspect -f '{{.Id}}' "$ENGINE_IMAGE") with $(tree_hash "${PLUGIN[@]}")"
  if has_image "$SHIM_IMAGE" "$SHIM_RECIPE"; then
    say "shim image: present"
  else
    build_shim_image "$SHIM_RECIPE"
    say "shim image: $SHIM_IMAGE"
  fi
fi
