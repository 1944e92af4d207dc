#!/bin/sh
# Make .venv (the host side) and install the project into it. Usage: install_host.sh [EXTRA]
set -eu
cd "$(dirname "$0")/.."
extra=${1:+[$1]}
if [ ! -x .venv/bin/python ]; then
    python=$(sh scripts/find_python.sh)
    echo "Making .venv with $("$python" --version) ($python); packages to download: about 150 MB."
    if ! "$python" -m venv .venv; then
        rm -rf .venv
        echo "$python cannot make a virtual environment: install its venv package (apt install python3-venv) and run this again." >&2
        exit 2
    fi
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".$extra"
