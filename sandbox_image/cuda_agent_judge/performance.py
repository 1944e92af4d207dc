"""What a report says of where the time goes: needs and floor, rates reached, and the kernels of one call.

A plain object, since it is for reading; docs/judge.md has its fields. None of it decides a verdict.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from cuda_agent_judge.bounds import Measured, at_limit, judgement
from cuda_agent_judge.occupancy import occupancy
from cuda_agent_judge.ptxas import CompiledKernel
from cuda_agent_judge.report import Latency
from cuda_agent_judge.roofline import Ceilings, Floor, Need, floor
from cuda_agent_judge.scoring import SUBMISSION
from cuda_agent_judge.timeline import Row, Timeline

Json = Any


def performance(
    target: str,
    appraised: Mapping[str, Json],
    latency_ms: Mapping[str, Latency],
    *,
    headline: str,
    timeline: Timeline | None = None,
    compiled: Sequence[CompiledKernel] = (),
    enqueue_us: Mapping[str, float] | None = None,
    in_a_row_us: Mapping[str, float] | None = None,
) -> dict[str, Json]:
    """Put it together, from what the reference worker found and, for a submission, the timeline of one call."""
    if "unknown" in appraised:
        return {"unknown": appraised["unknown"]}
    ceilings, need = Ceilings.from_json(appraised["ceilings"]), Need.from_json(appraised["need"])
    device = appraised["device"]
    least = floor(need, ceilings, target)
    made: dict[str, Json] = {
        "device": device,
        "ceilings": ceilings.to_json(),
        "need": need.to_json(),
        "floor": least.to_json(),
        "enqueue_us": dict(enqueue_us or {}),
        "in_a_row_us": dict(in_a_row_us or {}),
        "launch_bound": _launch_bound(enqueue_us or {}, latency_ms),
        "rates": {side: _rates(time, need, least) for side, time in latency_ms.items()},
    }
    if "operations" in appraised:
        made["operations"] = appraised["operations"]
    if timeline is not None:
        rows = [_kernel(row, device, compiled) for row in timeline.rows]
        made["submission"] = {**timeline.to_json(), "rows": rows}
    medians = {side: time.median for side, time in latency_ms.items()}
    busy = (timeline.span_us, timeline.busy_us, timeline.launches) if timeline else (0.0, 0.0, 0)
    measured = {side: Measured(ms, *(busy if side == SUBMISSION else ())) for side, ms in medians.items()}
    made["judgement"] = {
        side: judgement(one, least, target, advise=side == SUBMISSION) for side, one in measured.items()
    }
    made["at_limit"] = at_limit(medians, headline, least, target)
    return made


def _launch_bound(enqueue_us: Mapping[str, float], latency_ms: Mapping[str, Latency]) -> list[str]:
    """The sides whose calls the host takes longer to enqueue than the device to run."""
    return [side for side, us in enqueue_us.items() if side in latency_ms and us > 1e3 * latency_ms[side].median]


def _rates(time: Latency, need: Need, least: Floor) -> dict[str, Json]:
    """Rates over the whole call, and the shares of the measured ceilings that they are."""
    seconds = time.median / 1e3
    if seconds <= 0:
        return {}
    return {
        "gb_s": need.bytes / seconds / 1e9,
        "tflop_s": sum(need.flops.values()) / seconds / 1e12,
        "memory_share": least.bytes_ms / time.median,
        "arithmetic_share": least.flops_ms / time.median,
    }


def _kernel(row: Row, device: Mapping[str, Json], compiled: Sequence[CompiledKernel]) -> dict[str, Json]:
    """A row with what the compiler says of the kernel and how much of it fits on a multiprocessor."""
    made = row.to_json()
    if row.kind != "kernel" or not row.block:
        return made
    threads = row.block[0] * (row.block[1] if len(row.block) > 1 else 1) * (row.block[2] if len(row.block) > 2 else 1)
    fits = occupancy(device.get("sm", ""), threads=threads, registers=row.registers, shared_bytes=row.shared_bytes)
    if fits is not None:
        made |= {"occupancy": fits.share, "limiter": fits.limiter, "blocks_at_once": fits.blocks}
    own = next((kernel for kernel in compiled if demangled(kernel.symbol) == row.name), None)
    if own is not None:
        made |= {"spill_bytes": own.spill_bytes, "stack_bytes": own.stack_bytes}
    return made


def demangled(symbol: str) -> str:
    """The name of a C++ function as a profiler says it."""
    demangle = getattr(torch._C, "_demangle", None)
    return symbol if demangle is None else str(demangle(symbol))
