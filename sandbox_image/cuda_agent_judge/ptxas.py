"""What ptxas says of the kernels it made (`-Xptxas=-v`): registers, static shared memory, spills, stack."""

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '(?:sm_)?(\w+)'")
_PROPERTIES = re.compile(r"Function properties for '?([^'\s]+)'?")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")


@dataclass(frozen=True)
class CompiledKernel:
    """One kernel as compiled for one architecture; memory in bytes, all but shared memory by thread."""

    symbol: str
    """Its mangled name."""
    sm: str
    """The architecture, "90a"."""
    registers: int = 0
    shared_bytes: int = 0
    """Static; what a launch asks for comes on top."""
    stack_bytes: int = 0
    spill_stores: int = 0
    spill_loads: int = 0

    @property
    def spill_bytes(self) -> int:
        """What is stored to and loaded from local memory because registers do not suffice."""
        return self.spill_stores + self.spill_loads


def read_ptxas(output: str) -> list[CompiledKernel]:
    """The kernels in a compiler's output, in order; other lines may stand between, functions are left out."""
    found: list[_Entry] = []
    described = ""
    for line in output.splitlines():
        if entry := _ENTRY.search(line):
            described = ""
            found.append(_Entry(entry[1], entry[2]))
        elif properties := _PROPERTIES.search(line):
            described = properties[1]
        elif found and (frame := _FRAME.search(line)) and described in ("", found[-1].symbol):
            found[-1].frame = (int(frame[1]), int(frame[2]), int(frame[3]))
        elif found and (used := _USED.search(line)):
            shared = _SHARED.search(line)
            found[-1].registers, found[-1].shared = int(used[1]), int(shared[1]) if shared else 0
    return [entry.kernel() for entry in found]


@dataclass
class _Entry:
    """A kernel whose lines are being read."""

    symbol: str
    sm: str
    registers: int = 0
    shared: int = 0
    frame: tuple[int, int, int] = (0, 0, 0)

    def kernel(self) -> CompiledKernel:
        return CompiledKernel(self.symbol, self.sm, self.registers, self.shared, *self.frame)
