#!/bin/bash
# A private Docker engine for the tests, apart from any other on the machine.
#
# usage: dockerd.sh start DIR     start it, or say that it runs; prints its DOCKER_HOST on stdout
#        dockerd.sh stop DIR      stop it and take its bridge away; what it stored stays in DIR/data
#        dockerd.sh status DIR    exit status 0 when it answers
#
# DOCKERD        the engine's program (default: dockerd on PATH)
# DOCKERD_ARGS   more arguments for it
#
# Everything it owns lies in DIR: data, exec (run-time state and the socket of its own containerd), docker.sock,
# dockerd.pid, dockerd.log. The bridge and the containerd namespaces are named after DIR, and no firewall rule is
# written, so that any number of such engines run side by side and beside the machine's own. Without firewall rules a
# published port is still reached from this machine, and a container still reaches this machine; it does not reach the
# world.
set -euo pipefail
. "$(dirname "$0")/common.sh"

PATH=$PATH:/usr/sbin:/sbin
COMMAND=${1:-} DIR=${2:-}
[ -n "$DIR" ] || die "usage: $(basename "$0") start|stop|status DIR"
case $DIR in /*) ;; *) DIR=$PWD/$DIR ;; esac
# a unix socket's path holds 107 bytes, and the longest is DIR/exec/containerd/containerd-debug.sock
[ ${#DIR} -le 70 ] || die "$DIR: the path must not be longer than 70 characters, sockets lie in it"

ID=$(printf '%s' "$DIR" | sha256sum | cut -c1-8)
BRIDGE=aeon-$ID
SOCKET=$DIR/docker.sock
PIDFILE=$DIR/dockerd.pid

answers() { DOCKER_HOST=unix://$SOCKET timeout 10 docker version >/dev/null 2>&1; }

# the process id of this DIR's dockerd; fails when there is none (a stale file may name another process by now)
running_pid() {
  local pid
  pid=$(cat "$PIDFILE" 2>/dev/null) || return 1
  [ -e "/proc/$pid/cmdline" ] || return 1
  tr '\0' '\n' < "/proc/$pid/cmdline" | grep -qx -- "--pidfile=$PIDFILE" && echo "$pid"
}

# a /24 of 10.x.y.0 that no interface and no route of this machine covers, the same one each time where it is free
free_subnet() {
  local try number subnet
  for try in $(seq 0 63); do
    number=$(((16#${ID:0:6} + try * 257) % 65536))
    subnet=10.$((number / 256)).$((number % 256))
    # a route to it other than the default one means that it is taken
    if ip -4 route show match "$subnet.1" | grep -qv '^default'; then continue; fi
    echo "$subnet"
    return 0
  done
  die "no free subnet for the bridge $BRIDGE"
}

make_bridge() {
  ip link show "$BRIDGE" >/dev/null 2>&1 || ip link add "$BRIDGE" type bridge
  if ! ip -4 -br address show dev "$BRIDGE" | grep -q /24; then
    local subnet
    subnet=$(free_subnet)
    ip address add "$subnet.1/24" dev "$BRIDGE"
  fi
  ip link set "$BRIDGE" up
}

# dockerd accepts --gpus only when it finds NVIDIA's hook on its PATH as it starts. This one lets every container pass
# unchanged: --gpus is then accepted, and no device appears.
make_gpu_hook() {
  mkdir -p "$DIR/bin"
  printf '#!/bin/sh\ncat > /dev/null\nexit 0\n' > "$DIR/bin/nvidia-container-runtime-hook"
  chmod 755 "$DIR/bin/nvidia-container-runtime-hook"
}

launch() {
  local dockerd
  dockerd=${DOCKERD:-$(command -v dockerd)} || die "dockerd is not installed"
  make_gpu_hook
  make_bridge
  rm -f "$PIDFILE"
  echo '{}' > "$DIR/daemon.json" # in place of the machine's own /etc/docker/daemon.json
  # shellcheck disable=SC2086  # DOCKERD_ARGS is a list of words
  PATH=$DIR/bin:$PATH setsid "$dockerd" --data-root="$DIR/data" --exec-root="$DIR/exec" \
    --host="unix://$SOCKET" --pidfile="$PIDFILE" --bridge="$BRIDGE" --iptables=false --ip6tables=false \
    --containerd-namespace="aeon-$ID" --containerd-plugins-namespace="aeon-$ID-plugins" \
    --config-file="$DIR/daemon.json" ${DOCKERD_ARGS:-} >> "$DIR/dockerd.log" 2>&1 < /dev/null 8>&- 9>&- &
  PID=$!
}

start() {
  require_root "starting a Docker engine"
  mkdir -p "$DIR"
  exec 9> "$DIR/lock"
  flock 9
  if PID=$(running_pid); then
    say "dockerd: already running in $DIR (pid $PID)"
  else
    launch
    say "dockerd: starting in $DIR (pid $PID)"
  fi
  for _ in $(seq 300); do
    if answers; then
      echo "unix://$SOCKET"
      return 0
    fi
    kill -0 "$PID" 2>/dev/null || break
    sleep 0.2
  done
  tail -n 15 "$DIR/dockerd.log" >&2
  die "dockerd does not answer on $SOCKET; its log is $DIR/dockerd.log"
}

stop() {
  require_root "stopping a Docker engine"
  local pid
  if pid=$(running_pid); then
    kill -TERM "$pid"
    for _ in $(seq 300); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.2
    done
    if kill -KILL "$pid" 2>/dev/null; then say "dockerd: pid $pid did not end in 60 s and was killed"; fi
    say "dockerd: stopped in $DIR"
  else
    say "dockerd: not running in $DIR"
  fi
  rm -f "$PIDFILE" "$SOCKET"
  if ip link show "$BRIDGE" >/dev/null 2>&1; then ip link delete "$BRIDGE"; fi
}

case $COMMAND in
  start) start ;;
  stop) stop ;;
  status) running_pid >/dev/null && answers ;;
  *) die "usage: $(basename "$0") start|stop|status DIR" ;;
esac
