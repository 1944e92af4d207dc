"""Which GPU this process and its children see first, by its UUID, without making a context on it."""

import contextlib
import ctypes
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Mapping

_WHOLE = re.compile(r"(GPU|MIG)-[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def visible_gpu(environ: Mapping[str, str]) -> str:
    """Return the UUID ("GPU-...", of a slice "MIG-..."), "" where there is none or it cannot be told.

    Numbers in $CUDA_VISIBLE_DEVICES count in the driver's order, which is not nvidia-smi's: the driver is asked.
    """
    named = _first_named(environ)
    if _WHOLE.fullmatch(named):
        return named
    found = _first_of_driver()
    return found.replace("GPU-", "MIG-", 1) if named.startswith("MIG-") else found


def asked_aside(environ: Mapping[str, str]) -> str:
    """As `visible_gpu`; a process of its own asks the driver: one that has called it cannot fork any that use a GPU."""
    named = _first_named(environ)
    if _WHOLE.fullmatch(named):
        return named
    command = [sys.executable, "-I", "-S", __file__]
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def named(value: object) -> str:
    """Return a UUID as torch gives it in the way that nvidia-smi writes it."""
    text = str(value)
    return text if not text or text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def same(one: str, other: str) -> bool:
    """Say whether two UUIDs are of one device; of an unknown one that is taken to be so."""
    return not one or not other or one[4:].lower() == other[4:].lower()


def driver_version() -> int:
    """The newest CUDA that the driver knows, as it numbers them (13000); 0 where there is none."""
    number = ctypes.c_int(0)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    return number.value


def _first_named(environ: Mapping[str, str]) -> str:
    return environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()


def _first_of_driver() -> str:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        ask = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
    except (OSError, AttributeError):
        return ""
    device, raw = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return ""
    return "" if ask(ctypes.byref(raw), device) != 0 else f"GPU-{uuid.UUID(bytes=bytes(raw))}"


if __name__ == "__main__":
    print(visible_gpu(os.environ))
