"""Red zones: guard bands before and behind each tensor of one call, to see writes out of its bounds.

They stand in the submission's own process and so find mistakes, not cheats. What is seen is memory that comes through
PyTorch's dispatcher, from Python or C++; reads, and memory from malloc or cudaMalloc, are not.
"""

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from cuda_agent_judge import free_memory
from cuda_agent_judge.buffers import Leaf, storage_extent
from cuda_agent_judge.dispatching import PLAIN

BAND_BYTES = {"cpu": 16 << 10, "cuda": 64 << 10}
"""Of one band, by device: a multiple of what PyTorch's allocators align to (64 and 512 bytes)."""
_SHARE_OF_FREE = 8
_BARE = frozenset(
    f"aten::{name}"
    for name in (
        *("empty.memory_format", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    )
)
"""Give memory without contents, which is had between bands from the start."""
_FILLED = frozenset(
    (
        *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"),
        *("clone", "_to_copy", "arange", "scalar_tensor"),
    )
)
"""Give new memory with contents, which are moved between bands."""
_Tensor = torch.Tensor


@dataclass(frozen=True)
class Fault:
    """A write into a band."""

    what: str
    """The tensor beside it."""
    behind: bool
    written: int
    """Bytes that changed."""
    farthest: int
    """Bytes from the tensor to the end of what changed."""

    @property
    def sentence(self) -> str:
        """What a kernel's author has to know."""
        where, past, hint = (
            ("behind the end", "past it", "check the bounds of the last block or row")
            if self.behind
            else ("before the start", "before it", "check for indices below 0")
        )
        written, farthest = _bytes(self.written), _bytes(self.farthest)
        return f"forward wrote {written} {where} of {self.what}, up to {farthest} {past}; {hint}"


@dataclass(frozen=True)
class _Content:
    """What a band holds, on its device and here."""

    there: torch.Tensor
    here: bytes


class _Zone:
    """One tensor between two bands."""

    def __init__(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, content: _Content, size: int
    ) -> None:
        """`size` is the tensor's, in bytes."""
        self._dtype, self._shape, self._content = dtype, shape, content
        self.name = ""
        like, band = content.there, content.there.numel()
        memory = torch.empty(size + 2 * band, dtype=torch.uint8, device=like.device)
        self._before, self._behind = memory[:band].copy_(like), memory[band + size :].copy_(like)
        # Not a view of the memory with its bands: a submission that looks finds the storage that it asked for.
        address = memory.data_ptr() + band
        self.storage = torch._C._construct_storage_from_data_pointer(address, memory.device, size)
        bare = torch.empty(0, dtype=dtype, device=memory.device)
        self.tensor: torch.Tensor | None = bare.set_(self.storage, 0, shape, strides)

    def take(self) -> torch.Tensor:
        """The tensor, which from then on lives as long as others have it."""
        tensor, self.tensor = self.tensor, None
        assert tensor is not None
        return tensor

    @property
    def lives(self) -> bool:
        """Whether anybody else has its storage."""
        return self.tensor is not None or int(torch._C._storage_Use_Count(self.storage._cdata)) > 1

    def faults(self) -> list[Fault]:
        """What changed in its bands."""
        name = self.name or "a tensor that it allocated"
        what = f"{name}, of shape {list(self._shape)} {str(self._dtype).removeprefix('torch.')}"
        before, behind = (_changed(band, self._content.here) for band in (self._before, self._behind))
        found = [Fault(what, False, len(before), len(self._content.here) - before[0])] if before else []
        return found + ([Fault(what, True, len(behind), behind[-1] + 1)] if behind else [])


class RedZones:
    """Places tensors between bands and keeps their memory while anybody has them, and until it was looked at."""

    def __init__(self, synchronize: Callable[[], Any], room: Mapping[str, int] | None = None) -> None:
        """`synchronize` waits for all work on the device.

        `room` are the bytes, by device, that bands and tensors which are gone may take: else an eighth of what is free.
        """
        self._synchronize = synchronize
        self._zones: list[_Zone] = []
        self._found: list[Fault] = []
        self._contents: dict[tuple[torch.device, bool], _Content] = {}
        self._kept = 0
        self._room = dict(room or {})

    def inputs(self, leaves: Iterable[Leaf], device: torch.device) -> list[torch.Tensor] | None:
        """Flat memory for these inputs; None where a second copy of them would take too much."""
        leaves = list(leaves)
        if sum(leaf.size for leaf in leaves) > self._room_on(device):
            return None
        placed = []
        for index, leaf in enumerate(leaves):
            zone = self._place(leaf.shape, leaf.strides, leaf.torch_dtype, device)
            if zone is None:
                placed.append(torch.empty(leaf.extent, dtype=leaf.torch_dtype, device=device))
            else:
                zone.name = f"input {index}"
                placed.append(zone.take().as_strided((leaf.extent,), (1,)))
        return placed

    def carry_out(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what an operation of PyTorch is to do; memory that it allocates gets bands."""
        name = func.name()
        if kwargs.get("pin_memory") or kwargs.get("layout") not in (None, torch.strided):
            return func(*args, **kwargs)
        if name in _BARE:
            return self._bare(func, args, kwargs)
        made = func(*args, **kwargs)
        if kwargs.get("non_blocking"):  # what is copied has yet to arrive
            return made
        if name.partition(".")[0].removeprefix("aten::") in _FILLED and "out" not in kwargs and type(made) is _Tensor:
            return self._moved(made)
        return made

    def faults(self, outputs: list[torch.Tensor]) -> list[Fault]:
        """What was written out of bounds, when the call has ended; `outputs` are its results."""
        self._synchronize()
        names = {}
        for index, output in enumerate(outputs):
            if type(output) is _Tensor and output.layout == torch.strided:
                name = f"output {index}" if len(outputs) > 1 else "the output"
                names[output.untyped_storage()._cdata] = name
        for zone in self._zones:
            zone.name = zone.name or names.get(zone.storage._cdata, "")
            self._found += zone.faults()
        # What runs on past a tensor's end meets the bands before the next one as well.
        return sorted(self._found, key=lambda fault: not fault.behind)

    def let_go(self) -> bool:
        """Give back the memory of tensors that nobody has any more; says whether there was any."""
        kept = [zone for zone in self._zones if zone.lives]
        gone, self._zones = len(self._zones) - len(kept), kept
        return gone > 0

    def _bare(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        like = next((arg for arg in args if isinstance(arg, _Tensor)), None)
        device = torch.device(kwargs.get("device") or (torch.device("cpu") if like is None else like.device))
        if device.type in BAND_BYTES and (like is None or type(like) in PLAIN):
            form = func(*args, **(kwargs | {"device": "meta"}))
            zone = self._place(tuple(form.shape), form.stride(), form.dtype, device)
            if zone is not None:
                return zone.take()
        made: torch.Tensor = func(*args, **kwargs)
        return made

    def _moved(self, made: torch.Tensor) -> torch.Tensor:
        size = made.numel() * made.element_size()
        if made.layout != torch.strided or made.device.type not in BAND_BYTES:
            return made
        if size > self._room_on(made.device):
            return made
        zone = self._place(tuple(made.shape), made.stride(), made.dtype, made.device)
        return made if zone is None else zone.take().copy_(made)

    def _place(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> _Zone | None:
        """None for what has no bytes, where bands would take too much, and while a graph is captured."""
        if 0 in shape or (device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
            return None
        room, bands = self._room_on(device), 2 * BAND_BYTES[device.type]
        size = storage_extent(shape, strides) * dtype.itemsize
        if self._kept + size + bands > room and self._zones:
            self._sweep()
        if size + bands > room or (len(self._zones) + 1) * bands > room:
            return None
        zone = _Zone(shape, strides, dtype, self._content(device, dtype), size)
        self._zones.append(zone)
        self._kept += size + bands
        return zone

    def _sweep(self) -> None:
        """Give memory back before the call ends: that of tensors which are gone, when it was looked at."""
        self._synchronize()
        for zone in self._zones:
            if not zone.lives:
                self._found += zone.faults()
        self.let_go()
        self._kept = 0

    def _content(self, device: torch.device, dtype: torch.dtype) -> _Content:
        """NaN in every floating type of two bytes and more; for smaller ones what nobody means to write."""
        key = (device, dtype.itemsize == 1)
        if key not in self._contents:
            unit = b"\xa5\xa5" if dtype.itemsize == 1 else b"\xf5\x7f"
            here = unit * (BAND_BYTES[device.type] // 2)
            self._contents[key] = _Content(torch.frombuffer(bytearray(here), dtype=torch.uint8).to(device), here)
        return self._contents[key]

    def _room_on(self, device: torch.device) -> int:
        if device.type not in self._room:
            free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_memory.on_host()
            self._room[device.type] = free // _SHARE_OF_FREE
        return self._room[device.type]


def _bytes(count: int) -> str:
    return f"{count} byte" if count == 1 else f"{count} bytes"


def _changed(band: torch.Tensor, content: bytes) -> list[int]:
    """The places at which a band is no longer what it was."""
    found = _bytes_of(band)
    return [] if found == content else [at for at, byte in enumerate(content) if found[at] != byte]


def _bytes_of(data: torch.Tensor) -> bytes:
    # Not by an operation that compares: the audit would hold it against the submission.
    there = data.cpu()
    return ctypes.string_at(there.data_ptr(), there.numel())
