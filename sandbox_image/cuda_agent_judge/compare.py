"""The tolerance: how far an output may be from the reference.

One replaceable module. Floating outputs pass when the relative L2 error and the largest error (in units of the
reference's RMS) are within the limits of their dtype; where the reference in its own precision (the twin) is itself
farther from the wide one, four times its error is allowed. Integers and booleans are exact. NaN passes only where the
reference has it, an infinity only where the reference has the same one.
"""

import math
from dataclasses import dataclass

import torch

from cuda_agent_judge.report import OutputError

RULE = "relative L2 <= 1e-3 and max error <= 1e-2 RMS (half types 2e-2 and 2e-1); integers exact"
TWIN_FACTOR = 4.0
WELL_CONDITIONED = 0.05
"""A drawn set is used only where the twin's own relative error is below this."""
_CHUNK = 1 << 24
_HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Limits:
    """Relative L2, and the largest error in units of the reference's RMS."""

    relative_l2: float
    max_over_rms: float


@dataclass(frozen=True)
class Outcome:
    """The comparison of one output."""

    ok: bool
    reason: str
    error: OutputError


@dataclass
class _Sums:
    error: float = 0.0
    reference: float = 0.0
    worst: float = 0.0
    mismatched: int = 0
    """Elements that are not finite where the reference is, or the other way round."""


def limits(dtype: torch.dtype) -> Limits:
    """The limits of an output of this dtype."""
    return Limits(2e-2, 2e-1) if dtype in _HALF else Limits(1e-3, 1e-2)


def compare(name: str, got: torch.Tensor, wide: torch.Tensor, twin: torch.Tensor) -> Outcome:
    """Compare one output (any shape, row-major) with the wide reference and with the twin of its own precision."""
    got, wide, twin = got.reshape(-1), wide.reshape(-1), twin.reshape(-1)
    if not (got.is_floating_point() or got.is_complex()):
        return _exact(name, got, wide, twin)
    if got.is_complex():
        got, wide, twin = (torch.view_as_real(t).reshape(-1) for t in (got, wide, twin))
    mine, its = _sums(got, wide, twin), _sums(twin, wide, twin) if wide is not twin else _Sums()
    bound = limits(got.dtype)
    size = math.sqrt(mine.reference)
    rms = size / math.sqrt(max(got.numel(), 1))
    allowed = max(bound.relative_l2 * size, TWIN_FACTOR * math.sqrt(its.error))
    allowed_max = max(bound.max_over_rms * rms, TWIN_FACTOR * its.worst)
    error = OutputError(
        name,
        str(got.dtype).removeprefix("torch."),
        _over(math.sqrt(mine.error), size),
        _over(allowed, size) if size else bound.relative_l2,
        mine.worst,
        allowed_max,
    )
    return _outcome(error, mine, math.sqrt(mine.error) <= allowed, mine.worst <= allowed_max)


def twin_error(wide: torch.Tensor, twin: torch.Tensor) -> float:
    """Relative L2 error of the reference in its own precision against the wide one; infinite where masks differ."""
    if not twin.is_floating_point() or wide is twin:
        return 0.0
    sums = _sums(twin.reshape(-1), wide.reshape(-1), wide.reshape(-1))
    if sums.mismatched:
        return math.inf
    return _over(math.sqrt(sums.error), math.sqrt(sums.reference))


def _over(part: float, whole: float) -> float:
    return part / whole if whole else (0.0 if part == 0 else math.inf)


def _outcome(error: OutputError, sums: _Sums, near: bool, max_near: bool) -> Outcome:
    where = f"output {error.output}" if error.output else "the output"
    if sums.mismatched:
        reason = f"{where} has NaN or infinity where the reference has none (or the reverse) in {sums.mismatched} places"
    elif not near:
        reason = f"{where} has relative L2 error {error.relative_l2:.3g}, the limit is {error.relative_l2_limit:.3g}"
    elif not max_near:
        reason = f"{where} has a largest error of {error.max_error:.3g}, the limit is {error.max_error_limit:.3g}"
    else:
        return Outcome(True, "", error)
    return Outcome(False, reason, error)


def _sums(got: torch.Tensor, wide: torch.Tensor, twin: torch.Tensor) -> _Sums:
    sums = _Sums()
    for start in range(0, got.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        _add_chunk(sums, got[part], wide[part], twin[part])
    return sums


def _add_chunk(sums: _Sums, got: torch.Tensor, wide: torch.Tensor, twin: torch.Tensor) -> None:
    kind = torch.promote_types(torch.promote_types(got.dtype, wide.dtype), torch.float32)
    difference = got.to(kind) - wide.to(kind)
    error = float(torch.linalg.vector_norm(difference, dtype=torch.float64)) ** 2
    reference = float(torch.linalg.vector_norm(wide, dtype=torch.float64)) ** 2
    if math.isfinite(error) and math.isfinite(reference):
        worst = float(difference.abs().max()) if difference.numel() else 0.0
    else:
        wrong = (_class(got) != _class(wide)) & (_class(got) != _class(twin))
        sums.mismatched += int(wrong.sum())
        good = torch.isfinite(got) & torch.isfinite(wide)
        difference, finite = difference[good].double(), wide[good].double()
        error, reference = float(difference.square().sum()), float(finite.square().sum())
        worst = float(difference.abs().max()) if difference.numel() else 0.0
    sums.error += error
    sums.reference += reference
    sums.worst = max(sums.worst, worst)


def _class(values: torch.Tensor) -> torch.Tensor:
    """0 finite, 1 NaN, 2 infinity, 3 minus infinity."""
    return torch.isnan(values).to(torch.uint8) + 2 * torch.isposinf(values) + 3 * torch.isneginf(values)


def _exact(name: str, got: torch.Tensor, wide: torch.Tensor, twin: torch.Tensor) -> Outcome:
    dtype = str(got.dtype).removeprefix("torch.")
    if got.dtype == torch.bool:
        # As bytes: a poisoned place must not read as True.
        got, wide, twin = (t.view(torch.uint8) for t in (got, wide.contiguous(), twin.contiguous()))
    wrong = int(((got != wide) & (got != twin)).sum())
    share = wrong / max(got.numel(), 1)
    error = OutputError(name, dtype, share, 0.0, float(wrong > 0), 0.0)
    where = f"output {name}" if name else "the output"
    return Outcome(wrong == 0, f"{where} differs in {wrong} of {got.numel()} places" if wrong else "", error)
