"""The few CUDA runtime calls that torch does not offer, through ctypes on the runtime torch itself has loaded."""

import ctypes
from pathlib import Path

IPC_HANDLE_BYTES = 64
_LAZY_PEER_ACCESS = 1


class CudaFault(Exception):
    """A CUDA runtime call failed."""


class _IpcHandle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * IPC_HANDLE_BYTES),)


class Cudart:
    """libcudart; made only in a process that may touch the GPU."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL(_loaded_runtime())
        self._lib.cudaGetErrorName.restype = ctypes.c_char_p
        self._lib.cudaGetErrorString.restype = ctypes.c_char_p
        self._lib.cudaIpcOpenMemHandle.argtypes = (ctypes.POINTER(ctypes.c_void_p), _IpcHandle, ctypes.c_uint)
        self._get_last_error = self._lib.cudaGetLastError
        self._synchronize = self._lib.cudaDeviceSynchronize

    def last_error(self) -> str:
        """Take the pending error, "" when there is none."""
        return self._say(self._get_last_error())

    def synchronize(self) -> str:
        """Wait for everything on the device; "" or the error that came up."""
        return self._say(self._synchronize())

    def allocate(self, size: int) -> int:
        """Device memory of its own, outside torch's allocator; returns the address."""
        pointer = ctypes.c_void_p()
        self._check(self._lib.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)))
        return int(pointer.value or 0)

    def free(self, address: int) -> None:
        """Give back what `allocate` gave."""
        self._check(self._lib.cudaFree(ctypes.c_void_p(address)))

    def export(self, pointer: int) -> bytes:
        """A handle by which another process opens this memory."""
        handle = _IpcHandle()
        self._check(self._lib.cudaIpcGetMemHandle(ctypes.byref(handle), ctypes.c_void_p(pointer)))
        return bytes(handle)

    def open(self, handle: bytes) -> int:
        """Map another process's memory; returns the address."""
        pointer = ctypes.c_void_p()
        opened = _IpcHandle.from_buffer_copy(handle)
        self._check(self._lib.cudaIpcOpenMemHandle(ctypes.byref(pointer), opened, _LAZY_PEER_ACCESS))
        return int(pointer.value or 0)

    def pin(self, address: int, size: int) -> None:
        """Page-lock host memory, so that copies from it run behind other work on a stream."""
        self._check(self._lib.cudaHostRegister(ctypes.c_void_p(address), ctypes.c_size_t(size), 0))

    def _check(self, code: int) -> None:
        if code:
            self._get_last_error()
            raise CudaFault(self._say(code))

    def _say(self, code: int) -> str:
        if code == 0:
            return ""
        name, text = self._lib.cudaGetErrorName(code), self._lib.cudaGetErrorString(code)
        return f"{name.decode()} ({text.decode()})"


def _loaded_runtime() -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        name = line.rpartition(" ")[2]
        if "/libcudart.so" in name or "/libcudart-" in name:
            return name
    raise CudaFault("torch has loaded no libcudart; a CUDA build of torch is needed for the cuda target")
