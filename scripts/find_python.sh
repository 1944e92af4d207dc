#!/bin/sh
# Print the path of a Python that can run cuda-agent itself: 3.12 or newer, below 3.14.
# A name on PATH counts only if it really runs (pyenv's shims exist for versions that are not selected).
set -u

usable() {
    "$1" -c 'import sys; sys.exit(not (3, 12) <= sys.version_info[:2] < (3, 14))' >/dev/null 2>&1
}

for name in "${CUDA_AGENT_HOST_PYTHON:-python3.13}" python3.13 python3.12 python3; do
    path=$(command -v "$name" 2>/dev/null) || continue
    if usable "$path"; then
        echo "$path"
        exit 0
    fi
done

for path in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.13*/bin/python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3; do
    if usable "$path"; then
        echo "$path"
        exit 0
    fi
done

if command -v uv >/dev/null 2>&1; then
    path=$(uv python find '>=3.12,<3.14' 2>/dev/null) && usable "$path" && echo "$path" && exit 0
    uv python install 3.12 >&2 && path=$(uv python find 3.12) && echo "$path" && exit 0
fi

echo "cuda-agent needs Python 3.12 or 3.13: install one (apt install python3.12 python3.12-venv, pyenv install 3.12, or uv python install 3.12) and run this again." >&2
exit 2
