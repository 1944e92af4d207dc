"""Traces operators, and runs the kernels made for them against the operators themselves.

harness.py trace MODULE DIR TARGET      writes DIR/graphs.json and DIR/inputs.pt
harness.py run MODULE DIR               prints one JSON object: by operator "" or what is wrong
"""

import copy
import importlib
import json
import sys
from pathlib import Path

import torch

from cuda_agent_judge.analyze import _parameters, describe_device
from cuda_agent_judge.graph import trace
from cuda_agent_judge.trees import flatten, paths, unflatten
from cuda_agent_judge.values import Geometry

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-9, torch.float32: 1e-6}


def analysis_of(model, inputs, target):
    leaves = list(zip(flatten(inputs)[0], paths(inputs), strict=True))
    named = [(leaf, f"i{k}") for k, (leaf, _) in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    parameters, tensors = _parameters(model)
    graph = trace(model, inputs, [*named, *tensors])
    described = []
    for k, (leaf, path) in enumerate(leaves):
        entry = {"id": f"i{k}", "path": list(path), "kind": "value", "value": None}
        if isinstance(leaf, torch.Tensor):
            entry |= {"kind": "tensor", **Geometry.of(leaf).to_json()}
        described.append(entry)
    return {
        "schema": 1,
        "target": target,
        "device": describe_device("cpu"),
        "inputs": described,
        "parameters": parameters,
        "constants": graph.constants,
        "nodes": graph.nodes,
        "outputs": graph.outputs,
        "returns": graph.returns,
        "data_dependent": graph.data_dependent,
    }


def complaint(want, wide, got):
    """What is wrong with one output, "" when nothing is.

    Floating values are held against the operator in fp64: PyTorch itself rounds half types after each operation, and
    a kernel that does not is nearer to the truth.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype} {tuple(got.shape)} instead of {want.dtype} {tuple(want.shape)}"
    if not want.dtype.is_floating_point:
        return "" if torch.equal(want, got) else f"{int((want != got).sum())} elements differ"
    if not torch.equal(want.isnan(), got.isnan()) or not torch.equal(want.isinf(), got.isinf()):
        return "NaN or infinity in other places"
    allowed = max(TOLERANCE[want.dtype], 1.1 * distance(want, wide))
    error = distance(got, wide)
    return "" if error <= allowed else f"relative error {error:.2g}, allowed are {allowed:.2g}"


def distance(values, wide):
    """The relative L2 error over what is finite."""
    finite = wide.isfinite() & values.isfinite()
    return ((wide.double() - values.double())[finite].norm() / (wide.double()[finite].norm() + 1e-30)).item()


def widened(inputs):
    leaves, spec = flatten(inputs)
    wide = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in leaves]
    return unflatten(wide, spec)


def compared(model, inputs, source):
    names = {}
    exec(compile(source, "model_new.py", "exec"), names)
    made = names["ModelNew"]()
    made.load_state_dict(model.state_dict())
    before = [leaf.clone() for leaf in flatten(inputs)[0] if isinstance(leaf, torch.Tensor)]
    with torch.no_grad():
        got, got_spec = flatten(made.eval()(*inputs))
        after = [leaf for leaf in flatten(inputs)[0] if isinstance(leaf, torch.Tensor)]
        if not all(torch.equal(a, b) or a.isnan().any() for a, b in zip(before, after, strict=True)):
            return "an input was written to"
        want, spec = flatten(model(*inputs))
    if got_spec.to_json() != spec.to_json():
        return f"returns {got_spec.to_json()} instead of {spec.to_json()}"
    with torch.no_grad():
        wide, _ = flatten(copy.deepcopy(model).double()(*widened(inputs)))
    return "; ".join(filter(None, map(complaint, want, wide, got)))


def main():
    command, module, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    torch.manual_seed(0)
    sys.path.insert(0, str(Path(__file__).parent))
    cases = importlib.import_module(module).CASES
    if command == "trace":
        graphs = {name: analysis_of(model, inputs, sys.argv[4]) for name, (model, inputs) in cases.items()}
        (folder / "graphs.json").write_text(json.dumps(graphs))
        return
    torch.ops.load_library(folder / "cuda_extension.so")
    sys.modules["cuda_extension"] = torch.ops.cuda_extension
    said = {}
    for name, (model, inputs) in cases.items():
        source = folder / f"{name}.py"
        if source.exists():
            said[name] = compared(model, inputs, source.read_text())
    print(json.dumps(said))


if __name__ == "__main__":
    main()
