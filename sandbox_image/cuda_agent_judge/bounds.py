"""What bounds a call, in a sentence; and whether a baseline is so near the floor that no kernel can win.

Times are in ms unless a name says otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_agent_judge.report import TARGET_RATIO, side_name
from cuda_agent_judge.roofline import Floor

LIMIT_MARGIN = 1.03
"""A baseline counts as at the hardware's limit up to this multiple of the floor: a win needs 5 %, and a part of that is
kept for ceilings that were measured a little low."""
AT_LIMIT = 0.93
NEAR_LIMIT = 0.6
_GAPS = 0.2
_SHORT_MS = {"cuda": 0.012, "cpu": 0.03}
"""So short a call is mostly its own beginning and end."""
_SUSPECTS = {
    "cpu": "look for one thread, scalar code, strided access, intermediates in memory, or fresh pages for the output",
    "cuda": "look for too few blocks, low occupancy, uncoalesced access, or waiting in between",
}


@dataclass(frozen=True)
class Measured:
    """One side's call."""

    ms: float
    span_us: float = 0.0
    """What it put on the device, from the first start to the last end; 0 where that was not recorded."""
    busy_us: float = 0.0
    launches: int = 0


def judgement(call: Measured, least: Floor, target: str, *, advise: bool = False) -> str:
    """What bounds the call and what that means, in one sentence; `advise` names what is often the reason."""
    if call.ms <= 0:
        return ""
    memory, arithmetic = least.bytes_ms / call.ms, least.flops_ms / call.ms
    top = max(memory, arithmetic)
    rate, of = (memory, "memory rate") if memory >= arithmetic else (arithmetic, "arithmetic peak")
    kind = "memory-bound" if memory >= arithmetic else "compute-bound"
    if top > 1.1:
        return (
            f"faster than the measured {of} allows ({_percent(rate)} of it): the data stays in a cache, "
            "arithmetic was saved, or the machine was busy when the ceiling was measured"
        )
    if top >= AT_LIMIT:
        return f"at the limit of the {of} ({_percent(rate)} of it): only less traffic or less work is faster"
    if target == "cuda" and call.launches > 1 and call.span_us - call.busy_us > _GAPS * call.span_us:
        return (
            f"launch-bound: {call.launches} kernels run {call.busy_us:.3g} us of a span of {call.span_us:.3g} us; "
            "fuse them into fewer"
        )
    if top >= NEAR_LIMIT:
        return f"{kind} at {_percent(rate)} of the measured {of}"
    rates = f"{_percent(memory)} of the memory rate, {_percent(arithmetic)} of the arithmetic peak"
    if call.ms < _SHORT_MS[target]:
        return f"latency-bound: a call so short is mostly start and end ({rates})"
    return f"bound by neither ({rates})" + (f": {_SUSPECTS[target]}" if advise else "")


def at_limit(medians: Mapping[str, float], headline: str, least: Floor, target: str) -> str:
    """Why no kernel can win against the headline baseline; "" where one may, or where that is not certain."""
    baseline = medians.get(headline, 0.0)
    if target != "cuda" or not least.certain or baseline <= 0 or least.bytes_ms <= 0:
        return ""
    mine = medians.get("submission", baseline)
    if baseline > LIMIT_MARGIN * least.bytes_ms or mine < 0.98 * baseline:
        return ""
    return (
        f"no kernel can win by {100 - 100 * TARGET_RATIO:.0f} %: {side_name(headline)} takes {baseline * 1e3:.3g} us, "
        f"and moving the bytes that are needed takes {least.bytes_ms * 1e3:.3g} us at the measured rate"
    )


def impossible(ms: float, least: Floor) -> str:
    """A note on a call that took less than the bytes it needs should take; "" where that is well."""
    if not least.certain or ms >= TARGET_RATIO * least.bytes_ms:
        return ""
    return (
        f"the call takes {ms * 1e3:.3g} us, less than the {least.bytes_ms * 1e3:.3g} us that its bytes take at the "
        "fastest rate measured: the ceiling was measured too low, or not all of the work is done"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"
