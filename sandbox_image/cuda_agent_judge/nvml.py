"""What the driver says of a GPU while it is timed: clocks and what holds them down, and whether others compute on it.

Asked through libnvidia-ml itself. Whatever cannot be asked (no library, a slice of a GPU, no right to) is left out.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_REASONS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""Why clocks are lower than they could be; an idle GPU and clocks that somebody set are no reasons."""
_WORTH_A_NOTE = ("hardware slowdown", "temperature (software)", "temperature (hardware)", "power brake")
_OURS = 2
"""So many processes of a judgement compute: the reference worker and the candidate worker."""
State = dict[str, Any]


class _Sample(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("time_us", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


@dataclass
class Watch:
    """What was seen."""

    states: dict[str, State] = field(default_factory=dict)
    """`before` and `after`."""
    notes: list[str] = field(default_factory=list)


@contextlib.contextmanager
def watched(gpu: str, own: Iterable[int]) -> Iterator[Watch]:
    """Watch a GPU, by UUID, for the length of a `with` block; `own` are this judgement's processes."""
    watch = Watch()
    device = Device.find(gpu) if gpu else None
    if device is None:
        yield watch
        return
    with contextlib.closing(device):
        watch.states["before"] = device.state()
        since = device.latest_sample()
        yield watch
        watch.states["after"] = device.state()
        others = foreign(device.busy(since), set(own))
        if others:
            watch.notes.append(f"{others} other process{'es' * (others > 1)} computed on the GPU while it was timed")
        held_down = [word for word in watch.states["after"].get("throttled", []) if word in _WORTH_A_NOTE]
        if held_down:
            watch.notes.append(f"the GPU's clocks were held down at the end of the timing: {', '.join(held_down)}")


def foreign(busy: set[int], own: set[int]) -> int:
    """How many of the processes that computed are not ours.

    In a container the driver may name processes by numbers that mean nothing inside; then it is only known how many
    there are.
    """
    if busy & own or all(os.path.exists(f"/proc/{pid}") for pid in busy):
        return len(busy - own)
    return max(0, len(busy) - _OURS)


class Device:
    """One GPU as the driver's management library sees it."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library = library
        self._handle = handle

    @classmethod
    def find(cls, gpu: str) -> "Device | None":
        """Return the GPU with this UUID, None where the library or the GPU is not there."""
        handle = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInit_v2() != 0:
                return None
            if library.nvmlDeviceGetHandleByUUID(gpu.encode(), ctypes.byref(handle)) == 0:
                return cls(library, handle)
            library.nvmlShutdown()
        except (OSError, AttributeError):
            pass
        return None

    def close(self) -> None:
        """Let the library go."""
        self._library.nvmlShutdown()

    def name(self) -> str:
        """The model, "" where the driver does not say."""
        text = ctypes.create_string_buffer(128)
        ask = getattr(self._library, "nvmlDeviceGetName", None)
        failed = ask is None or ask(self._handle, text, ctypes.c_uint(len(text))) != 0
        return "" if failed else text.value.decode(errors="replace")

    def state(self) -> State:
        """Clocks in MHz, temperature in degrees Celsius, power in watts, and what holds the clocks down."""
        found: dict[str, Any] = {}
        for name, kind in (("sm_mhz", _SM_CLOCK), ("memory_mhz", _MEMORY_CLOCK)):
            found[name] = self._number("nvmlDeviceGetClockInfo", ctypes.c_uint, kind)
        found["sm_max_mhz"] = self._number("nvmlDeviceGetMaxClockInfo", ctypes.c_uint, _SM_CLOCK)
        found["temperature_c"] = self._number("nvmlDeviceGetTemperature", ctypes.c_uint, 0)
        power = self._number("nvmlDeviceGetPowerUsage", ctypes.c_uint)
        found["power_w"] = None if power is None else round(power / 1000, 1)
        reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        if reasons is not None:
            found["throttled"] = [word for bit, word in _REASONS.items() if reasons & bit]
        return {name: value for name, value in found.items() if value is not None}

    def latest_sample(self) -> int:
        """When the driver last looked at what processes use, in its own time; 0 where it does not say."""
        return max((sample.time_us for sample in self._samples(0)), default=0)

    def busy(self, since: int) -> set[int]:
        """The processes that computed after `since`."""
        return {sample.pid for sample in self._samples(since) if sample.sm and sample.time_us > since}

    def _samples(self, since: int) -> list[_Sample]:
        count = ctypes.c_uint(0)
        moment = ctypes.c_ulonglong(since)
        ask = getattr(self._library, "nvmlDeviceGetProcessUtilization", None)
        if ask is None:
            return []
        ask(self._handle, None, ctypes.byref(count), moment)
        if not count.value:
            return []
        samples = (_Sample * count.value)()
        if ask(self._handle, samples, ctypes.byref(count), moment) != 0:
            return []
        return list(samples[: count.value])

    def _number(self, name: str, kind: type[ctypes.c_uint] | type[ctypes.c_ulonglong], *arguments: int) -> int | None:
        value = kind()
        ask = getattr(self._library, name, None)
        if ask is None or ask(self._handle, *arguments, ctypes.byref(value)) != 0:
            return None
        return int(value.value)
