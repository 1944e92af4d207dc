"""Runs the program as a person would: another process, its exit code and what it printed."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [str(ROOT / name) for name in ("agent", "tools", "sandbox_image")]
GOOD = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.relu()\n"
GOOD += "def get_inputs():\n    return [torch.randn(8)]\n"


def environment(**more: str) -> dict[str, str]:
    """The caller's environment without what would change a run's defaults, an image of the sandbox's included."""
    kept = {
        key: value for key, value in os.environ.items() if key != "CUDA_AGENT_MODEL" and not key.endswith("_API_KEY")
    }
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(SOURCES),
        "XDG_CONFIG_HOME": "/nonexistent",
        "CUDA_AGENT_IMAGE": "none",
        **more,
    }


def cuda_agent(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run `cuda-agent` and wait for it."""
    return subprocess.run(
        command(*arguments), cwd=cwd, env=env or environment(), capture_output=True, text=True, timeout=timeout_s
    )


def command(*arguments: str | Path) -> Sequence[str]:
    """The command line of `cuda-agent`."""
    return [sys.executable, "-m", "cuda_agent", *map(str, arguments)]
