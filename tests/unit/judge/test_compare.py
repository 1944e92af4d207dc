"""The tolerance and the contract of outputs."""

import math

import pytest
import torch

from cuda_agent_judge import buffers, contract, drawing, expected, sampling
from cuda_agent_judge.compare import compare, twin_error

WIDE = torch.randn(64, 33, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
TWIN = WIDE.float()


def test_rounding_passes_and_one_wrong_element_does_not() -> None:
    assert compare("", TWIN, WIDE, TWIN).ok
    wrong = TWIN.clone()
    wrong[3, 3] += 0.1
    outcome = compare("h", wrong, WIDE, TWIN)
    assert not outcome.ok
    assert "output h" in outcome.reason


def test_a_small_error_everywhere_is_seen_by_its_relative_l2() -> None:
    assert not compare("", TWIN * 1.002, WIDE, TWIN).ok
    assert compare("", TWIN * 1.0005, WIDE, TWIN).ok


def test_half_types_have_wider_limits() -> None:
    twin = WIDE.half()
    assert compare("", twin * 1.01, WIDE, twin).ok
    assert not compare("", twin * 1.05, WIDE, twin).ok


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_values_pass_only_where_the_reference_has_them(value: float) -> None:
    got, wide = TWIN.clone(), WIDE.clone()
    got[5, 5] = value
    assert not compare("", got, WIDE, TWIN).ok
    wide[5, 5] = value
    twin = wide.float()
    assert compare("", got, wide, twin).ok
    assert not compare("", TWIN, wide, twin).ok
    got[5, 5] = math.nan if value != value or value > 0 else math.inf
    assert compare("", got, wide, twin).ok == (value != value)


def test_an_overflow_of_the_outputs_dtype_is_the_twins_too() -> None:
    wide = torch.tensor([1.0, 70000.0], dtype=torch.float64)
    assert compare("", wide.half(), wide, wide.half()).ok


def test_an_ill_conditioned_reference_allows_its_own_error() -> None:
    twin = TWIN * (1 + 0.01 * torch.rand(TWIN.shape))
    assert compare("", twin, WIDE, twin).ok
    assert twin_error(WIDE, twin) > 1e-3
    assert not compare("", TWIN * 1.2, WIDE, twin).ok


def test_integers_and_booleans_are_exact() -> None:
    numbers = torch.arange(10)
    assert compare("", numbers, numbers, numbers).ok
    assert not compare("", numbers + (numbers == 3), numbers, numbers).ok
    flags = torch.tensor([True, False])
    poisoned = torch.tensor([0xA5, 0], dtype=torch.uint8).view(torch.bool)
    assert compare("", flags, flags, flags).ok
    assert not compare("", poisoned, flags, flags).ok


def test_a_zero_reference_takes_zeros_only() -> None:
    zero = torch.zeros(4, dtype=torch.float64)
    assert compare("", zero.float(), zero, zero.float()).ok
    assert not compare("", torch.full((4,), 1e-6), zero, zero.float()).ok


def test_degenerate_answers_are_named() -> None:
    a, b = torch.randn(50, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    ones = torch.ones(50, dtype=torch.float64)
    assert expected.degenerate([a], [[b]], True) == ""
    assert "zeros" in expected.degenerate([a * 0], [[a * 0]], True)
    assert "depend" in expected.degenerate([a], [[a]], True)
    assert expected.degenerate([a], [[a]], False) == ""
    assert "constant" in expected.degenerate([ones], [[ones]], False)


def test_answers_that_are_alike_by_chance_are_told_apart_by_later_ones() -> None:
    first, near, far = (torch.tensor(value, dtype=torch.float64) for value in (1.13, 1.1301, 1.2))
    assert "depend" in expected.degenerate([first], [[near], [near]], True)
    assert expected.degenerate([first], [[near], [near], [far]], True) == ""


@pytest.mark.parametrize(
    ("tensor", "dense"),
    [
        (torch.empty(3, 4), True),
        (torch.empty(3, 4).t(), True),
        (torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last), True),
        (torch.empty(3, 8)[:, :4], False),
        (torch.empty(1, 4).expand(3, 4), False),
        (torch.empty(()), True),
        (torch.empty(0, 3), True),
    ],
)
def test_density(tensor: torch.Tensor, dense: bool) -> None:
    assert contract.is_dense(tuple(tensor.shape), tuple(tensor.stride())) is dense


def test_the_contract_names_what_is_shared() -> None:
    x = torch.randn(4, 4)
    form = contract.describe(x + 1, {})
    for said, borrowed in (("an input", "inputs"), ("a weight", "weights"), ("previous", "previous")):
        assert said in contract.broken(contract.describe(x, {borrowed: [x[1:]]}), form, held=True)
    assert contract.broken(contract.describe(x, {"previous": [x]}), form, held=False) == ""
    own = contract.describe(x, {"inputs": [x]})
    assert contract.broken(own, own, held=True) == ""


def test_a_nest_of_another_form_is_named() -> None:
    form = contract.describe((torch.ones(2), {"h": torch.ones(3)}), {})
    assert contract.broken(contract.describe((torch.ones(2), {"h": torch.ones(3)}), {}), form, held=True) == ""
    assert "returns" in contract.broken(contract.describe([torch.ones(2), torch.ones(3)], {}), form, held=True)
    assert contract.broken({}, form, held=True)
    assert contract.broken({"tree": form["tree"], "leaves": [1, 2]}, form, held=True)


def test_strided_tensors_survive_a_shared_area() -> None:
    tensors = [torch.randn(8, 6).t(), torch.randn(1, 5).expand(4, 5), torch.arange(3), torch.randn(6, 8)[:, ::2]]
    packed = buffers.layout(tensors)
    area = torch.zeros(packed.size, dtype=torch.uint8)
    for leaf, tensor in zip(packed.leaves, tensors, strict=True):
        leaf.raw(area).copy_(buffers.extent_of(tensor))
        back = leaf.view(leaf.raw(area))
        assert torch.equal(back, tensor)
        assert back.stride() == tensor.stride()
    assert buffers.Layout.from_json(packed.to_json()) == packed


def test_a_changed_byte_changes_the_checksum() -> None:
    values = torch.randn(1001)
    before = buffers.checksum(values)
    values[1000] += 1
    assert buffers.checksum(values) != before


def test_structured_inputs_are_left_alone() -> None:
    noise = torch.rand(64, 64)
    assert drawing.unstructured(noise)
    assert not drawing.unstructured(noise + noise.t())
    assert not drawing.unstructured(noise.tril())
    assert not drawing.unstructured(torch.softmax(noise, -1))
    assert not drawing.unstructured(torch.randint(0, 9, (64, 8)).float())
    assert not drawing.unstructured(noise.sort(-1).values.reshape(-1).sort().values)
    assert not drawing.unstructured(torch.arange(64))


def test_a_value_that_changes_after_the_call_is_seen() -> None:
    output = torch.randn(1000)
    taken = sampling.sample([output])
    assert sampling.settled(taken, [output])
    output += 1
    assert not sampling.settled(taken, [output])


def test_memory_at_an_address_is_a_tensor() -> None:
    owner = torch.arange(16, dtype=torch.uint8)
    view = buffers.over_pointer(owner.data_ptr(), 16, torch.device("cpu"))
    view[3] = 99
    assert owner[3] == 99
    assert view.shape == (16,)
