"""Where the time goes, as lines for a reader."""

from collections.abc import Mapping, Sequence
from typing import Any

from cuda_agent_judge.bounds import time_text
from cuda_agent_judge.report import side_name
from cuda_agent_judge.roofline import Ceilings, Need

Json = Any
MAX_NAME = 60
_SHOWN = 8


def performance_text(performance: Mapping[str, Json]) -> list[str]:
    """The lines: need and floor, ceilings, each side's rates, eager's operations, the kernels."""
    if "unknown" in performance:
        return [f"what the operator costs here could not be found out: {performance['unknown']}"]
    need = Need.from_json(performance["need"])
    lines = [_floor(performance, need), _ceilings(performance)]
    for side, words in performance["judgement"].items():
        rates = performance["rates"].get(side) or {}
        if words and rates:
            lines.append(
                f"{side_name(side)}: {count_text(rates['gb_s'] * 1e9)}B/s of needed bytes, "
                f"{count_text(rates['tflop_s'] * 1e12)}FLOP/s; {words}"
            )
    if performance["enqueue_us"]:
        lines.append(_enqueue(performance["enqueue_us"], performance["launch_bound"]))
    if performance["in_a_row_us"]:
        lines.append(f"queued in a row, by the judge's clock, a call takes: {_by_side(performance['in_a_row_us'])}")
    if performance.get("operations"):
        lines += _operations(performance["operations"], need)
    if performance.get("submission"):
        lines += _submission(performance["submission"], performance["device"])
    return lines + ([performance["at_limit"]] if performance["at_limit"] else [])


def short_name(name: str) -> str:
    """A kernel's name without its return type and its parameters."""
    name = name.removeprefix("void ")
    depth = 0
    for index, char in enumerate(name):
        depth += (char in "<[") - (char in ">]")
        if char == "(" and depth == 0 and not name.startswith("(anonymous namespace)", index):
            name = name[:index].rstrip()
            break
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 3] + "..."


def count_text(count: float) -> str:
    """A number with its prefix, for a unit to follow: "12.6 M"."""
    for prefix in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {prefix}"
        count /= 1000
    return f"{count:.3g} T"


def _floor(performance: Mapping[str, Json], need: Need) -> str:
    least = performance["floor"]
    flops = sum(need.flops.values())
    which = "bytes" if least["bytes_ms"] >= least["flops_ms"] else "arithmetic"
    certain = "" if need.certain else ", if every byte is needed"
    return (
        f"floor {time_text(least['ms'])}, by its {which}: {count_text(need.read_bytes)}B to read and "
        f"{count_text(need.written_bytes)}B to write take {time_text(least['bytes_ms'])}{certain}; "
        f"{count_text(flops)}FLOP take {time_text(least['flops_ms'])}"
    )


def _ceilings(performance: Mapping[str, Json]) -> str:
    ceilings = Ceilings.from_json(performance["ceilings"])
    memory = "; ".join(
        f"{count_text(one.bytes)}B: read {one.read:.0f}, write {one.write:.0f}, copy {one.copy:.0f} GB/s"
        for one in ceilings.memory
    )
    products = ", ".join(f"{kind} {rate:.3g}" for kind, rate in ceilings.tflops.items())
    threads = f" with {ceilings.threads} threads" if ceilings.threads else ""
    return f"measured ceilings{threads}: {memory}; matrix products {products} TFLOP/s"


def _enqueue(by_side: Mapping[str, float], launch_bound: Sequence[str]) -> str:
    line = f"the host enqueues a call in: {_by_side(by_side)} (not in the times above, which are the device's own)"
    if launch_bound:
        names = " and ".join(side_name(side) for side in launch_bound)
        line += f"; {names}: launch-bound, since the host takes longer to enqueue a call than the device to run it"
    return line


def _by_side(us: Mapping[str, float]) -> str:
    return ", ".join(f"{side_name(side)} {time_text(value / 1e3)}" for side, value in us.items())


def _operations(rows: list[dict[str, Json]], need: Need) -> list[str]:
    total = sum(row["us"] for row in rows) or 1.0
    moved = sum(row["bytes"] for row in rows)
    lines = [
        f"eager moves {count_text(moved)}B operation by operation, {moved / max(need.bytes, 1):.3g}x the needed bytes; "
        "its time by operation:"
    ]
    for row in rows[:_SHOWN]:
        gb_s = row["bytes"] / row["us"] / 1e3 if row["us"] else 0.0
        lines.append(
            f"  {row['name']} {row['calls']}x {time_text(row['us'] / 1e3)} ({100 * row['us'] / total:.0f} %), "
            f"{count_text(row['bytes'])}B at {count_text(gb_s * 1e9)}B/s"
        )
    return lines


def _submission(run: Mapping[str, Json], device: Mapping[str, Json]) -> list[str]:
    if not run["rows"]:
        return ["one call was recorded: none of its kernels can be seen by the profiler"]
    gaps = max(0.0, run["span_us"] - run["busy_us"])
    on_host = run["rows"][0]["kind"] == "operation"
    rest = "between them, in Python and in allocation" if on_host else "between them on the device"
    busy, span, idle = (time_text(us / 1e3) for us in (run["busy_us"], run["span_us"], gaps))
    lines = [
        f"one call recorded: {'operations' if on_host else 'launches'} {run['launches']}, "
        f"running {busy} of {span}; {idle} {rest}"
    ]
    lines += [_row(row, run["busy_us"], device) for row in run["rows"][:_SHOWN]]
    hidden = run["left_out"] + max(0, len(run["rows"]) - _SHOWN)
    return lines + ([f"  ... and {hidden} more kinds"] if hidden else [])


def _row(row: Mapping[str, Json], busy_us: float, device: Mapping[str, Json]) -> str:
    share = f" ({100 * row['us'] / busy_us:.0f} %)" if busy_us > 0 else ""
    text = f"  {short_name(row['name'])} {row['calls']}x {time_text(row['us'] / 1e3)}{share}"
    if row["kind"] != "kernel":
        return text if row["kind"] == "operation" else f"{text} [{row['kind']}]"
    grid, block = ("x".join(map(str, _trimmed(row[key]))) for key in ("grid", "block"))
    parts = [f"grid {grid}", f"block {block}", f"{row['registers']} registers"]
    if row["shared_bytes"]:
        parts.append(f"{count_text(row['shared_bytes'])}B shared")
    if "spill_bytes" in row:
        parts.append(f"{count_text(row['spill_bytes'])}B spilled" if row["spill_bytes"] else "no spills")
    if "occupancy" in row:
        limiter = "" if row["occupancy"] >= 1 else f", limited by {row['limiter']}"
        parts.append(f"occupancy {100 * row['occupancy']:.0f} %{limiter}")
    return f"{text}: {', '.join(parts)}{_idle(row, device)}"


def _idle(row: Mapping[str, Json], device: Mapping[str, Json]) -> str:
    blocks, multiprocessors = 1, device.get("multiprocessors", 0)
    for count in row["grid"]:
        blocks *= count
    if 0 < blocks < multiprocessors:
        return f"; {multiprocessors - blocks} of {multiprocessors} multiprocessors have no block"
    return ""


def _trimmed(shape: list[int]) -> list[int]:
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return shape
