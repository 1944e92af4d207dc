"""`import cuda_extension` inside the candidate worker, the same in both binding styles; what else it built is noted."""

import importlib.machinery
import importlib.util
import os
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


def watch_loading() -> list[ModuleType]:
    """From now on note the extension modules that are loaded from outside the interpreter's own folders.

    They are what a submission built by itself (load_inline): the list grows with each of them.
    """
    loaded: list[ModuleType] = []
    installed = tuple({os.path.realpath(folder) for folder in (sys.prefix, sys.base_prefix, *torch.__path__)})
    execute = importlib.machinery.ExtensionFileLoader.exec_module

    def exec_module(self: importlib.machinery.ExtensionFileLoader, module: ModuleType) -> None:
        execute(self, module)
        if not os.path.realpath(self.path).startswith(installed):
            loaded.append(module)

    importlib.machinery.ExtensionFileLoader.exec_module = exec_module  # type: ignore[method-assign]
    return loaded
