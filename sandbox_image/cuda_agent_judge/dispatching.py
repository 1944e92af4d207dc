"""A look at every operation that PyTorch dispatches while a block runs.

torch wraps a `__torch_dispatch__` that stands in a class's body so that torch.compile leaves it alone, and imports the
whole compiler for that at the first operation: seconds, in every process. Here it is given to the class afterwards.
"""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Dispatching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls `see` in place of every operation, in a `with` block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the operation is to return."""
        return func(*args, **kwargs)


def _dispatch(self: Dispatching, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
    return self.see(func, args, kwargs or {})


Dispatching.__torch_dispatch__ = _dispatch  # type: ignore[assignment]
