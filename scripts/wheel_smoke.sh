#!/bin/sh
# Build a wheel and start the program from it, away from the checkout: a missing data file shows here.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
.venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$scratch" .
mkdir "$scratch/site"
.venv/bin/python -m zipfile -e "$scratch"/*.whl "$scratch/site"
cd "$scratch"
# PYTHONPATH stands before the editable install, so the wheel's files win.
PYTHONPATH="$scratch/site" "$root/.venv/bin/python" - <<'PY'
import pathlib
import cuda_agent
from cuda_agent import resources
site = pathlib.Path.cwd() / "site"
assert pathlib.Path(cuda_agent.__file__).is_relative_to(site), cuda_agent.__file__
for path in (resources.prompts(), resources.workspace_template(), resources.judge_package(), resources.judge_main()):
    assert path.exists() and path.is_relative_to(site), path
PY
PYTHONPATH="$scratch/site" "$root/.venv/bin/python" -m cuda_agent --version
