#!/bin/sh
# Run the tests that need a Docker engine: contract, escapes and whole runs, on an image built here.
# Needs root only where something has to be installed or started. Everything it starts or makes is gone afterwards:
# the engine that it started with all its data, or, in an engine that was running, the images that it built.
set -eu
cd "$(dirname "$0")/.."
base=cuda-agent-test-base:bookworm
image=cuda-agent-sandbox:test
scratch=$(mktemp -d)
daemon=

finish() {
    status=$?
    trap - EXIT INT TERM HUP
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    elif docker version >/dev/null 2>&1; then
        docker image rm --force $made >/dev/null 2>&1 || true
        docker image prune --force --filter label=cuda-agent.image >/dev/null 2>&1 || true
    fi
    # What an engine leaves mounted must go before its data.
    awk -v root="$scratch" 'index($2, root) == 1 { print $2 }' /proc/mounts | sort -r | while read -r place; do
        umount "$place" 2>/dev/null || true
    done
    rm -rf "$scratch"
    exit $status
}
made=
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

install() {
    if [ "$(id -u)" != 0 ]; then
        echo "make test-docker needs $*: install it, or run this as root." >&2
        exit 2
    fi
    echo "installing $*"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } \
        >"$scratch/apt.log" 2>&1 || { tail -n 20 "$scratch/apt.log" >&2; exit 3; }
}

start_engine() {
    if ! command -v dockerd >/dev/null 2>&1; then
        install docker.io
    fi
    echo "starting dockerd"
    export DOCKER_HOST="unix://$scratch/docker.sock"
    dockerd --host "$DOCKER_HOST" --data-root "$scratch/data" --exec-root "$scratch/exec" --pidfile "$scratch/pid" \
        --iptables=false --ip6tables=false --bridge=none >"$scratch/dockerd.log" 2>&1 &
    daemon=$!
    tries=0
    until docker version >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $tries -gt 120 ] || ! kill -0 "$daemon" 2>/dev/null; then
            tail -n 20 "$scratch/dockerd.log" >&2
            echo "dockerd does not start here." >&2
            exit 3
        fi
        sleep 0.5
    done
}

# No registry is needed: the base comes from Debian's package mirror.
make_base() {
    if docker image inspect "$base" >/dev/null 2>&1; then
        return
    fi
    made="$base"
    command -v debootstrap >/dev/null 2>&1 || install debootstrap
    echo "making $base"
    debootstrap --variant=minbase --include=ca-certificates,g++,ninja-build,python3-dev bookworm "$scratch/base" \
        >"$scratch/debootstrap.log" 2>&1 || { tail -n 20 "$scratch/debootstrap.log" >&2; exit 3; }
    rm -rf "$scratch"/base/var/cache/apt/archives/*.deb
    tar -C "$scratch/base" -c . | docker import - "$base" >/dev/null
    rm -rf "$scratch/base"
}

# The CPU build of torch: PyTorch's own index has it; where that cannot be reached the default index serves.
download() {
    .venv/bin/python -m pip download --quiet --disable-pip-version-check --dest "$scratch/wheels" \
        --only-binary=:all: --implementation cp --python-version 3.11 --platform "manylinux_2_28_$(uname -m)" \
        --platform "manylinux_2_17_$(uname -m)" --platform "manylinux2014_$(uname -m)" "$@" >"$scratch/pip.log" 2>&1
}
get_packages() {
    torch=${CUDA_AGENT_TORCH:-torch==2.13.0}
    echo "downloading $torch for the CPU"
    if ! { download --index-url https://download.pytorch.org/whl/cpu --timeout 10 --retries 0 "$torch" ||
        download "$torch"; } || ! download numpy pip; then
        tail -n 5 "$scratch/pip.log" >&2
        exit 3
    fi
}

docker version >/dev/null 2>&1 || start_engine
make_base
docker image inspect "$image" >/dev/null 2>&1 || made="$made $image"
get_packages
export CUDA_AGENT_TEST_IMAGE="$image" PYTHONPATH="agent:tools:sandbox_image"
unset CUDA_AGENT_PYTHON CUDA_AGENT_IMAGE || true
if ! .venv/bin/python -m cuda_agent image build --tag "$image" --base "$base" --python-version 3.11 \
    --torch "$torch" --wheels "$scratch/wheels" >"$scratch/build.log" 2>&1; then
    tail -n 20 "$scratch/build.log" >&2
    exit 3
fi
tail -n 1 "$scratch/build.log"
.venv/bin/python -m cuda_agent image check --tag "$image"
sh scripts/pytest.sh .venv/bin/python -m docker tests/contract tests/integration "$@"
