"""What a call must return besides right values: plain fresh tensors in the reference's structure, shape and dtype.

The candidate worker says what it got as plain JSON (`describe`); the judge holds that against the reference's own
description (`broken`). Values are compared elsewhere, from raw bytes.
"""

from typing import Any

import torch

from cuda_agent_judge import trees

_Tensor, _flatten = torch.Tensor, trees.flatten
_is_tensor = isinstance
_MAX_TEXT = 200


def describe(output: Any, borrowed: dict[str, list[torch.Tensor]]) -> dict[str, Any]:
    """Describe an output; `borrowed` names tensors whose memory it may share ("inputs", "weights", "previous")."""
    leaves, spec = _flatten(output)
    return {"tree": spec.to_json(), "leaves": [_leaf(leaf, borrowed) for leaf in leaves]}


def tensors(output: Any) -> list[torch.Tensor]:
    """The tensors of an output, in order."""
    return [leaf for leaf in _flatten(output)[0] if isinstance(leaf, _Tensor)]


def broken(meta: dict[str, Any], expected: dict[str, Any], *, held: bool, own: bool = True) -> str:
    """Say in one sentence what is wrong with an output's form, "" when nothing is.

    `held` asks for memory that no output still held uses, `own` for memory that no input or weight uses.
    """
    if meta.get("tree") != expected["tree"]:
        return f"forward returns {_shape_of(meta.get('tree'))}, the reference returns {_shape_of(expected['tree'])}"
    got, want = meta.get("leaves"), expected["leaves"]
    if not isinstance(got, list) or len(got) != len(want):
        return "forward returns another number of outputs than the reference"
    asked = [*(("inputs", "weights") if own else ()), *(("previous",) if held else ())]
    for index, (mine, its) in enumerate(zip(got, want, strict=True)):
        name = f"output {index}" if len(want) > 1 else "the output"
        said = _broken_leaf(name, mine, its, asked)
        if said:
            return said
    return ""


def _leaf(leaf: Any, borrowed: dict[str, list[torch.Tensor]]) -> dict[str, Any]:
    if not _is_tensor(leaf, _Tensor):
        return {"kind": "value", "type": type(leaf).__name__, "value": repr(leaf)[:_MAX_TEXT]}
    kind = type(leaf)
    meta: dict[str, Any] = {
        "kind": "tensor",
        "type": "torch.Tensor" if kind is _Tensor else f"{kind.__module__}.{kind.__qualname__}"[:_MAX_TEXT],
        "dtype": str(leaf.dtype).removeprefix("torch."),
        "shape": list(leaf.shape),
        "device": leaf.device.type,
        "dense": False,
        "aliases": [],
    }
    if kind is _Tensor and leaf.layout == torch.strided and not (leaf.is_conj() or leaf.is_neg() or leaf.is_quantized):
        meta["dense"] = is_dense(tuple(leaf.shape), tuple(leaf.stride()))
        meta["aliases"] = [name for name, others in borrowed.items() if any(overlap(leaf, other) for other in others)]
    return meta


def is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether every element has a place of its own and no place is left over, in whatever order of dimensions."""
    if 0 in shape:
        return True
    step = 1
    for stride, size in sorted((stride, size) for size, stride in zip(shape, strides, strict=True) if size != 1):
        if stride != step:
            return False
        step *= size
    return True


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors' memory overlaps."""
    if one.device != other.device or one.numel() == 0 or other.numel() == 0:
        return False
    (a, a_end), (b, b_end) = _span(one), _span(other)
    return a < b_end and b < a_end


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + elements * tensor.element_size()


def _broken_leaf(name: str, mine: Any, its: dict[str, Any], asked: list[str]) -> str:
    if not isinstance(mine, dict) or mine.get("kind") != its["kind"]:
        return f"{name} is no {its['kind']}; the reference returns one there"
    if its["kind"] == "value":
        same = mine.get("type") == its["type"] and mine.get("value") == its["value"]
        return "" if same else f"{name} is {str(mine.get('value'))[:80]}, the reference returns {its['value']}"
    if mine.get("type") != "torch.Tensor":
        return f"{name} is a {mine.get('type')}; return a plain torch.Tensor"
    for key, word in (("dtype", "dtype"), ("shape", "shape"), ("device", "device")):
        if mine.get(key) != its[key]:
            return f"{name} has {word} {mine.get(key)}, the reference's has {its[key]}"
    if mine.get("dense") is not True:
        return f"{name} is not dense (stride 0, gaps or a lazy form); return a tensor that owns every element"
    return _aliased(name, mine.get("aliases"), its["aliases"], asked)


def _aliased(name: str, mine: Any, its: list[str], asked: list[str]) -> str:
    if not isinstance(mine, list):
        return f"{name} was not described"
    words = {
        "inputs": "shares memory with an input; return fresh memory",
        "weights": "shares memory with a weight; return fresh memory",
        "previous": "uses the memory of the previous output, which is still held; return fresh memory on every call",
    }
    for kind in asked:
        if kind in mine and kind not in its:
            return f"{name} {words[kind]}"
    return ""


def _shape_of(tree: Any) -> str:
    try:
        return {"*": "a single tensor"}.get(text := str(trees.Spec.from_json(tree)), text)[:_MAX_TEXT]
    except (ValueError, RecursionError):
        return "something else"
