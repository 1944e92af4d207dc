"""Computes what a traced graph says, from its JSON alone: ids are values that never change."""

from typing import Any

import torch

from cuda_agent_judge.analyze import describe
from cuda_agent_judge.operator import Operator, clone_inputs
from cuda_agent_judge.screen import Screening
from cuda_agent_judge.trees import flatten


def analysis_of(operator: Operator) -> dict[str, Any]:
    return describe(operator, "cpu", Screening())


def replay(analysis: dict[str, Any], inputs: Any, model: torch.nn.Module) -> list[Any]:
    """The outputs, in order."""
    state = model.state_dict(keep_vars=True)
    values: dict[str, Any] = {entry["id"]: state[entry["name"]].detach() for entry in analysis["parameters"]}
    values |= {f"i{index}": leaf for index, leaf in enumerate(flatten(inputs)[0])}
    for entry in analysis["constants"]:
        dtype = getattr(torch, entry["dtype"])
        values[entry["id"]] = torch.tensor(_decoded(entry["values"], values), dtype=dtype).reshape(entry["shape"])
    for node in analysis["nodes"]:
        _run(node, values)
    return [values[out["ref"]] if "ref" in out else out["value"] for out in analysis["outputs"]]


def _run(node: dict[str, Any], values: dict[str, Any]) -> None:
    _, name, overload = node["op"].split(".")
    function = getattr(getattr(torch.ops.aten, name), overload)
    # Copies, so that an in-place operation cannot change what an id stands for.
    args = [clone_inputs(_decoded(arg, values)) for arg in node["args"]]
    kwargs = {key: clone_inputs(_decoded(arg, values)) for key, arg in node["kwargs"].items()}
    returned = [leaf for leaf in flatten(function(*args, **kwargs))[0] if isinstance(leaf, torch.Tensor)]
    for output, tensor in zip(node["outputs"], returned, strict=True):
        assert list(tensor.shape) == output["shape"], node["op"]
        values[output["id"]] = tensor


def _decoded(value: Any, values: dict[str, Any]) -> Any:
    match value:
        case {"ref": name}:
            return values[name]
        case {"dtype": name}:
            return getattr(torch, name)
        case {"device": name}:
            return torch.device(name)
        case {"float": text}:
            return float(text)
        case {"other": text} if text.startswith("torch."):
            return getattr(torch, text.removeprefix("torch."))
        case list():
            return [_decoded(item, values) for item in value]
    return value
