"""`import cuda_extension` inside the candidate worker, the same in both binding styles."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from cuda_agent_judge.policy import NAMESPACE


class _StableExtension(ModuleType):
    """Forwards attributes to the operations that the library registered."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            packet = getattr(getattr(torch.ops, NAMESPACE), name)
        except AttributeError as error:
            raise AttributeError(
                f"cuda_extension has no operation {name!r}: register it in kernels/*_binding.cpp with REGISTER_KERNEL"
            ) from error
        setattr(self, name, packet)
        return packet


class _NoExtension(ModuleType):
    """Stands where nothing was built."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"cuda_extension has no function {name!r}: there is no source in kernels/ to build it from"
        )


def install(library: Path | None, style: str) -> ModuleType | None:
    """Load the built library and make it importable; returns the module of a pybind library, whose calls are watched.

    Raises:
        ImportError, OSError: the library does not load.
    """
    if library is None:
        sys.modules[NAMESPACE] = _NoExtension(NAMESPACE)
        return None
    if style == "pybind":
        loader = importlib.machinery.ExtensionFileLoader(NAMESPACE, str(library))
        spec = importlib.util.spec_from_file_location(NAMESPACE, library, loader=loader)
        if spec is None:
            raise ImportError(f"{library.name} is no extension module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAMESPACE] = module
        loader.exec_module(module)
        return module
    torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
    sys.modules[NAMESPACE] = _StableExtension(NAMESPACE)
    return None
