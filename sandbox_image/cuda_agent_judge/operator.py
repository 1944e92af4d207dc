"""The operator's model.py: imported, constructed, fed and run, with every fault of it as one sentence.

It is imported where this is called (the judge calls it in the reference worker, never in its own process) and what it
prints while it is loaded goes to stderr.
"""

import contextlib
import importlib.util
import inspect
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch

from cuda_agent_judge.steps import Steps
from cuda_agent_judge.trees import flatten, unflatten

FILE = "model.py"
MODULE = "model"
"""Its name while it is loaded, so that a module beside it may import it."""
Device = Literal["cpu", "cuda"]


class OperatorFault(Exception):
    """The operator cannot be judged; the text is one sentence that names the file and what to change."""


@dataclass(frozen=True)
class Operator:
    """A loaded operator."""

    directory: Path
    module: ModuleType
    steps: Steps = field(default_factory=Steps)
    """What its code is run in."""

    def init_inputs(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of Model, from get_init_inputs() where there is one.

        Raises:
            OperatorFault: get_init_inputs fails.
        """
        function = getattr(self.module, "get_init_inputs", None)
        if function is None:
            return [], {}
        with self._step("get_init_inputs()"):
            given = function()
        return _split_init_inputs(self.module.Model, given)

    def make_model(self, device: Device, seed: int = 0) -> torch.nn.Module:
        """A new instance on the device, in eval mode; the same seed draws the same parameters.

        Raises:
            OperatorFault: the constructor fails.
        """
        args, kwargs = self.init_inputs()

        def construct() -> torch.nn.Module:
            made: torch.nn.Module = self.module.Model(*args, **kwargs)
            return made

        with self._step("the constructor of Model, called with get_init_inputs(),", device):
            model: torch.nn.Module = _on_device(construct, device, seed)
            return model.to(device).eval()

    def get_inputs(self, seed: int, device: Device) -> list[Any] | dict[str, Any]:
        """The arguments of forward: a list of positional ones, or a dict of keyword ones.

        Raises:
            OperatorFault: get_inputs fails.
        """
        with self._step("get_inputs()", device):
            given = _on_device(self.module.get_inputs, device, seed)
            leaves, spec = flatten(given)
            moved = unflatten([_to(leaf, device) for leaf in leaves], spec)
        if isinstance(moved, dict):
            return moved
        return list(moved) if isinstance(moved, list | tuple) else [moved]

    def run(self, model: torch.nn.Module, inputs: list[Any] | dict[str, Any]) -> Any:
        """One forward call without gradients, as it returns.

        Raises:
            OperatorFault: forward fails, or nothing it returns is a tensor.
        """
        device: Device = "cuda" if any(_on_cuda(leaf) for leaf in flatten(inputs)[0]) else "cpu"
        with self._step("forward", device), torch.no_grad():
            result = call(model, inputs)
        if not any(isinstance(leaf, torch.Tensor) for leaf in flatten(result)[0]):
            raise OperatorFault(
                f"forward in {FILE} returns no tensor (it returns {type(result).__name__}): return a tensor or a list, "
                "tuple or dict that holds one"
            )
        return result

    @contextlib.contextmanager
    def _step(self, what: str, device: Device = "cpu") -> Iterator[None]:
        with self.steps.step(what), _blamed(what, self.directory, device):
            yield
            if device == "cuda" and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
                torch.cuda.synchronize()  # a kernel that fails or never ends belongs to the step that launched it

    def forward_names(self) -> list[str]:
        """Names of forward's parameters, without self, *args and **kwargs."""
        try:
            parameters = list(inspect.signature(self.module.Model.forward).parameters.values())[1:]
        except (TypeError, ValueError):
            return []
        named = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [p.name for p in parameters if p.kind in (*named, inspect.Parameter.KEYWORD_ONLY)]


def load(directory: Path, steps: Steps | None = None) -> Operator:
    """Import the operator in `directory`; all of its code is run in `steps`.

    Raises:
        OperatorFault: it does not import, or Model or get_inputs is missing.
    """
    path = directory / FILE
    try:
        source = importlib.util.decode_source(path.read_bytes())
    except OSError as error:
        raise OperatorFault(f"{FILE} cannot be read ({error.strerror}): the operator folder must hold it") from error
    except (UnicodeDecodeError, SyntaxError) as error:
        raise OperatorFault(f"{FILE} is not text in UTF-8 ({error}): save it as UTF-8") from error
    module = ModuleType(MODULE)
    module.__file__ = str(path)
    steps = steps or Steps()
    with steps.step("the import"), _blamed("", directory), _importable(directory):
        # Compiled here, so that no stale bytecode is read and none is left beside the operator.
        sys.modules[MODULE] = module
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    model = getattr(module, "Model", None)
    if not (isinstance(model, type) and issubclass(model, torch.nn.Module)):
        raise OperatorFault(f"{FILE} defines no class Model(torch.nn.Module): name the operator's module Model")
    if not callable(getattr(module, "get_inputs", None)):
        raise OperatorFault(
            f"{FILE} defines no function get_inputs(): add one that returns the list of forward's arguments"
        )
    return Operator(directory, module, steps)


def call(model: torch.nn.Module, inputs: list[Any] | dict[str, Any]) -> Any:
    """Call a module with what get_inputs returned."""
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def clone_inputs(inputs: Any) -> Any:
    """Inputs of their own for one side; strides are kept, other leaves than tensors are handed on."""
    leaves, spec = flatten(inputs)
    return unflatten([_clone(leaf) for leaf in leaves], spec)


def _clone(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.layout is not torch.strided or leaf.is_nested or _is_dense(leaf):
        return leaf.clone()
    # clone() would close the gaps between the elements.
    flat = leaf.as_strided([leaf.untyped_storage().nbytes() // leaf.element_size()], [1], 0)
    return flat.clone().as_strided(leaf.size(), leaf.stride(), leaf.storage_offset())


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements lie side by side without gaps and overlaps, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _split_init_inputs(model: type, given: Any) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(given, dict):
        return [], dict(given)
    if not isinstance(given, list | tuple):
        return [given], {}
    match given:
        case [list() | tuple() as args, dict() as kwargs] if all(isinstance(key, str) for key in kwargs):
            # A constructor may really take one list and one dict.
            if _binds(model, list(args), kwargs) or not _binds(model, list(given), {}):
                return list(args), dict(kwargs)
    return list(given), {}


def _binds(model: type, args: list[Any], kwargs: dict[str, Any]) -> bool:
    try:
        inspect.signature(model).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _on_device(make: Callable[[], Any], device: Device, seed: int) -> Any:
    """Let tensors be made on the device (large inputs are drawn in no time there), else where they come from."""
    if device == "cuda":
        _seed(seed)
        with contextlib.suppress(Exception), torch.device(device):
            return make()
    _seed(seed)
    return make()


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def _to(leaf: Any, device: Device) -> Any:
    return leaf.detach().to(device) if isinstance(leaf, torch.Tensor) else leaf


def _on_cuda(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_cuda


@contextlib.contextmanager
def _importable(directory: Path) -> Iterator[None]:
    """Modules beside the operator come first while it loads, and last afterwards (for imports inside forward)."""
    entry = str(directory)
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)
        sys.dont_write_bytecode = before


@contextlib.contextmanager
def _blamed(what: str, directory: Path, device: Device = "cpu") -> Iterator[None]:
    """Turn whatever the operator's code raises into one sentence; keep what it prints off stdout."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except OperatorFault:
        raise
    except (Exception, SystemExit) as error:
        raise OperatorFault(_sentence(error, what, directory, device)) from error


def _sentence(error: BaseException, what: str, directory: Path, device: Device) -> str:
    where = f"{FILE}{_line(error, directory)}"
    text = " ".join(str(error).split("\n")[0].split())[:300]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "not enough memory" in text:
        return f"{what or 'the import'} in {where} does not fit into memory ({said}): use smaller shapes"
    if device == "cpu" and _wants_cuda(error, text):
        return (
            f"{what or 'the import'} in {where} asks for device 'cuda', but the target is cpu ({said}): "
            "leave the device out, the judge moves the model and its inputs"
        )
    if what:
        return f"{what} in {where} failed: {said}; it must run as it stands in {FILE}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return (
            f"{where} imports {error.name!r}, which is neither installed nor beside it: "
            f"put {error.name.split('.')[0]}.py into the folder of {FILE} or install it"
        )
    return f"{where} does not import ({said}): correct it so that `import {MODULE}` works"


def _wants_cuda(error: BaseException, text: str) -> bool:
    words = ("not compiled with CUDA", "NVIDIA driver", "No CUDA GPUs", "no CUDA-capable", "Expected all tensors")
    return isinstance(error, RuntimeError | AssertionError) and any(word in text for word in words)


def _line(error: BaseException, directory: Path) -> str:
    """Where in model.py it happened, as " line 12"."""
    path = str(directory / FILE)
    if isinstance(error, SyntaxError) and error.filename == path and error.lineno:
        return f" line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return f" line {lines[-1]}" if lines else ""
