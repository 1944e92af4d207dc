"""A look at every operation that PyTorch dispatches while a block runs.

torch wraps a `__torch_dispatch__` that stands in a class's body so that torch.compile leaves it alone, and imports the
whole compiler for that at the first operation: seconds, in every process. Here it is given to the class afterwards.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cuda_agent_judge import trees

PLAIN = (torch.Tensor, torch.nn.Parameter)


class Dispatching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls `see` in place of every operation, in a `with` block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the operation is to return."""
        return func(*args, **kwargs)

    def inside(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry out an operation that is not PyTorch's, and see what it calls in turn.

        That is so where its arguments are plain tensors and there is one function for their device.
        """
        given = [leaf for leaf in trees.flatten([args, kwargs])[0] if isinstance(leaf, torch.Tensor)]
        devices = {tensor.device.type for tensor in given}
        name = "CUDA" if "cuda" in devices else "CPU"
        plain = all(type(tensor) in PLAIN and tensor.layout == torch.strided for tensor in given)
        registered = torch._C._dispatch_has_computed_kernel_for_dispatch_key(func.name(), name)
        if not given or not plain or not devices <= {"cpu", "cuda"} or not registered:
            return func(*args, **kwargs)
        with self:
            return func.redispatch(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name)), *args, **kwargs)


def _dispatch(self: Dispatching, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    return self.see(func, args, kwargs or {})


Dispatching.__torch_dispatch__ = _dispatch  # type: ignore[assignment]
