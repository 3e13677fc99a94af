#!/bin/bash
# Make $CACHE/rootfs: a minimal Debian with a C++ compiler, the ground the engine image stands on.  About 1 minute.
#
# DEBIAN_SUITE    bookworm, or trixie where this machine's C library (and so its Python) is newer than bookworm's
# DEBIAN_MIRROR   the archive to take it from (default: debootstrap's own)
set -euo pipefail
. "$(dirname "$0")/common.sh"
require_root "debootstrap"

GLIBC=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
if [ "$(printf '%s\n' "$GLIBC" 2.36 | sort -V | tail -1)" = 2.36 ]; then SUITE=bookworm; else SUITE=trixie; fi
SUITE=${DEBIAN_SUITE:-$SUITE}
KEY="$SUITE, recipe 1"
R=$CACHE/rootfs

one_at_a_time rootfs
if done_before rootfs "$KEY"; then
  say "rootfs: present"
  exit 0
fi
undo_stamp rootfs
for mounted in proc sys; do
  if mountpoint -q "$R/$mounted"; then umount "$R/$mounted"; fi # left by a debootstrap that was cut short
done
rm -rf --one-file-system "$R"

say "rootfs: debootstrap $SUITE"
# shellcheck disable=SC2086  # no mirror: no argument
debootstrap --variant=minbase --include=ca-certificates,curl,iproute2,procps "$SUITE" "$R" ${DEBIAN_MIRROR:-} \
  > "$CACHE/debootstrap.log" 2>&1 || die "debootstrap failed; its log is $CACHE/debootstrap.log"
say "rootfs: compiler and libraries"
# g++: torch.compile builds C++ when the engine starts (not with --enforce-eager); the rest: what Python's modules,
# torch and vLLM's worker link against
export DEBIAN_FRONTEND=noninteractive
{
  retry chroot "$R" apt-get update &&
    retry chroot "$R" apt-get install -y --no-install-recommends g++ libgomp1 libnuma1 numactl libssl3 \
      libsqlite3-0 libffi8 libbz2-1.0 liblzma5 libexpat1 libreadline8 zlib1g libtcmalloc-minimal4
} >> "$CACHE/debootstrap.log" 2>&1 || die "apt-get in the new root failed; its log is $CACHE/debootstrap.log"
chroot "$R" apt-get clean
rm -rf "$R"/var/lib/apt/lists/*
mark_done rootfs "$KEY"
