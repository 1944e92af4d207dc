"""`analyze`: screens the operator and describes what it computes (docs/analysis.md)."""

import contextlib
import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch

from cuda_agent_judge.analysis_text import analysis_text
from cuda_agent_judge.cache_key import cpu_name
from cuda_agent_judge.encoding import encode
from cuda_agent_judge.gpu import named
from cuda_agent_judge.graph import Graph, trace
from cuda_agent_judge.operator import Device, Operator, OperatorFault, clone_inputs, load
from cuda_agent_judge.report import Report
from cuda_agent_judge.screen import Screening, screen
from cuda_agent_judge.steps import Steps
from cuda_agent_judge.toolchain import compiler_versions
from cuda_agent_judge.trees import flatten, paths
from cuda_agent_judge.values import Geometry, Json

SCHEMA = 1
SEED = 1


def analyze(operator_dir: Path, target: Device, steps: Steps | None = None) -> Report:
    """The report of `analyze`: `measured` with the analysis, or `operator_error` with one sentence."""
    environment = describe_environment(target)
    try:
        operator = load(operator_dir, steps)
        screening = screen(operator, target, SEED)
        if screening.fault:
            raise OperatorFault(screening.fault)
        analysis = describe(operator, target, screening)
    except OperatorFault as fault:
        return Report("analyze", "operator_error", reason=str(fault), target=target, environment=environment)
    notes = list(analysis["notes"])
    return Report(
        "analyze",
        "measured",
        details=analysis_text(analysis),
        target=target,
        environment=environment,
        notes=notes,
        analysis=analysis,
    )


def describe(operator: Operator, target: Device, screening: Screening) -> dict[str, Json]:
    """The analysis of a screened operator.

    Raises:
        OperatorFault: the operator fails now.
    """
    model, inputs = operator.make_model(target), clone_inputs(operator.get_inputs(SEED, target))
    with operator.steps.step("forward, while its operations are recorded,"):
        found = traced(model, inputs)
    degenerate = [screening.degenerate] if screening.degenerate else []
    return {
        "schema": SCHEMA,
        "target": target,
        "device": describe_device(target),
        "torch": torch.__version__,
        "forward": operator.forward_names(),
        **found,
        "notes": [*degenerate, *screening.notes, *found["notes"]],
    }


def traced(model: torch.nn.Module, inputs: Any) -> dict[str, Json]:
    """What a model computes, of the analysis the part that a trace tells; it is run on inputs that it may change."""
    leaves = list(zip(flatten(inputs)[0], paths(inputs), strict=True))
    named = [(leaf, f"i{index}") for index, (leaf, _) in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    parameters, tensors = _parameters(model)
    described = [_input(f"i{index}", leaf, list(path)) for index, (leaf, path) in enumerate(leaves)]
    graph = _trace(model, inputs, [*named, *tensors])
    return {
        "inputs": described,
        "parameters": parameters,
        "constants": graph.constants,
        "nodes": graph.nodes,
        "outputs": graph.outputs,
        "returns": graph.returns,
        "totals": {
            "flops": graph.flops,
            "bytes_required": graph.bytes_required,
            "bytes_written": graph.bytes_written,
            "bytes_moved": graph.bytes_moved,
        },
        "data_dependent": graph.data_dependent,
        "notes": list(graph.notes),
    }


def describe_device(target: Device) -> dict[str, Json]:
    """Name and size of what the kernels run on."""
    if target == "cpu":
        simd = torch.backends.cpu.get_cpu_capability().lower()
        return {"name": cpu_name(), "cores": len(os.sched_getaffinity(0)), "simd": simd}
    gpu = torch.cuda.get_device_properties(0)
    return {
        "name": gpu.name,
        "sm": f"{gpu.major}{gpu.minor}",
        "multiprocessors": gpu.multi_processor_count,
        "l2_bytes": gpu.L2_cache_size,
        "memory_bytes": gpu.total_memory,
    }


def describe_environment(target: Device) -> dict[str, str]:
    """What the report says of the surroundings."""
    device = "no GPU"
    if target == "cpu" or torch.cuda.is_available():
        found = describe_device(target)
        device = f"{found['name']}, {found['cores']} cores, {found['simd']}" if target == "cpu" else str(found["name"])
    return {
        "device": device,
        **({"gpu": named(torch.cuda.get_device_properties(0).uuid)} if device != "no GPU" and target == "cuda" else {}),
        "compiler": compiler_versions(target),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _trace(model: torch.nn.Module, inputs: Any, named: list[tuple[torch.Tensor, str]]) -> Graph:
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return trace(model, inputs, named)
    except Exception as error:
        # It ran when it was screened: something in it does not go through PyTorch's dispatcher.
        text = " ".join(str(error).split())[:200]
        return Graph(notes=[f"the operations could not be recorded ({type(error).__name__}: {text})"])


def _parameters(model: torch.nn.Module) -> tuple[list[dict[str, Json]], list[tuple[torch.Tensor, str]]]:
    """Entries of the state dict, described and as the tensors that forward will use."""
    live = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}
    described: list[dict[str, Json]] = []
    tensors: list[tuple[torch.Tensor, str]] = []
    for name in model.state_dict():
        tensor = live.get(name)
        if tensor is None:  # what a module adds of its own (get_extra_state)
            continue
        kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "buffer"
        identifier = f"p{len(described)}"
        described.append({"id": identifier, "name": name, "kind": kind, **Geometry.of(tensor).to_json()})
        tensors.append((tensor, identifier))
    return described, tensors


def _input(identifier: str, leaf: Any, path: list[str | int]) -> dict[str, Json]:
    if isinstance(leaf, torch.Tensor):
        return {"id": identifier, "path": path, "kind": "tensor", **Geometry.of(leaf).to_json()}
    return {"id": identifier, "path": path, "kind": "value", "value": encode(leaf, lambda _: identifier)}
