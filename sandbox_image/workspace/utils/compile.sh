#!/usr/bin/env bash
# Builds the kernels: bash utils/compile.sh [--json]
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." || exit 3
exec python3 -m utils.compile "$@"
