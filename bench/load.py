"""A device that is kept busy by a process of its own, and how busy it is seen to be."""

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from bench.judgements import sandbox_python
from bench.revision import ROOT

from cuda_agent_judge import environment
from cuda_agent_judge.gpu import named, same
from cuda_agent_judge.nvml import Device

Target = Literal["cpu", "cuda"]
PROGRAM = ROOT / "bench/sandboxed/loading.py"
START_LIMIT_S = 300.0
END_LIMIT_S = 10.0
SAMPLE_S = 0.5


class Load:
    """Keeps a GPU (by UUID) or a core (by number) busy from `__enter__`, which waits until it is, to `__exit__`."""

    def __init__(self, target: Target, device: str, program: Sequence[str] = ()) -> None:
        core = [device] if target == "cpu" else []
        self._program = program or [sandbox_python(), "-I", "-B", str(PROGRAM), target, *core]
        self._target = target
        self._device = device
        self.readings: list[tuple[float, float, float]] = []
        """When (monotonic clock, s), and flop and bytes copied by then."""
        self._told = threading.Condition()
        self.ended = False
        """It has closed its output."""
        self._found = ""

    def __enter__(self) -> "Load":
        shown = {"CUDA_VISIBLE_DEVICES": self._device} if self._target == "cuda" else {}
        self._process = subprocess.Popen(
            self._program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment.clean(dict(os.environ) | shown),
            start_new_session=True,  # Ctrl-C is for the program that ends it
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._wait_until_under_way()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def rates(self, since: float, until: float) -> dict[str, float]:
        """What it did between two moments of the monotonic clock: TFLOP/s of products, GB/s of copies.

        Raises:
            SystemExit: it did nothing, or has ended.
        """
        with self._told:
            mine = [reading for reading in self.readings if since <= reading[0] <= until]
        if self.ended or len(mine) < 2:
            raise SystemExit(f"the load on {self._device} was not under way while a verdict beside it was taken")
        (begin, flop, copied), (end, more_flop, more_copied) = mine[0], mine[-1]
        seconds = end - begin
        return {
            "tflop_s": round((more_flop - flop) / seconds / 1e12, 6),
            "gb_s": round((more_copied - copied) / seconds / 1e9, 3),
        }

    def _wait_until_under_way(self) -> None:
        with self._told:
            self._told.wait_for(lambda: self.readings or self.ended, START_LIMIT_S)
            if not self.readings:
                raise SystemExit(f"the load on {self._device} did not get under way; see above")
            found = self._found
        right = same(self._device, named(found)) if self._target == "cuda" else found == self._device
        if not right:
            raise SystemExit(f"the load was to be on {self._device} and is on {found}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            self._found = self._process.stdout.readline().strip()
            for text in self._process.stdout:
                at, flop, copied = map(float, text.split())
                with self._told:
                    self.readings.append((at, flop, copied))
                    self._told.notify_all()
        finally:
            with self._told:
                self.ended = True
                self._told.notify_all()


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class SeenGpu(Device):
    """A GPU of which the driver says how busy it is."""

    def percent(self) -> float | None:
        """The share of the driver's last period in which something ran on it, None where it does not say."""
        found = _Utilization()
        ask = getattr(self._library, "nvmlDeviceGetUtilizationRates", None)
        return None if ask is None or ask(self._handle, ctypes.byref(found)) != 0 else float(found.gpu)


class SeenCore:
    """A core of which the kernel says how busy it is."""

    def __init__(self, core: str, stat: Path = Path("/proc/stat")) -> None:
        self._core = core
        self._stat = stat
        self._last = self._ticks()

    def percent(self) -> float | None:
        """The share of the time since the last call in which something ran on it, None where no time has passed."""
        before, self._last = self._last, self._ticks()
        idle, everything = (now - then for now, then in zip(self._last, before, strict=True))
        return 100.0 * (1 - idle / everything) if everything > 0 else None

    def _ticks(self) -> tuple[int, int]:
        """Of idling (waiting for disks included), and all."""
        for line in self._stat.read_text().splitlines():
            name, *words = line.split()
            if name == f"cpu{self._core}":
                ticks = [int(word) for word in words[:8]]  # the rest is counted in these
                return ticks[3] + ticks[4], sum(ticks)
        return 0, 0


def busyness(target: Target, device: str) -> Callable[[], float | None]:
    """How the share of time in which a device is busy is asked, in percent."""
    if target == "cpu":
        return SeenCore(device).percent
    found = SeenGpu.find(device)
    return found.percent if isinstance(found, SeenGpu) else lambda: None


@contextmanager
def sampled(percent: Callable[[], float | None]) -> Iterator[list[float]]:
    """Ask again and again for the length of a `with` block; the list is filled at its end."""
    kept: list[float] = []
    found: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(SAMPLE_S):
            if (value := percent()) is not None:
                found.append(value)

    percent()  # what was before does not count
    looker = threading.Thread(target=look)
    looker.start()
    try:
        yield kept
    finally:
        over.set()
        looker.join()
        kept += found
