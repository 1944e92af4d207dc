"""Flattening arguments and results."""

import json
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch

from cuda_agent_judge.trees import Spec, flatten, paths, unflatten

Pair = namedtuple("Pair", "left right")
TREES: dict[str, tuple[Any, list[Any], list[tuple[Any, ...]]]] = {
    "a leaf": (3, [3], [()]),
    "None": (None, [None], [()]),
    "a string": ("ab", ["ab"], [()]),
    "a list": ([1, [2, None]], [1, 2, None], [(0,), (1, 0), (1, 1)]),
    "a tuple": ((1, (2,)), [1, 2], [(0,), (1, 0)]),
    "a dict": ({"b": 1, "a": [True]}, [1, True], [("b",), ("a", 0)]),
    "a named tuple": ([Pair(1, 2.5)], [1, 2.5], [(0, 0), (0, 1)]),
    "nothing": ([], [], []),
    "odd keys": ({3: 1, (1, 2): 2}, [1, 2], [(3,), ("(1, 2)",)]),
}


@pytest.mark.parametrize(("tree", "leaves", "where"), TREES.values(), ids=TREES.keys())
def test_there_and_back(tree: Any, leaves: list[Any], where: list[Any]) -> None:
    flat, spec = flatten(tree)
    assert flat == leaves
    assert paths(tree) == where
    again = unflatten(flat, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec.leaves == len(leaves)


@pytest.mark.parametrize("tree", [3, [1, (2, {"a": None})], {}, {"b": 1, "a": ()}])
def test_a_structure_survives_json(tree: Any) -> None:
    spec = flatten(tree)[1]
    assert Spec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize("value", [3, [], {"list": 1}, {"dict": [[1]]}, {"set": []}, {"list": [], "tuple": []}])
def test_what_is_no_structure_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="no tree structure"):
        Spec.from_json(value)


def test_structures_differ_by_container_and_key() -> None:
    specs = [flatten(tree)[1] for tree in ([1], (1,), {"a": 1}, {"b": 1}, 1, [[1]])]
    assert len({str(spec) for spec in specs}) == len(specs)
    assert all(left != right for i, left in enumerate(specs) for right in specs[:i])


def test_torch_s_named_results_equal_plain_tuples() -> None:
    result = torch.randn(3, 4).max(1)
    flat, spec = flatten(result)
    assert spec == flatten((flat[0], flat[1]))[1]
    assert unflatten(flat, spec).indices is flat[1]


def test_other_dicts_come_back_as_dicts() -> None:
    flat, spec = flatten(OrderedDict(b=1, a=2))
    assert unflatten(flat, spec) == {"b": 1, "a": 2}


def test_a_wrong_number_of_leaves_is_refused() -> None:
    with pytest.raises(ValueError, match="2 leaves"):
        unflatten([1, 2], flatten([1])[1])
