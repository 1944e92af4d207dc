"""model_new.py: the module that holds the parameters, allocates the outputs and calls the kernels."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cuda_agent.llm.builtin.binding_source import kernel_buffers
from cuda_agent.llm.builtin.blocked import AnyKernel
from cuda_agent.llm.builtin.graph import Graph, State
from cuda_agent.llm.builtin.stage import Buffer, Plan


def module_source(name: str, graph: Graph, plan: Plan, kernels: Sequence[AnyKernel]) -> str:
    """Return the file model_new.py."""
    read, written = kernel_buffers(kernels)
    return "\n".join(
        [
            f'"""The operator through the kernels of kernels/{name}.*."""',
            "",
            "import cuda_extension",
            "import torch",
            "import torch.nn as nn",
            "",
            "",
            *_owner_function(graph),
            "class ModelNew(nn.Module):",
            '    """Takes the constructor\'s arguments of Model and has its state_dict."""',
            "",
            "    def __init__(self, *args, **kwargs):",
            "        super().__init__()",
            *(f"        {line}" for state in graph.states for line in _register(state)),
            "",
            "    def forward(self, *args, **kwargs):",
            *(f"        {b.name} = {_source(b, graph)}" for b in read),
            f"        device = {f'{read[0].name}.device' if read else repr(graph.target)}",
            *(f"        {b.name} = {_allocation(b)}" for b in written),
            f"        cuda_extension.{name}({', '.join(b.name for b in [*read, *written])})",
            f"        return {_returned(graph, plan)}",
            "",
        ]
    )


def _owner_function(graph: Graph) -> list[str]:
    if not any("." in state.name for state in graph.states):
        return []
    return [
        "def _owner(module, path):",
        "    for name in path:",
        "        if name not in module._modules:",
        "            module.add_module(name, nn.Module())",
        "        module = module._modules[name]",
        "    return module",
        "",
        "",
    ]


def _register(state: State) -> list[str]:
    *path, leaf = state.name.split(".")
    owner = f"_owner(self, {path!r})" if path else "self"
    spec = state.tensor
    made = f"torch.zeros({list(spec.shape)!r}, dtype=torch.{spec.dtype})"
    if state.kind == "buffer":
        return [f"{owner}.register_buffer({leaf!r}, {made})"]
    floating = spec.dtype.startswith(("float", "bfloat"))
    suffix = "" if floating else ", requires_grad=False"
    return [f"{owner}.register_parameter({leaf!r}, nn.Parameter({made}{suffix}))"]


def _source(buffer: Buffer, graph: Graph) -> str:
    for item in graph.inputs:
        if item.id == buffer.name:
            root = "kwargs" if isinstance(item.path[0], str) else "args"
            return root + "".join(f"[{key!r}]" for key in item.path)
    for state in graph.states:
        if state.tensor.id == buffer.name:
            *path, leaf = state.name.split(".")
            table = "_buffers" if state.kind == "buffer" else "_parameters"
            owner = "self" + "".join(f"._modules[{part!r}]" for part in path)
            return f"{owner}.{table}[{leaf!r}]"
    raise AssertionError(f"nobody provides {buffer.name}")


def _allocation(buffer: Buffer) -> str:
    spec = buffer.spec
    return f"torch.empty_strided({spec.shape!r}, {spec.strides!r}, dtype=torch.{spec.dtype}, device=device)"


def _returned(graph: Graph, plan: Plan) -> str:
    texts = [plan.results[o.ref] if o.ref is not None else repr(o.value) for o in graph.outputs]
    if isinstance(graph.returns, Mapping):
        return _container(graph.returns, iter(texts))
    tree: dict[Any, Any] = {}
    for output, text in zip(graph.outputs, texts, strict=True):
        if not output.path:
            return text
        branch = tree
        for key in output.path[:-1]:
            branch = branch.setdefault(key, {})
        branch[output.path[-1]] = text
    return _tree_text(tree)


def _container(spec: Any, leaves: Iterator[str]) -> str:
    if not isinstance(spec, Mapping):
        return next(leaves)
    if "dict" in spec:
        return "{" + ", ".join(f"{key!r}: {_container(item, leaves)}" for key, item in spec["dict"]) + "}"
    kind = "list" if "list" in spec else "tuple"
    items = "".join(f"{_container(item, leaves)}, " for item in spec[kind]).rstrip(" ")
    return f"[{items.rstrip(',')}]" if kind == "list" else f"({items})"


def _tree_text(tree: Any) -> str:
    if not isinstance(tree, dict):
        return str(tree)
    if all(isinstance(key, int) for key in tree):
        return "(" + "".join(f"{_tree_text(tree[key])}, " for key in sorted(tree)).rstrip(" ") + ")"
    return "{" + ", ".join(f"{key!r}: {_tree_text(item)}" for key, item in tree.items()) + "}"
