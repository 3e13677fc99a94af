#!/bin/bash
# Make the image aeonctl-test/busybox:1 in the engine at DOCKER_HOST: the static busybox and a link for each applet.
set -euo pipefail
. "$(dirname "$0")/common.sh"

if docker image inspect "$BUSYBOX_IMAGE" >/dev/null 2>&1; then
  say "busybox image: present"
  exit 0
fi
BUSYBOX=$(command -v busybox) || die "busybox is not installed"
"$BUSYBOX" ldd "$BUSYBOX" 2>/dev/null | grep -q '=>' && die "$BUSYBOX is not static (on Debian: busybox-static)"

ROOT=$(mktemp -d)
trap 'rm -rf "$ROOT"' EXIT
mkdir -p "$ROOT"/{bin,etc,root,tmp,var}
chmod 755 "$ROOT"
chmod 1777 "$ROOT/tmp"
cp "$BUSYBOX" "$ROOT/bin/busybox"
for applet in $("$BUSYBOX" --list); do
  [ "$applet" = busybox ] || ln -s busybox "$ROOT/bin/$applet"
done
echo 'root:x:0:0:root:/root:/bin/sh' > "$ROOT/etc/passwd"
echo 'root:x:0:' > "$ROOT/etc/group"
tar -C "$ROOT" --numeric-owner --owner=0 --group=0 -cf - . | docker import \
  --change 'CMD ["/bin/sh"]' --change 'ENV PATH=/bin' --change 'LABEL org.opencontainers.image.version=1' \
  - "$BUSYBOX_IMAGE" >&2
say "busybox image: $BUSYBOX_IMAGE"
