"""The end of a run in words a person understands, from what run.json or a Report says."""

import shlex
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuda_agent_judge.report import side_name

_VERDICTS = {
    "win": "win: the kernel is right and at least 5 % faster than {baseline}",
    "tie": "tie: the kernel is right, but not clearly 5 % faster than {baseline}",
    "slower": "slower: the kernel is right, but slower than {baseline}",
    "incorrect": "incorrect: the kernel's results are wrong",
    "compile_error": "compile error: the kernel does not build",
    "runtime_error": "runtime error: the kernel fails when it is called",
    "timeout": "timeout: the kernel does not come to an end",
    "policy": "policy: the submission does what the rules forbid",
    "tampering": "tampering: the submission interferes with its own measurement",
    "inconclusive": "inconclusive: this machine is too noisy to say",
    "not_counted": "not counted: the operator's own result says too little",
    "operator_error": "operator error: the operator cannot be judged",
}
_TIMED = ("win", "tie", "slower", "inconclusive")
"""Their reason is the speedup, which has a line of its own."""
_REASONS = {
    "target_reached": "the target is reached",
    "gave_up": "the model gave up",
    "at_hardware_limit": "no kernel can be 5 % faster here",
    "max_turns": "the limit of turns is reached",
    "budget": "the budget is spent",
    "time_limit": "the time limit is reached",
    "stuck": "the model is stuck",
    "refused": "the provider refused to answer",
    "model_error": "the model failed",
    "sandbox_lost": "the sandbox is gone",
    "interrupted": "interrupted",
}
_RULES = ("precision", "libraries", "output_lifetime")
"""What a person chose; report.json has the others."""
_WIDTH = 86
"""Of a text behind its label."""
_SIDES = ("submission", "compile", "eager")


def run_text(document: Mapping[str, Any], folder: Path) -> str:
    """Return the summary of a run."""
    result = document.get("result")
    lines = []
    if result:
        lines += verdict_lines(result)
        lines.append(f"Kernel:   {folder / 'best'} (model_new.py, kernels/)")
    elif document.get("status") != "running":
        lines.append("Verdict:  none: no submission passed the judge")
    lines.append(f"Stopped:  {_stopped(document)}")
    if document.get("status") in ("interrupted", "failed"):
        lines.append(f"Go on:    cuda-agent resume {shlex.quote(str(folder))}")
    lines.append(f"Run:      {folder}")
    return "\n".join(lines)


def verdict_lines(result: Mapping[str, Any]) -> list[str]:
    """Return the lines on one verdict: in words, latencies, speedups, notes. `result` has the fields of a Report."""
    baseline = side_name(result.get("headline", "compile"))
    words = _VERDICTS.get(result["status"], result["status"]).format(baseline=baseline)
    kind = "" if result.get("final") else " (in the loop; no final verdict)"
    lines = [f"Verdict:  {words}{kind}"]
    if result.get("reason") and result["status"] not in _TIMED:
        lines.append(f"          {result['reason']}")
    lines += _latencies(result)
    lines += _speedups(result)
    lines += _bound(result)
    if result.get("checked_calls"):
        lines.append(f"Checked:  {result['checked_calls']} calls, each on fresh inputs")
    rules = [f"{key.replace('_', ' ')} {value}" for key, value in result.get("rules", {}).items() if key in _RULES]
    if rules:
        lines.append(f"Rules:    target {result['target']}, {', '.join(rules)}, isolation {result['isolation']}")
    lines += [f"Note:     {note}" for note in result.get("notes", [])]
    return lines


def _bound(result: Mapping[str, Any]) -> list[str]:
    """Return what bounds the submission, where the judge found out."""
    judgement = (result.get("performance") or {}).get("judgement") or {}
    found = textwrap.wrap(str(judgement.get("submission") or ""), _WIDTH)
    return [f"{'' if number else 'Bound:':<10}{line}" for number, line in enumerate(found)]


def _latencies(result: Mapping[str, Any]) -> list[str]:
    peaks = result.get("peak_memory_bytes", {})
    lines = []
    for side in _SIDES:
        latency = result.get("latency_ms", {}).get(side)
        if latency is None:
            continue
        peak = f", peak memory {_size(peaks[side])}" if side in peaks else ""
        lines.append(
            f"Time:     {side_name(side):<14} {latency['median']:>8.4g} ms, half of {latency['calls']} calls"
            f" in {latency['q25']:.4g} to {latency['q75']:.4g} ms{peak}"
        )
    return lines


def _speedups(result: Mapping[str, Any]) -> list[str]:
    return [
        f"Speedup:  {one['median']:.3g}x over {side_name(name)} (95 % interval {one['low']:.3g} to {one['high']:.3g})"
        for name in ("compile", "eager")
        if (one := result.get("speedup", {}).get(name))
    ]


def _stopped(document: Mapping[str, Any]) -> str:
    if document.get("error"):
        return str(document["error"]).strip().splitlines()[-1]
    stop = document.get("stop")
    if not stop:
        return "not yet; it is running, or was killed and `cuda-agent resume` goes on with it"
    words = _REASONS.get(stop["reason"], stop["reason"])
    detail = f" ({stop['detail']})" if stop.get("detail") else ""
    turns = document.get("turns", 0)
    return f"{words}{detail} after {turns} turn{'' if turns == 1 else 's'}"


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.4g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"
