# What the scripts/with-* of brokers and databases share: a directory, a port, a server that ends
# with the command.
work=
port=
server=

begin() {
    work=$(mktemp -d "/tmp/punctual-$1-XXXXXX")
    port=$(free_port)
    trap end EXIT
}

end() {
    local code=$?
    trap - EXIT
    [ -z "$server" ] || stop_server
    rm -rf "$work"
    exit $code
}

# By its id: other servers of that name are not ours.
stop_server() {
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
}

# A port of loopback that is free, below those that the system gives by itself.
free_port() {
    local port
    for _ in {1..50}; do
        port=$((20000 + RANDOM % 10000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
    fail 'no port is free'
}

# Waits for a minute until a command succeeds.
await() {
    local left=300
    until "$@" >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || fail "the server ended: $(tail -n 20 "$work/log")"
        ((left--)) || fail "the server did not start in a minute: $(tail -n 20 "$work/log")"
        sleep 0.2
    done
}

install_package() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
        fail "install $* (Debian, Ubuntu: sudo apt-get install $*)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

fail() {
    printf '%s: %s\n' "$0" "$*" >&2
    exit 1
}
