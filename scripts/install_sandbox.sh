#!/bin/sh
# Make .venv-sandbox: the Python in which operators and kernels run, with torch. Usage: install_sandbox.sh [PACKAGE ...]
# It is kept apart from .venv so that nothing of the host enters the sandbox's path.
set -eu
cd "$(dirname "$0")/.."
torch=${CUDA_AGENT_TORCH:-torch==2.13.0}
if [ -n "${CUDA_AGENT_PYTHON:-}" ]; then
    echo "The sandbox's Python is \$CUDA_AGENT_PYTHON ($CUDA_AGENT_PYTHON)."
    exit 0
fi
pip_install() {
    .venv-sandbox/bin/python -m pip install --quiet --disable-pip-version-check "$@"
}
if [ ! -x .venv-sandbox/bin/python ]; then
    python=$(command -v python3 || true)
    if [ -z "$python" ] || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$(sh scripts/find_python.sh)
    fi
    if ! "$python" -m venv .venv-sandbox; then
        rm -rf .venv-sandbox
        echo "$python cannot make a virtual environment: install its venv package (apt install python3-venv) and run this again." >&2
        exit 2
    fi
fi
if ! .venv-sandbox/bin/python -I -c 'import torch' 2>/dev/null; then
    if [ -e /proc/driver/nvidia/version ] || command -v nvidia-smi >/dev/null 2>&1; then
        echo "Installing $torch with CUDA into .venv-sandbox: about 3 GB to download."
        pip_install "$torch" numpy
    else
        echo "Installing $torch for the CPU into .venv-sandbox: about 200 MB to download (no NVIDIA GPU here)."
        # PyTorch's own index has the small build; where it cannot be reached the default index serves.
        pip_install --index-url https://download.pytorch.org/whl/cpu --timeout 10 --retries 0 "$torch" >/dev/null 2>&1 ||
            pip_install "$torch"
        pip_install numpy
    fi
fi
if [ $# -gt 0 ]; then
    pip_install "$@"
fi
