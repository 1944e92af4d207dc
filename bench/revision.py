"""The revision of the checkout, for the lines that measurements are kept in."""

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@functools.cache
def commit() -> str:
    """What is measured, as git names it at the first call; "" where git is not installed or this is no checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
