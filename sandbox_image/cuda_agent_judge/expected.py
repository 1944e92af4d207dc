"""What the reference answers: in its own precision (the twin) and in fp64 (the wide one)."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch

from cuda_agent_judge import trees
from cuda_agent_judge.compare import compare
from cuda_agent_judge.dispatching import Dispatching
from cuda_agent_judge.operator import call as operator_call
from cuda_agent_judge.operator import clone_inputs

_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}
_HEAD = 1 << 22
_MEMORY_SHARE = 16
"""fp64 is tried where the inputs take at most this fraction of the device's memory."""


def make_wide(model: torch.nn.Module) -> torch.nn.Module:
    """A copy of the model in fp64."""
    return copy.deepcopy(model).double()


def widen(args: Any) -> Any:
    """The same inputs with every floating tensor in fp64."""
    leaves, spec = trees.flatten(args)
    return trees.unflatten([_widen_leaf(leaf) for leaf in leaves], spec)


def _widen_leaf(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if leaf.is_floating_point():
        return leaf.double()
    return leaf.to(_WIDE.get(leaf.dtype, leaf.dtype), copy=True)


def fits_wide(size: int, device: str) -> bool:
    """Whether an fp64 run over inputs of `size` bytes is worth trying."""
    if device == "cpu":
        return size < 4 << 30
    return size * _MEMORY_SHARE < torch.cuda.get_device_properties(0).total_memory


def tensors_of(output: Any) -> list[torch.Tensor]:
    """The tensors of an output in order, detached."""
    return [leaf.detach() for leaf in trees.flatten(output)[0] if isinstance(leaf, torch.Tensor)]


def run_wide(call: Callable[[Any], Any], args: Any, twins: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """The fp64 answer, or None where the operator does not run in fp64 or gives other shapes there."""
    try:
        outputs = tensors_of(call(args))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None
    if [tuple(t.shape) for t in outputs] != [tuple(t.shape) for t in twins]:
        return None
    return outputs


def heads(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The first elements of each, enough to tell a constant."""
    return [tensor.reshape(-1)[:_HEAD].clone() for tensor in tensors]


def degenerate(first: list[torch.Tensor], later: Iterable[list[torch.Tensor]], has_inputs: bool) -> str:
    """Say why answers to different inputs tell nothing about a kernel, "" when they do.

    Later answers are taken only while none of them told anything: two that are alike by chance (the mean of many
    values) are no reason yet.
    """
    reason = ""
    for second in later:
        reason = _alike(first, second, has_inputs)
        if not reason:
            return ""
    return reason


def _alike(first: list[torch.Tensor], second: list[torch.Tensor], has_inputs: bool) -> str:
    floating = [(a, b) for a, b in zip(first, second, strict=True) if a.is_floating_point() and a.numel()]
    if not floating or len(floating) != len(first):
        return ""
    if all(_passes(torch.zeros((), dtype=b.dtype, device=b.device).expand(b.shape), b) for _, b in floating):
        return "zeros pass as its output"
    if has_inputs and all(_passes(a, b) for a, b in floating):
        return "its output does not depend on its inputs"
    if all(b.numel() > 1 and _passes(a.double().mean().expand(b.shape), b) for a, b in floating):
        return "a constant passes as its output"
    return ""


def are_inputs(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> bool:
    """Whether every output is one of the inputs, bit for bit (any NaN equals any NaN)."""
    return bool(outputs) and all(any(_same(out, given) for given in inputs) for out in outputs)


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return bool(((left == right) | ((left != left) & (right != right))).all())


def _passes(guess: torch.Tensor, truth: torch.Tensor) -> bool:
    return compare("", guess.to(torch.float32), truth, truth).ok


def recorded(run: Callable[[], Any]) -> tuple[set[str], Any]:
    """Run once and return the names of the ATen operations beside the result."""
    recorder = _Recorder()
    with recorder:
        result = run()
    return recorder.names, result


class _Recorder(Dispatching):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.names.add(str(func))
        return func(*args, **kwargs)


def calibrate_norms(model: torch.nn.Module, inputs: Any) -> None:
    """Give batch norms running statistics of real data: with the initial ones they are the identity in eval mode."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    norms = [m for m in norms if m.track_running_stats]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None
        norm.train()
    try:
        with torch.no_grad():
            for _ in range(2):
                operator_call(model, clone_inputs(inputs))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
            norm.eval()
