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
PYTHONPATH="$scratch/site" "$root/.venv/bin/python" - "$root" <<'PY'
import pathlib
import sys
import cuda_agent
from cuda_agent import resources
site = pathlib.Path.cwd() / "site"
assert pathlib.Path(cuda_agent.__file__).is_relative_to(site), cuda_agent.__file__
for path in (resources.prompts_dir(), resources.workspace_template(), resources.judge_package(), resources.judge_main(),
             resources.dockerfile(), resources.run_command()):
    assert path.exists() and path.is_relative_to(site), path
places = {
    "agent/cuda_agent": "cuda_agent",
    "tools/cuda_agent_tools": "cuda_agent_tools",
    "sandbox_image/cuda_agent_judge": "cuda_agent_judge",
    "sandbox_image/workspace": "cuda_agent/sandbox_image/workspace",
    "prompts": "cuda_agent/prompts",
}
for folder, packed in places.items():
    missing = resources.tree(pathlib.Path(sys.argv[1]) / folder).keys() - resources.tree(site / packed).keys()
    assert not missing, f"the wheel lacks {sorted(missing)} of {folder}"
PY
PYTHONPATH="$scratch/site" "$root/.venv/bin/python" -m cuda_agent --version
