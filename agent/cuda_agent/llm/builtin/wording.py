"""What the policy says: its plan, what it expects before it writes, and what it learned."""

from cuda_agent.llm.builtin.design import Design
from cuda_agent.llm.builtin.history import Purpose
from cuda_agent.llm.builtin.progress import Progress, latency
from cuda_agent.llm.builtin.variants import Variant

OPENING = (
    "I start from what the operator computes, not from how it is written: I read its traced graph, then time the "
    "native implementation before I decide on a kernel."
)
PLAN = (
    ("Read the operator's graph", "Reading the operator's graph"),
    ("Profile the native implementation", "Profiling the native implementation"),
    ("Write the kernel, its binding and model_new.py, and build them", "Writing and building the kernel"),
    ("Verify the result", "Verifying the result"),
    ("Profile, and try the variants that may be faster", "Profiling and trying variants"),
    ("Keep the fastest variant that is right", "Keeping the fastest variant"),
)
STEP_TITLES = {
    Purpose.COMPILE: "Build the extension",
    Purpose.VERIFY: "Check the results against the reference",
    Purpose.PROFILE: "Time the kernel against the native implementation",
}
RATE = {"cpu": 15e9, "cuda": 2.5e12}
"""Bytes a second that a first estimate assumes of a kernel that only moves memory."""


def recognised(design: Design) -> str:
    """Return what the graph turned out to be."""
    count = len(design.kernels)
    kernels = "one kernel" if count == 1 else f"{count} kernels"
    size = megabytes(design.kernel_bytes)
    return f"{design.summary} That is {kernels} moving {size}. First the times of the native implementation."


def megabytes(count: int) -> str:
    """Bytes for a person."""
    return f"{count / 1e6:.3g} MB" if count >= 1e5 else f"{count / 1e3:.3g} kB"


def before_writing(design: Design, variant: Variant, progress: Progress) -> str:
    """Why this variant, and what gain is expected of it."""
    refused = [(name, fate.failure) for name, fate in progress.fates.items() if fate.failure is not None]
    speedups = {name: fate.speedup for name, fate in progress.fates.items() if fate.speedup is not None}
    if refused and variant.name == "plain":
        name, report = refused[-1]
        said = str((report or {}).get("reason", "")).rstrip(".") or str((report or {}).get("status"))
        return f"The variant {name!r} was refused ({said}). I fall back to {variant.name!r}: {variant.idea}."
    if speedups:
        name, speedup = max(speedups.items(), key=lambda item: item[1])
        best = f"So far {name!r} is best with {speedup:.3g}x of the native speed."
        return f"{best} Next {variant.name!r}: {variant.idea}; I expect a few per cent at most."
    return f"{_expectation(design, progress)} I begin with {variant.name!r}: {variant.idea}."


def _expectation(design: Design, progress: Progress) -> str:
    guess = design.kernel_bytes / RATE[design.target] * 1e3
    native = latency(progress.baseline, "compile") or latency(progress.baseline, "eager")
    rate = f"about {guess:.3g} ms at {RATE[design.target] / 1e9:.4g} GB/s"
    moved = f"The kernel has to move {megabytes(design.kernel_bytes)}, {rate}"
    if native is None:
        return f"{moved}."
    gain = native / max(guess, 1e-6)
    hope = f"I expect about {gain:.3g}x" if gain > 1.05 else "I expect a gain of a few per cent"
    return f"{moved}; the native implementation takes {native:.4g} ms, so {hope} before fine tuning."


def before_step(variant: Variant, step: Purpose, progress: Progress) -> str:
    """Return a line before a command."""
    again = " again" if progress.fates.get(variant.name) and progress.fates[variant.name].tries[step] else ""
    words = {
        Purpose.COMPILE: f"Building {variant.name!r}{again}.",
        Purpose.VERIFY: f"{variant.name!r} builds. Now its results{again}.",
        Purpose.PROFILE: f"{variant.name!r} is right. Now its time{again}.",
    }
    return words[step]


def restoring(variant: Variant, progress: Progress) -> str:
    """Back to the best variant."""
    speedup = progress.fates[variant.name].speedup
    return f"Every variant is measured; {variant.name!r} is the fastest with {speedup:.3g}x, so I put it back."


def done(best: Variant, progress: Progress) -> str:
    """Return the last words."""
    time = progress.fates[best.name].time_ms
    native = latency(progress.fates[best.name].reports.get(Purpose.PROFILE), "compile")
    against = f" against {native:.4g} ms under torch.compile" if native is not None else ""
    tried = ", ".join(f"{n} {f.speedup:.3g}x" for n, f in progress.fates.items() if f.speedup is not None)
    return f"Done: {best.name!r} takes {time:.4g} ms{against}. Measured: {tried}."


def nothing_left(best: Variant, progress: Progress) -> str:
    """Why there is no more to try."""
    fate = progress.fates[best.name]
    speedup = fate.speedup
    if fate.at_floor:
        return f"{best.name!r} moves its bytes as fast as the device can ({speedup:.3g}x): no variant can gain on that."
    said = (
        f"Every variant of the recipe was tried; the fastest is {best.name!r} with {speedup:.3g}x of the native speed"
    )
    return f"{said}, and there is nothing left that I could change."


def no_variant_passed(progress: Progress) -> str:
    """Why nothing was right."""
    said = [
        f"{n}: {(f.failure or {}).get('status')}, {(f.failure or {}).get('reason', '')}"
        for n, f in progress.fates.items()
    ]
    return f"No variant passed, not even the conservative one ({'; '.join(said)[:600]})."
