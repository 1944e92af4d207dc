"""Memory that two processes share: input slots, landing buffers and weights.

On `cpu` an area is a memfd that both map. On `cuda` it is device memory handed over by CUDA IPC, with page-locked
shared host memory where IPC does not work. Tensors travel as the raw bytes of their storage extent, so strides survive.
"""

import fcntl
import mmap
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from cuda_agent_judge.cudart import CudaFault, Cudart

ALIGNMENT = 256


@dataclass(frozen=True)
class Leaf:
    """Where one tensor stands in an area and how it is laid out."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset: int
    """In bytes."""
    extent: int
    """Elements from the first to the last."""

    @property
    def torch_dtype(self) -> torch.dtype:
        """The torch object `dtype` names."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    @property
    def size(self) -> int:
        """Bytes of the extent."""
        return self.extent * self.torch_dtype.itemsize

    def raw(self, area: torch.Tensor) -> torch.Tensor:
        """The extent as a flat tensor inside the area's bytes."""
        return area[self.offset : self.offset + self.size].view(self.torch_dtype)

    def view(self, raw: torch.Tensor) -> torch.Tensor:
        """The tensor itself over a flat extent."""
        return raw.as_strided(self.shape, self.strides)


@dataclass(frozen=True)
class Layout:
    """Leaves packed into one area."""

    leaves: tuple[Leaf, ...]
    size: int
    """In bytes, at least 1."""

    def to_json(self) -> dict[str, Any]:
        """As a frame carries it."""
        return {"leaves": [asdict(leaf) for leaf in self.leaves], "size": self.size}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Layout":
        """Read it back (from a trusted side)."""
        leaves = tuple(
            Leaf(tuple(x["shape"]), tuple(x["strides"]), x["dtype"], x["offset"], x["extent"]) for x in raw["leaves"]
        )
        return cls(leaves, raw["size"])


def layout(tensors: Iterable[torch.Tensor], *, dense: bool = False) -> Layout:
    """Pack tensors one after the other; `dense` takes row-major strides whatever theirs are."""
    leaves: list[Leaf] = []
    offset = 0
    for tensor in tensors:
        strides = _row_major(tensor.shape) if dense else tuple(tensor.stride())
        extent = storage_extent(tuple(tensor.shape), strides)
        leaves.append(Leaf(tuple(tensor.shape), strides, str(tensor.dtype).removeprefix("torch."), offset, extent))
        offset += -(-leaves[-1].size // ALIGNMENT) * ALIGNMENT
    return Layout(tuple(leaves), max(offset, ALIGNMENT))


def storage_extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from a tensor's first to its last."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _row_major(shape: Iterable[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(list(shape)):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def extent_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's own storage extent as a flat tensor, without a copy."""
    extent = storage_extent(tuple(tensor.shape), tuple(tensor.stride()))
    return tensor.detach().as_strided((extent,), (1,), tensor.storage_offset())


@dataclass(frozen=True)
class Area:
    """Shared memory as bytes, with what another process needs to open it."""

    bytes: torch.Tensor
    ticket: dict[str, Any]
    fd: int | None = None
    keep: Any = None
    address: int | None = None
    """Of device memory that is this process's to free."""
    """Whatever owns the memory."""


class _DeviceMemory:
    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


def create(size: int, cudart: Cudart | None, *, ipc: bool) -> Area:
    """Make an area: device memory when there is a CUDA runtime and IPC works, else shared host memory."""
    if cudart is not None and ipc:
        try:
            address = cudart.allocate(size)
            handle = cudart.export(address)
        except CudaFault:
            pass
        else:
            ticket = {"kind": "cuda", "size": size, "handle": handle.hex()}
            return Area(_on_device(address, size), ticket, address=address)
    fd = os.memfd_create("judge", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    # Nobody who gets it can cut it short under the other side's feet.
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return _mapped(fd, size, cudart)


def open_area(ticket: dict[str, Any], fd: int | None, cudart: Cudart | None) -> Area:
    """Open another process's area."""
    size = int(ticket["size"])
    if ticket["kind"] == "cuda":
        if cudart is None:
            raise CudaFault("a device buffer was handed to a process without a GPU")
        return Area(_on_device(cudart.open(bytes.fromhex(ticket["handle"])), size), ticket)
    if fd is None:
        raise CudaFault("a shared buffer came without its file descriptor")
    area = _mapped(fd, size, cudart)
    os.close(fd)
    return area


def _on_device(address: int, size: int) -> torch.Tensor:
    try:
        return torch.as_tensor(_DeviceMemory(address, size), device="cuda")
    except (RuntimeError, TypeError, ImportError):
        # That way goes through numpy, which need not be there.
        return over_pointer(address, size, torch.device("cuda", torch.cuda.current_device()))


def over_pointer(address: int, size: int, device: torch.device) -> torch.Tensor:
    """The bytes at an address as a tensor that does not own them."""
    storage = torch._C._construct_storage_from_data_pointer(address, device, size)
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (size,), (1,))


def _mapped(fd: int, size: int, cudart: Cudart | None) -> Area:
    memory = mmap.mmap(fd, size)
    data = torch.frombuffer(memory, dtype=torch.uint8)
    if cudart is not None:
        cudart.pin(data.data_ptr(), size)
    return Area(data, {"kind": "memfd", "size": size}, fd, memory)


def poison(area: torch.Tensor, leaf: Leaf) -> None:
    """Fill a landing place with what nobody means to return: NaN, or the byte 0xA5 in integers and booleans."""
    raw = leaf.raw(area)
    if raw.is_floating_point() or raw.is_complex():
        raw.fill_(float("nan"))
    else:
        raw.view(torch.uint8).fill_(0xA5)


def checksum(raw: torch.Tensor) -> int:
    """A cheap sum over the bytes of a flat tensor, to see whether they changed."""
    data = raw.view(torch.uint8)
    whole = data.numel() // 4 * 4
    total = int(data[:whole].view(torch.int32).sum(dtype=torch.int64)) if whole else 0
    return total * 1009 + int(data[whole:].sum(dtype=torch.int64))


def checksums(areas: Layout, area: torch.Tensor) -> list[int]:
    """The checksum of every tensor in an area."""
    return [checksum(leaf.raw(area)) for leaf in areas.leaves]
