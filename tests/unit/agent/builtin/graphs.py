"""Analyses as the judge writes them, of a few small operators."""

from typing import Any

Json = dict[str, Any]


def tensor(name: str, shape: list[int], dtype: str = "float32", strides: list[int] | None = None) -> Json:
    """An input, a constant or an output of a node."""
    steps = [1]
    for size in reversed(shape[1:]):
        steps.insert(0, steps[0] * size)
    return {"id": name, "shape": shape, "strides": strides or steps[: len(shape)], "dtype": dtype, "bytes": 0}


def node(number: int, op: str, args: list[Any], shape: list[int], dtype: str = "float32") -> Json:
    """One operation with one output."""
    out = tensor(f"n{number}", shape, dtype)
    return {"id": f"n{number}", "op": op, "args": args, "kwargs": {}, "outputs": [out], "view": False, "mutates": []}


def ref(name: str) -> Json:
    """An argument that is a tensor."""
    return {"ref": name}


def analysis(inputs: list[Json], nodes: list[Json], target: str = "cpu") -> Json:
    """An operator of these inputs that returns its last node's output."""
    return {
        "schema": 1,
        "target": target,
        "device": {"name": "a processor", "cores": 2},
        "inputs": [{**spec, "path": [k], "kind": "tensor"} for k, spec in enumerate(inputs)],
        "parameters": [],
        "constants": [],
        "nodes": nodes,
        "outputs": [{"path": [], "ref": nodes[-1]["id"]}],
        "data_dependent": False,
    }


def diagonal_product(size: int = 64, target: str = "cpu") -> Json:
    """torch.diag(a) @ b."""
    return analysis(
        [tensor("i0", [size]), tensor("i1", [size, size])],
        [
            node(0, "aten.diag_embed.default", [ref("i0"), 0, -2, -1], [size, size]),
            node(1, "aten.mm.default", [ref("n0"), ref("i1")], [size, size]),
        ],
        target,
    )


def chain(size: int = 64) -> Json:
    """relu(a + b)."""
    return analysis(
        [tensor("i0", [size, size]), tensor("i1", [size])],
        [
            {
                **node(0, "aten.add.Tensor", [ref("i0"), ref("i1")], [size, size]),
                "kwargs": {"alpha": 1},
            },
            node(1, "aten.relu.default", [ref("n0")], [size, size]),
        ],
    )


def dense_product(size: int = 64) -> Json:
    """A @ b, and a running sum of it."""
    return analysis(
        [tensor("i0", [size, size]), tensor("i1", [size, size])],
        [
            node(0, "aten.mm.default", [ref("i0"), ref("i1")], [size, size]),
            node(1, "aten.cumsum.default", [ref("n0"), -1], [size, size]),
        ],
    )
