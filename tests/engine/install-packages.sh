#!/bin/bash
# Install the Debian packages whose programs are missing, and nothing when none is. Needs root then.
set -euo pipefail
. "$(dirname "$0")/common.sh"
PATH=$PATH:/usr/sbin:/sbin

# "program package": asked for by program, because a machine may have its Docker from elsewhere
MISSING=()
while read -r program package; do
  command -v "$program" >/dev/null || MISSING+=("$package")
done <<'LIST'
dockerd docker.io
docker docker-cli
busybox busybox-static
debootstrap debootstrap
docker-registry docker-registry
ip iproute2
flock util-linux
curl curl
LIST
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || MISSING+=(debian-archive-keyring)

if [ ${#MISSING[@]} = 0 ]; then
  say "packages: present"
  exit 0
fi
require_root "installing ${MISSING[*]}"
export DEBIAN_FRONTEND=noninteractive
retry apt-get update -qq >&2
# up to Debian 12 the docker.io package holds the command line too, and there is no docker-cli
PACKAGES=()
for package in "${MISSING[@]}"; do
  if [ "$package" = docker-cli ] && ! apt-cache show docker-cli >/dev/null 2>&1; then package=docker.io; fi
  PACKAGES+=("$package")
done
say "packages: installing ${PACKAGES[*]}"
retry apt-get install -y -qq --no-install-recommends "${PACKAGES[@]}" >&2
