"""What a built library calls in others, read from its file; nothing of it runs."""

import re
import struct
from collections.abc import Iterable
from pathlib import Path

_DYNSYM, _UNDEFINED = 11, 0
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_VENDOR = re.compile(
    r"cu(?:blas|dnn|sparse|solver|fft|rand|tensor)|nvrtc|cblas_|catlas_|mkl_|dnnl_|LAPACKE_|openblas_"
    r"|_ZN2at6native"  # ATen's kernels, past the dispatcher
    r"|[sdcz][a-z0-9]{2,7}_$",  # BLAS and LAPACK as Fortran names them: sgemm_
    re.IGNORECASE,
)
_LOADER = re.compile(r"dl(?:m?open|v?sym)$")


def vendor_calls(libraries: Iterable[Path]) -> list[str]:
    """Name the functions of vendors' libraries that these libraries call, and those by which they could get at any."""
    names = {name for library in libraries for name in undefined_symbols(library)}
    return sorted(name for name in names if _VENDOR.match(name) or _LOADER.match(name))


def undefined_symbols(library: Path) -> list[str]:
    """Names that a 64-bit ELF library looks up when it is loaded; none of a file that is something else."""
    data = library.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    try:
        return _undefined(data)
    except (struct.error, IndexError, OverflowError, ValueError):
        return []


def _undefined(data: bytes) -> list[str]:
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [_SECTION.unpack_from(data, table + number * size) for number in range(count)]
    found = []
    for _, kind, _, _, start, length, link, _, _, entry in sections:
        if kind != _DYNSYM:
            continue
        names = sections[link][4]
        for place in range(start, start + length, entry or _SYMBOL.size):
            name, _, _, home, _, _ = _SYMBOL.unpack_from(data, place)
            if home == _UNDEFINED and name:
                found.append(data[names + name : data.index(b"\0", names + name)].decode("ascii", "replace"))
    return found
